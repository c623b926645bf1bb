-- AlterTable
ALTER TABLE "mirror"."purchase_codes" ADD COLUMN     "changed_seq" BIGINT;

-- CreateIndex
CREATE INDEX "purchase_codes_changed_seq_idx" ON "mirror"."purchase_codes"("changed_seq") WHERE (changed_seq IS NOT NULL);

-- Purchases take their numbers from the sequence of item_changes, so that one number says how far a
-- reader of both is. Writers don't wait for each other: each holds a lock that it shares with the
-- others from before its first number to its commit, and who wants to know up to which number all is
-- committed takes it alone for a moment.
CREATE FUNCTION "mirror"."enter_purchase_feed"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('seller-mirror/purchases', 0));
    RETURN NULL;
END $$;

CREATE TRIGGER "enter_purchase_feed" BEFORE INSERT OR UPDATE ON "mirror"."purchase_codes"
FOR EACH STATEMENT EXECUTE FUNCTION "mirror"."enter_purchase_feed"();

-- For writers that do not number what they write themselves, which is cheaper.
CREATE FUNCTION "mirror"."number_purchase"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW."changed_seq" := nextval('"mirror"."item_changes_seq_seq"');
    RETURN NEW;
END $$;

CREATE TRIGGER "number_inserted_purchase" BEFORE INSERT ON "mirror"."purchase_codes"
FOR EACH ROW WHEN (NEW."verdict" IS NOT NULL AND NEW."changed_seq" IS NULL)
EXECUTE FUNCTION "mirror"."number_purchase"();

CREATE TRIGGER "number_updated_purchase" BEFORE UPDATE ON "mirror"."purchase_codes"
FOR EACH ROW WHEN (NEW."changed_seq" IS NOT DISTINCT FROM OLD."changed_seq")
EXECUTE FUNCTION "mirror"."number_purchase"();

COMMENT ON COLUMN "mirror"."purchase_codes"."changed_seq" IS 'The place of the last write among the numbers of item_changes. Null when none was made since there are feeds, or nothing is known of the code.';
