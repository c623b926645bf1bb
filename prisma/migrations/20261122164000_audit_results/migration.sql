-- An audit that was stopped goes on in another process, which writes the result where it was to go.

-- AlterTable
ALTER TABLE "mirror"."audits" ADD COLUMN     "result_format" TEXT,
ADD COLUMN     "result_path" TEXT,
ADD COLUMN     "result_written_at" TIMESTAMPTZ(6);
