-- AlterTable
ALTER TABLE "mirror"."sellers" ADD COLUMN     "history_since" TIMESTAMPTZ(6);

-- AlterTable
ALTER TABLE "mirror"."audits" ADD COLUMN     "list_pruned_at" TIMESTAMPTZ(6);

COMMENT ON COLUMN "mirror"."sellers"."history_since" IS 'Superseded states that ended by this moment may have been deleted: from it on, history and what was as of a moment are whole. Null: nothing was deleted.';
COMMENT ON COLUMN "mirror"."audits"."list_pruned_at" IS 'When the deletion of the list began, audit_entries and audit_codes. The figures of the audit, its codes and its checks stay.';
COMMENT ON FUNCTION "reporting"."items_as_of"(timestamptz) IS 'The rows of reporting.items as they were at a moment. What a run found counts from the moment when the run began. Where superseded states are deleted after a time (KEEP_VERSIONS_DAYS), it is whole for moments since then only: mirror.sellers.history_since.';
COMMENT ON FUNCTION "reporting"."accounts_as_of"(timestamptz) IS 'The rows of reporting.accounts as they were at a moment. What a run found counts from the moment when the run began. Where superseded states are deleted after a time (KEEP_VERSIONS_DAYS), it is whole for moments since then only: mirror.sellers.history_since.';

-- Who follows purchases is not told of a record as received that is no longer kept: feeds don't have it.
DROP TRIGGER "number_updated_purchase" ON "mirror"."purchase_codes";

CREATE TRIGGER "number_updated_purchase" BEFORE UPDATE ON "mirror"."purchase_codes"
FOR EACH ROW WHEN (NEW."changed_seq" IS NOT DISTINCT FROM OLD."changed_seq" AND NOT (NEW."raw" IS NULL AND OLD."raw" IS NOT NULL))
EXECUTE FUNCTION "mirror"."number_purchase"();
