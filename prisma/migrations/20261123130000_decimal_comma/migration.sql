-- The result of an audit that was stopped is written by another process, with decimal commas where they were asked for.

-- AlterTable
ALTER TABLE "mirror"."audits" ADD COLUMN     "result_decimal_comma" BOOLEAN NOT NULL DEFAULT false;
