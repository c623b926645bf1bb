-- A first verdict changes nothing that was known, and each code has one.
DELETE FROM "mirror"."code_transitions" WHERE "kind" = 'first-seen';

COMMENT ON COLUMN "reporting"."purchase_transitions"."kind" IS 'became-invalid (was valid: probably refunded), became-valid, license-changed, price-changed, item-changed, support-extended, support-shortened or support-expired. A first verdict is no transition.';
