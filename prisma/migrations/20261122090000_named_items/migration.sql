-- A purchase may name its item and not number it.
COMMENT ON COLUMN "reporting"."purchases"."item_name" IS 'Present name of the item, or the name that the purchase told where the mirror does not hold the item.';
COMMENT ON COLUMN "reporting"."purchase_transitions"."item_name" IS 'Present name of the item, or the name that the purchase told where the mirror does not hold the item.';
