-- Requests of the last day, and what lists of many sellers are quick with.

-- CreateTable
CREATE TABLE "mirror"."request_counts" (
    "seller_id" TEXT NOT NULL,
    "slot" TIMESTAMPTZ(6) NOT NULL,
    "requests" INTEGER NOT NULL,

    CONSTRAINT "request_counts_pkey" PRIMARY KEY ("seller_id","slot")
);

-- CreateIndex
CREATE INDEX "runs_wide_idx" ON "mirror"."runs"("seller_id", "run_id" DESC) WHERE (wide_fields <> '{}'::text[]);

-- CreateView
CREATE OR REPLACE VIEW "reporting"."freshness" AS
SELECT
    s."seller_id",
    s."marketplace",
    a."finished_at" AS "account_mirrored_at",
    floor(extract(epoch FROM now() - a."finished_at"))::bigint AS "account_age_seconds",
    c."finished_at" AS "items_mirrored_at",
    floor(extract(epoch FROM now() - c."finished_at"))::bigint AS "items_age_seconds",
    coalesce(i."live", 0) AS "live_items",
    coalesce(i."missing", 0) AS "missing_items",
    coalesce(i."removed", 0) AS "removed_items",
    s."parked_at",
    s."parked_code"
FROM "mirror"."sellers" AS s
LEFT JOIN LATERAL (
    SELECT r."finished_at" FROM "mirror"."runs" AS r
     WHERE r."seller_id" = s."seller_id" AND r."kind" = 'account' AND r."state" IN ('succeeded', 'held')
     ORDER BY r."run_id" DESC LIMIT 1
) AS a ON true
LEFT JOIN LATERAL (
    SELECT r."finished_at" FROM "mirror"."runs" AS r
     WHERE r."seller_id" = s."seller_id" AND r."kind" = 'items' AND r."state" IN ('succeeded', 'held')
     ORDER BY r."run_id" DESC LIMIT 1
) AS c ON true
LEFT JOIN (
    SELECT
        i."seller_id",
        count(*) FILTER (WHERE i."state" = 'live') AS "live",
        count(*) FILTER (WHERE i."state" = 'missing') AS "missing",
        count(*) FILTER (WHERE i."state" = 'removed') AS "removed"
    FROM "mirror"."items" AS i
    GROUP BY 1
) AS i ON i."seller_id" = s."seller_id";

COMMENT ON COLUMN "reporting"."freshness"."parked_at" IS 'Since when schedules leave the seller alone, until a person has mended what went wrong or resumes it; timestamptz, shown in the time zone of the session. Null when they do not.';
COMMENT ON COLUMN "reporting"."freshness"."parked_code" IS 'Why they do: paused when a person asked for it, otherwise the code of the problem, such as refused or account-changed. Null when they do not.';
