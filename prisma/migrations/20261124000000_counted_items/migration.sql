-- How many items a seller has in each state, kept by the runs that change it. Each look at a status, at the
-- dashboard or at the metrics counted them.
-- AlterTable
ALTER TABLE "mirror"."sellers" ADD COLUMN     "live_items" INTEGER NOT NULL DEFAULT 0,
ADD COLUMN     "missing_items" INTEGER NOT NULL DEFAULT 0,
ADD COLUMN     "removed_items" INTEGER NOT NULL DEFAULT 0;

UPDATE "mirror"."sellers" AS s
   SET "live_items" = i."live", "missing_items" = i."missing", "removed_items" = i."removed"
  FROM (SELECT "seller_id",
               count(*) FILTER (WHERE "state" = 'live') AS "live",
               count(*) FILTER (WHERE "state" = 'missing') AS "missing",
               count(*) FILTER (WHERE "state" = 'removed') AS "removed"
          FROM "mirror"."items" GROUP BY "seller_id") AS i
 WHERE i."seller_id" = s."seller_id";

COMMENT ON COLUMN "mirror"."sellers"."live_items" IS 'Number of items that are live, as the last run left them; missing_items and removed_items likewise.';

-- The dashboard sorts items by price: with the price in this index, it need not read all items for that. An
-- index of its own would add 6 % to a first load, which writes this one in its order.
DROP INDEX "mirror"."items_seller_id_state_changed_at_idx";
CREATE INDEX "items_seller_id_state_changed_at_idx" ON "mirror"."items"("seller_id", "state", "changed_at") INCLUDE ("item_id", "price_regular");

-- What items_daily adds up, so that the dashboard can add up the last days only.
CREATE VIEW "mirror"."state_changes" AS
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
GROUP BY u."seller_id", u."since";

COMMENT ON VIEW "mirror"."state_changes" IS 'By run: items that became live, missing or removed, also those that item_changes do not tell yet; see undecided_items.';

CREATE OR REPLACE VIEW "reporting"."items_daily" AS
WITH "first_lists" AS MATERIALIZED (
    SELECT
        s."seller_id",
        (coalesce(r."started_at", s."created_at") AT TIME ZONE 'UTC')::date AS "day",
        coalesce(r."added", 0)::bigint AS "items",
        s."live_items"::bigint AS "live_items",
        s."missing_items"::bigint AS "missing_items"
    FROM "mirror"."sellers" AS s
    LEFT JOIN "mirror"."runs" AS r ON r."run_id" = s."loaded_run_id"
    WHERE s."loaded_run_id" IS NOT NULL
)
SELECT
    d."seller_id",
    d."day",
    d."live_items" - coalesce(sum(s."live_change") OVER "later", 0)::bigint AS "live",
    d."missing_items" - coalesce(sum(s."missing_change") OVER "later", 0)::bigint AS "missing",
    coalesce(s."added", 0) + d."first_items" AS "added",
    coalesce(s."restored", 0) AS "restored",
    coalesce(s."removed", 0) AS "removed",
    coalesce(r."changed", 0) AS "changed",
    coalesce(r."runs", 0) AS "runs"
FROM (
    SELECT
        l."seller_id",
        l."day" + n AS "day",
        CASE n WHEN 0 THEN l."items" ELSE 0 END AS "first_items",
        l."live_items",
        l."missing_items"
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
    FROM "mirror"."state_changes" AS n
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
-- From the present backwards, so that it is right as far back as changes are kept.
WINDOW "later" AS (PARTITION BY d."seller_id" ORDER BY d."day"
                   ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING);
