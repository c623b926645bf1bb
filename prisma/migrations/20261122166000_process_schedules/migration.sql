-- A schedule is kept only while a process runs that has it: who looks at the next times asks for that.

-- AlterTable
ALTER TABLE "mirror"."processes" ADD COLUMN     "schedules" JSONB NOT NULL DEFAULT '[]';
