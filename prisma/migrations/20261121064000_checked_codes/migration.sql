-- DropForeignKey
ALTER TABLE "mirror"."code_checks" DROP CONSTRAINT "code_checks_code_id_fkey";

-- DropForeignKey
ALTER TABLE "mirror"."code_transitions" DROP CONSTRAINT "code_transitions_code_id_fkey";

-- To look a code up again for each of its rows took a sixth of the time of recording, though the writer has
-- locked that very code. What is left to guard is the other end: a code with a history is not deleted.
CREATE FUNCTION "mirror"."keep_checked_code"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM "mirror"."code_checks" WHERE "code_id" = OLD."code_id")
       OR EXISTS (SELECT FROM "mirror"."code_transitions" WHERE "code_id" = OLD."code_id") THEN
        RAISE EXCEPTION 'code % has rows in mirror.code_checks or mirror.code_transitions', OLD."code_id"
            USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER "keep_checked_code" BEFORE DELETE ON "mirror"."purchase_codes"
FOR EACH ROW EXECUTE FUNCTION "mirror"."keep_checked_code"();
