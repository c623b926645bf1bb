-- AlterTable
ALTER TABLE "mirror"."sellers" ADD COLUMN     "undecided_run_id" BIGINT,
ADD COLUMN     "undecided_seq" BIGINT;

-- AlterTable
ALTER TABLE "mirror"."item_lookups" ADD COLUMN     "found_seq" BIGINT,
ADD COLUMN     "run_id" BIGINT,
ADD COLUMN     "unlisted" BOOLEAN NOT NULL DEFAULT true;

-- CreateIndex
CREATE INDEX "item_lookups_found_seq_idx" ON "mirror"."item_lookups"("found_seq") WHERE (found_seq IS NOT NULL);

COMMENT ON COLUMN "mirror"."sellers"."undecided_run_id" IS 'The run whose list no longer named items that were live, until its look-ups have decided what became of them; see undecided_items. Null when nothing is undecided.';
COMMENT ON COLUMN "mirror"."sellers"."undecided_seq" IS 'The place of that list among the numbers of item_changes, which do not tell yet that these items are missing.';
COMMENT ON COLUMN "mirror"."item_lookups"."outcome" IS 'found; gone: denied twice, between proofs of the key and after an item that is there was found; denied: not proven; unanswered.';
COMMENT ON COLUMN "mirror"."item_lookups"."run_id" IS 'The run that asked. Null for look-ups from before this was kept.';
COMMENT ON COLUMN "mirror"."item_lookups"."unlisted" IS 'Whether the newest list does not name the item. An item that is live nevertheless was found by its look-up.';
COMMENT ON COLUMN "mirror"."item_lookups"."found_seq" IS 'The place among the numbers of item_changes at which an undecided item was found: it is live as before, which is no change.';

-- CreateView
CREATE VIEW "mirror"."undecided_items" AS
SELECT
    i."seller_id",
    i."item_id",
    s."undecided_run_id" AS "run_id",
    s."undecided_seq" AS "seq",
    date_trunc('milliseconds', r."started_at") AS "since"
FROM "mirror"."sellers" AS s
JOIN "mirror"."runs" AS r ON r."run_id" = s."undecided_run_id"
JOIN "mirror"."items" AS i
  ON i."seller_id" = s."seller_id" AND i."state" = 'missing' AND i."synced_run_id" = s."undecided_run_id";

COMMENT ON VIEW "mirror"."undecided_items" IS 'Items that a list no longer names and whose look-ups are not done: they are missing since that run began, which item_changes do not tell yet. A look-up that finds one takes that back.';

-- CreateView
CREATE OR REPLACE VIEW "reporting"."items_daily" AS
WITH "first_lists" AS MATERIALIZED (
    SELECT
        s."seller_id",
        (coalesce(r."started_at", s."created_at") AT TIME ZONE 'UTC')::date AS "day",
        coalesce(r."added", 0)::bigint AS "items"
    FROM "mirror"."sellers" AS s
    LEFT JOIN "mirror"."runs" AS r ON r."run_id" = s."loaded_run_id"
    WHERE s."loaded_run_id" IS NOT NULL
)
SELECT
    d."seller_id",
    d."day",
    coalesce(p."live", 0) - coalesce(sum(s."live_change") OVER "later", 0)::bigint AS "live",
    coalesce(p."missing", 0) - coalesce(sum(s."missing_change") OVER "later", 0)::bigint AS "missing",
    coalesce(s."added", 0) + d."first_items" AS "added",
    coalesce(s."restored", 0) AS "restored",
    coalesce(s."removed", 0) AS "removed",
    coalesce(r."changed", 0) AS "changed",
    coalesce(r."runs", 0) AS "runs"
FROM (
    SELECT l."seller_id", l."day" + n AS "day", CASE n WHEN 0 THEN l."items" ELSE 0 END AS "first_items"
    FROM "first_lists" AS l
    CROSS JOIN LATERAL generate_series(0, (now() AT TIME ZONE 'UTC')::date - l."day") AS n
) AS d
LEFT JOIN (
    SELECT
        n."seller_id",
        (n."changed_at" AT TIME ZONE 'UTC')::date AS "day",
        sum(n."added")::bigint AS "added",
        sum(n."restored")::bigint AS "restored",
        sum(n."removed")::bigint AS "removed",
        sum(n."live_change") AS "live_change",
        sum(n."missing_change") AS "missing_change"
    FROM (
        -- All that one run found has the run's moment, so that days are made of few rows.
        SELECT
            c."seller_id",
            c."changed_at",
            count(*) FILTER (WHERE c."class" = 'added') AS "added",
            count(*) FILTER (WHERE c."class" = 'restored') AS "restored",
            count(*) FILTER (WHERE c."class" = 'removed') AS "removed",
            sum(CASE WHEN c."class" IN ('added', 'restored') THEN 1
                     WHEN c."class" = 'missing' AND c."new_value" = '"live"' THEN 1
                     WHEN c."old_value" = '"live"' THEN -1 ELSE 0 END) AS "live_change",
            sum(CASE WHEN c."class" IN ('added', 'restored') THEN 0
                     WHEN c."class" = 'missing' AND c."new_value" = '"missing"' THEN 1
                     WHEN c."old_value" = '"missing"' THEN -1 ELSE 0 END) AS "missing_change"
        FROM "mirror"."item_changes" AS c
        WHERE c."field" = 'state'
        GROUP BY c."seller_id", c."changed_at"
        UNION ALL
        -- Missing already, and told when look-ups have decided.
        SELECT u."seller_id", u."since", 0, 0, 0, -count(*), count(*)
        FROM "mirror"."undecided_items" AS u
        GROUP BY u."seller_id", u."since"
    ) AS n
    GROUP BY 1, 2
) AS s ON s."seller_id" = d."seller_id" AND s."day" = d."day"
LEFT JOIN (
    SELECT
        r."seller_id",
        (r."started_at" AT TIME ZONE 'UTC')::date AS "day",
        sum(r."changed")::bigint AS "changed",
        count(*) FILTER (WHERE r."kind" = 'items' AND r."state" IN ('succeeded', 'held')) AS "runs"
    FROM "mirror"."runs" AS r
    WHERE r."kind" IN ('items', 'item')
    GROUP BY 1, 2
) AS r ON r."seller_id" = d."seller_id" AND r."day" = d."day"
LEFT JOIN (
    SELECT
        i."seller_id",
        count(*) FILTER (WHERE i."state" = 'live') AS "live",
        count(*) FILTER (WHERE i."state" = 'missing') AS "missing"
    FROM "mirror"."items" AS i
    GROUP BY 1
) AS p ON p."seller_id" = d."seller_id"
-- From the present backwards, so that it is right as far back as changes are kept.
WINDOW "later" AS (PARTITION BY d."seller_id" ORDER BY d."day"
                   ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING);
