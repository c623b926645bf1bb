-- One word for one thing: a run of all items is called as the command that starts it.
ALTER TYPE "mirror"."run_kind" RENAME VALUE 'catalogue' TO 'items';

-- AlterTable
ALTER TABLE "mirror"."runs" RENAME COLUMN "catalogue_wide" TO "wide_fields";

-- AlterView
ALTER VIEW "reporting"."sync_runs" RENAME COLUMN "catalogue_wide" TO "wide_fields";
ALTER VIEW "reporting"."catalogue_daily" RENAME TO "items_daily";

COMMENT ON COLUMN "mirror"."runs"."compared" IS 'Of a run with wide_fields: items that the list named and the mirror held before.';
COMMENT ON COLUMN "mirror"."runs"."wide_items" IS 'In how many of the compared items each field of wide_fields changed, in its order.';
COMMENT ON COLUMN "reporting"."sync_runs"."kind" IS 'account: the account alone. items: all items. item: one item. approval: removal of items of a held run that a person approved.';
COMMENT ON VIEW "reporting"."items_daily" IS 'Numbers of items day by day in UTC, one row for each seller and each day from its first list to today, those without a run included: their figures of change are 0 and their numbers of items are those of the day before. What a run found counts for the day on which it began.';
COMMENT ON COLUMN "reporting"."items_daily"."runs" IS 'Runs that mirrored all items on that day (succeeded or held), as far as they are kept (KEEP_RUNS_DAYS). 0 tells a day on which nobody looked or, before the runs that are kept, on which nothing was found changed.';

-- Items that a list names for the first time are added, in numbers of runs and in changes alike.
ALTER TYPE "mirror"."change_class" RENAME VALUE 'listing' TO 'added';
-- The date of publication was of the same class, but adds no item.
UPDATE "mirror"."item_changes" SET "class" = 'release' WHERE "class" = 'added' AND "field" <> 'state';
COMMENT ON COLUMN "reporting"."item_changes"."class" IS 'price, release (versions and dates of publication), text, media, added (listed for the first time), missing (no longer listed, or found after all), removed or restored.';
