-- The checkpoints around each denial, so that an invalid code is explained with their times.
-- Rows of older versions stay without. No table is rewritten.

-- AlterTable
ALTER TABLE "mirror"."code_checks" ADD COLUMN "checkpoint_before" TIMESTAMPTZ(6),
ADD COLUMN "checkpoint_after" TIMESTAMPTZ(6);

COMMENT ON COLUMN "mirror"."code_checks"."checkpoint_before" IS 'When the checkpoint before a denial was complete; null for other answers, and in rows of older versions.';
COMMENT ON COLUMN "mirror"."code_checks"."checkpoint_after" IS 'When the checkpoint after a denial was complete; null for other answers, and in rows of older versions.';

-- AlterTable: denials are read from the ledger.
ALTER TABLE "mirror"."audit_codes" DROP COLUMN "first_denied_at";
