-- CreateIndex
CREATE INDEX "items_seller_id_state_changed_at_idx" ON "mirror"."items"("seller_id", "state", "changed_at");

-- CreateIndex
CREATE INDEX "item_changes_state_idx" ON "mirror"."item_changes"("seller_id", "changed_at", "class", "old_value", "new_value") WHERE (field = 'state');

-- CreateIndex
CREATE INDEX "item_changes_currency_idx" ON "mirror"."item_changes"("seller_id", "item_id", "seq") WHERE (field = 'currency');

-- CreateIndex
CREATE INDEX "purchase_codes_sales_idx" ON "mirror"."purchase_codes"("seller_id", "item_id", "currency", "price", "purchased_at", "supported_until") WHERE ((verdict = 'valid') AND (octet_length(COALESCE(currency, '')) <= 64));

-- CreateIndex
CREATE INDEX "purchase_codes_odd_sales_idx" ON "mirror"."purchase_codes"("seller_id", "item_id") WHERE ((verdict = 'valid') AND (octet_length(COALESCE(currency, '')) > 64));

-- CreateIndex
CREATE INDEX "code_transitions_happened_at_idx" ON "mirror"."code_transitions" USING BRIN ("happened_at");

-- CreateView
-- An index can't hold a text of any length, and a currency is what the marketplace says it is. So
-- valid purchases are in two indexes, of which the second is nearly always empty, and this view is
-- what puts them together.
CREATE VIEW "mirror"."sales" AS
SELECT
    "code_id",
    "seller_id",
    "code",
    "item_id",
    "item_name",
    "license_type",
    "price",
    "currency",
    "purchased_at",
    "supported_until",
    "downloaded",
    "verdict_since",
    "first_checked_at",
    "last_checked_at",
    "purchase_seen_at",
    "answered_code"
FROM "mirror"."purchase_codes"
WHERE "verdict" = 'valid' AND octet_length(coalesce("currency", '')) <= 64
UNION ALL
SELECT
    "code_id",
    "seller_id",
    "code",
    "item_id",
    "item_name",
    "license_type",
    "price",
    "currency",
    "purchased_at",
    "supported_until",
    "downloaded",
    "verdict_since",
    "first_checked_at",
    "last_checked_at",
    "purchase_seen_at",
    "answered_code"
FROM "mirror"."purchase_codes"
WHERE "verdict" = 'valid' AND octet_length(coalesce("currency", '')) > 64;

COMMENT ON VIEW "mirror"."sales" IS 'The rows of purchase_codes whose verdict is valid, by way of indexes made for reports.';

-- The views of schema reporting read with their owner's rights, and name every column. Columns are
-- only ever added, at the end.

-- CreateView
CREATE OR REPLACE VIEW "reporting"."sync_runs" AS
SELECT
    "run_id",
    "seller_id",
    "kind",
    "state",
    "started_at",
    "finished_at",
    "holder",
    "listed",
    "added",
    "changed",
    "extra_changed",
    "unchanged",
    "restored",
    "missing",
    "removed",
    "quarantined",
    "duplicates",
    "api_calls",
    "bytes",
    "tolerated",
    "warnings",
    "problem_code",
    "problem",
    "job_id",
    "catalogue_wide"
FROM "mirror"."runs";

-- CreateView
CREATE VIEW "reporting"."item_changes" AS
SELECT
    "seq",
    "seller_id",
    "item_id",
    "run_id",
    "changed_at",
    "class",
    "field",
    "old_value",
    "new_value"
FROM "mirror"."item_changes";

-- CreateView
CREATE VIEW "reporting"."price_changes" AS
SELECT
    c."seq",
    c."seller_id",
    c."item_id",
    i."name" AS "item_name",
    c."run_id",
    c."changed_at",
    CASE c."field" WHEN 'price_regular' THEN 'regular' ELSE 'extended' END AS "price",
    (c."old_value" #>> '{}')::numeric(14,2) AS "old_price",
    (c."new_value" #>> '{}')::numeric(14,2) AS "new_price",
    -- An array tells no change from a change of nothing. Currencies are told by the changes that came
    -- later and by the item as it is now, since superseded states need not be kept.
    coalesce(
        (SELECT jsonb_build_array(s."old_value") FROM "mirror"."item_changes" AS s
          WHERE s."seller_id" = c."seller_id" AND s."item_id" = c."item_id" AND s."field" = 'currency'
            AND s."run_id" >= c."run_id" ORDER BY s."seq" LIMIT 1),
        jsonb_build_array(i."currency")) ->> 0 AS "old_currency",
    coalesce(
        (SELECT jsonb_build_array(s."old_value") FROM "mirror"."item_changes" AS s
          WHERE s."seller_id" = c."seller_id" AND s."item_id" = c."item_id" AND s."field" = 'currency'
            AND s."run_id" > c."run_id" ORDER BY s."seq" LIMIT 1),
        jsonb_build_array(i."currency")) ->> 0 AS "currency",
    (CASE WHEN (c."old_value" #>> '{}')::numeric <> 0
          AND NOT EXISTS (SELECT FROM "mirror"."item_changes" AS s
                           WHERE s."seller_id" = c."seller_id" AND s."item_id" = c."item_id"
                             AND s."field" = 'currency' AND s."run_id" = c."run_id")
         THEN round(((c."new_value" #>> '{}')::numeric - (c."old_value" #>> '{}')::numeric) * 100
                    / abs((c."old_value" #>> '{}')::numeric), 2) END)::numeric(24,2) AS "percent"
FROM "mirror"."item_changes" AS c
LEFT JOIN "mirror"."items" AS i ON i."seller_id" = c."seller_id" AND i."item_id" = c."item_id"
WHERE c."class" = 'price' AND c."field" IN ('price_regular', 'price_extended');

-- CreateView
CREATE VIEW "reporting"."balance_history" AS
SELECT
    b."seller_id",
    b."balance",
    b."currency",
    (CASE WHEN b."currency" IS NOT DISTINCT FROM b."old_currency"
          THEN b."balance" - b."old_balance" END)::numeric(15,2) AS "change",
    b."valid_from",
    lead(b."valid_from") OVER (PARTITION BY b."seller_id" ORDER BY b."valid_from") AS "valid_to"
FROM (
    SELECT
        h."seller_id",
        h."balance",
        h."currency",
        h."valid_from",
        lag(h."balance") OVER "earlier" AS "old_balance",
        lag(h."currency") OVER "earlier" AS "old_currency",
        row_number() OVER "earlier" AS "place"
    FROM "reporting"."account_history" AS h
    WINDOW "earlier" AS (PARTITION BY h."seller_id" ORDER BY h."valid_from")
) AS b
WHERE b."place" = 1 OR (b."balance", b."currency") IS DISTINCT FROM (b."old_balance", b."old_currency");

-- CreateView
CREATE VIEW "reporting"."purchases" AS
SELECT
    p."code_id",
    p."seller_id",
    p."code",
    p."item_id",
    coalesce(i."name", p."item_name") AS "item_name",
    i."state" AS "item_state",
    p."license_type",
    p."price",
    p."currency",
    p."purchased_at",
    p."supported_until",
    CASE WHEN p."supported_until" IS NULL THEN 'none'
         WHEN p."supported_until" > now() THEN 'active' ELSE 'expired' END AS "support",
    p."downloaded",
    p."verdict_since" AS "valid_since",
    p."first_checked_at",
    p."last_checked_at",
    p."answered_code"
FROM "mirror"."sales" AS p
LEFT JOIN "mirror"."items" AS i ON i."seller_id" = p."seller_id" AND i."item_id" = p."item_id";

-- CreateView
CREATE VIEW "reporting"."purchase_transitions" AS
SELECT
    t."seq",
    t."seller_id",
    t."code_id",
    p."code",
    p."item_id",
    coalesce(i."name", p."item_name") AS "item_name",
    t."happened_at",
    t."kind",
    t."old_value",
    t."new_value"
FROM "mirror"."code_transitions" AS t
LEFT JOIN "mirror"."purchase_codes" AS p ON p."code_id" = t."code_id"
LEFT JOIN "mirror"."items" AS i ON i."seller_id" = p."seller_id" AND i."item_id" = p."item_id";

-- CreateView
CREATE VIEW "reporting"."support_calendar" AS
SELECT
    p."seller_id",
    date_trunc('month', p."supported_until" AT TIME ZONE 'UTC')::date AS "month",
    count(*) AS "purchases",
    count(*) FILTER (WHERE p."supported_until" > now()) AS "active",
    count(*) FILTER (WHERE p."supported_until" <= now()) AS "expired"
FROM "mirror"."sales" AS p
WHERE p."supported_until" IS NOT NULL
GROUP BY 1, 2;

-- CreateView
CREATE VIEW "reporting"."revenue_by_item" AS
SELECT
    r."seller_id",
    r."item_id",
    coalesce(i."name",
        (SELECT p."item_name" FROM "mirror"."sales" AS p
          WHERE p."seller_id" = r."seller_id" AND p."item_id" = r."item_id"
          ORDER BY p."purchase_seen_at" DESC, p."code_id" DESC LIMIT 1)) AS "item_name",
    r."currency",
    r."purchases",
    r."without_price",
    r."revenue",
    r."first_purchased_at",
    r."last_purchased_at"
FROM (
    SELECT
        p."seller_id",
        p."item_id",
        p."currency",
        count(*) AS "purchases",
        count(*) - count(p."price") AS "without_price",
        sum(p."price")::numeric(24,2) AS "revenue",
        min(p."purchased_at") AS "first_purchased_at",
        max(p."purchased_at") AS "last_purchased_at"
    FROM "mirror"."sales" AS p
    GROUP BY p."seller_id", p."item_id", p."currency"
) AS r
LEFT JOIN "mirror"."items" AS i ON i."seller_id" = r."seller_id" AND i."item_id" = r."item_id";

-- CreateView
CREATE VIEW "reporting"."revenue_by_month" AS
SELECT
    p."seller_id",
    date_trunc('month', p."purchased_at" AT TIME ZONE 'UTC')::date AS "month",
    p."currency",
    count(*) AS "purchases",
    count(*) - count(p."price") AS "without_price",
    sum(p."price")::numeric(24,2) AS "revenue"
FROM "mirror"."sales" AS p
GROUP BY 1, 2, 3;

-- CreateView
CREATE VIEW "reporting"."catalogue_daily" AS
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
            count(*) FILTER (WHERE c."class" = 'listing') AS "added",
            count(*) FILTER (WHERE c."class" = 'restored') AS "restored",
            count(*) FILTER (WHERE c."class" = 'removed') AS "removed",
            sum(CASE WHEN c."class" IN ('listing', 'restored') THEN 1
                     WHEN c."class" = 'missing' AND c."new_value" = '"live"' THEN 1
                     WHEN c."old_value" = '"live"' THEN -1 ELSE 0 END) AS "live_change",
            sum(CASE WHEN c."class" IN ('listing', 'restored') THEN 0
                     WHEN c."class" = 'missing' AND c."new_value" = '"missing"' THEN 1
                     WHEN c."old_value" = '"missing"' THEN -1 ELSE 0 END) AS "missing_change"
        FROM "mirror"."item_changes" AS c
        WHERE c."field" = 'state'
        GROUP BY c."seller_id", c."changed_at"
    ) AS n
    GROUP BY 1, 2
) AS s ON s."seller_id" = d."seller_id" AND s."day" = d."day"
LEFT JOIN (
    SELECT
        r."seller_id",
        (r."started_at" AT TIME ZONE 'UTC')::date AS "day",
        sum(r."changed")::bigint AS "changed",
        count(*) FILTER (WHERE r."kind" = 'catalogue' AND r."state" IN ('succeeded', 'held')) AS "runs"
    FROM "mirror"."runs" AS r
    WHERE r."kind" IN ('catalogue', 'item')
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

-- CreateView
CREATE VIEW "reporting"."freshness" AS
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
    s."parked_at"
FROM "mirror"."sellers" AS s
LEFT JOIN LATERAL (
    SELECT r."finished_at" FROM "mirror"."runs" AS r
     WHERE r."seller_id" = s."seller_id" AND r."kind" = 'account' AND r."state" IN ('succeeded', 'held')
     ORDER BY r."run_id" DESC LIMIT 1
) AS a ON true
LEFT JOIN LATERAL (
    SELECT r."finished_at" FROM "mirror"."runs" AS r
     WHERE r."seller_id" = s."seller_id" AND r."kind" = 'catalogue' AND r."state" IN ('succeeded', 'held')
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

COMMENT ON COLUMN "reporting"."items"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."items"."item_id" IS 'Number of the item on the marketplace; unique only together with seller_id.';
COMMENT ON COLUMN "reporting"."items"."name" IS 'Name of the item.';
COMMENT ON COLUMN "reporting"."items"."description" IS 'Description as the marketplace tells it, which may hold HTML. Null when not told.';
COMMENT ON COLUMN "reporting"."items"."category" IS 'Category. Null when not told.';
COMMENT ON COLUMN "reporting"."items"."sub_category" IS 'Category below category. Null when not told.';
COMMENT ON COLUMN "reporting"."items"."options" IS 'Options of the item, in the order told; empty when there are none.';
COMMENT ON COLUMN "reporting"."items"."version" IS 'Version of the newest release, as the seller wrote it. Null when not told.';
COMMENT ON COLUMN "reporting"."items"."demo_link" IS 'Address of the demo. Null when not told.';
COMMENT ON COLUMN "reporting"."items"."tags" IS 'Tags, in the order told; empty when there are none.';
COMMENT ON COLUMN "reporting"."items"."thumbnail_url" IS 'Address of the thumbnail. Null when not told.';
COMMENT ON COLUMN "reporting"."items"."preview_image_url" IS 'Address of the preview image. Null when not told.';
COMMENT ON COLUMN "reporting"."items"."preview_video_url" IS 'Address of the preview video. Null when not told.';
COMMENT ON COLUMN "reporting"."items"."preview_audio_url" IS 'Address of the preview audio. Null when not told.';
COMMENT ON COLUMN "reporting"."items"."screenshots" IS 'Addresses of the screenshots, in the order told; empty when there are none.';
COMMENT ON COLUMN "reporting"."items"."price_regular" IS 'Price of the regular licence, in whole units of currency with two decimals. Null when not told.';
COMMENT ON COLUMN "reporting"."items"."price_extended" IS 'Price of the extended licence, in whole units of currency with two decimals. Null when not told.';
COMMENT ON COLUMN "reporting"."items"."currency" IS 'Currency of both prices, as the marketplace writes it, such as USD. Null when not told.';
COMMENT ON COLUMN "reporting"."items"."published_at" IS 'When the item was published; timestamptz, shown in the time zone of the session. Null when not told.';
COMMENT ON COLUMN "reporting"."items"."state" IS 'live: listed, or found when looked up by itself. missing: not listed, and not proven to be gone. removed: proven to be gone.';
COMMENT ON COLUMN "reporting"."items"."first_seen_at" IS 'When the run began that first saw the item; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."items"."changed_at" IS 'When the run began that last found a change of the columns above, a removal or a return; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."items"."removed_at" IS 'When the run began that found the item removed; timestamptz, shown in the time zone of the session. Null unless state is removed.';
COMMENT ON COLUMN "reporting"."items"."synced_run_id" IS 'The run that wrote this state; run_id of sync_runs. Runs that found nothing new are not noted here.';

COMMENT ON COLUMN "reporting"."accounts"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."accounts"."username" IS 'Name of the account on the marketplace.';
COMMENT ON COLUMN "reporting"."accounts"."firstname" IS 'First name. Null when not told.';
COMMENT ON COLUMN "reporting"."accounts"."lastname" IS 'Last name. Null when not told.';
COMMENT ON COLUMN "reporting"."accounts"."full_name" IS 'Full name. Null when not told.';
COMMENT ON COLUMN "reporting"."accounts"."email" IS 'E-mail address of the account. Null when not told.';
COMMENT ON COLUMN "reporting"."accounts"."balance" IS 'Balance, in whole units of currency with two decimals; may be negative. Null when not told.';
COMMENT ON COLUMN "reporting"."accounts"."currency" IS 'Currency of balance, as the marketplace writes it, such as USD. Null when not told.';
COMMENT ON COLUMN "reporting"."accounts"."heading" IS 'Heading of the public profile. Null when not told.';
COMMENT ON COLUMN "reporting"."accounts"."description" IS 'Text of the public profile, which may hold HTML. Null when not told.';
COMMENT ON COLUMN "reporting"."accounts"."contact_email" IS 'E-mail address of the public profile. Null when not told.';
COMMENT ON COLUMN "reporting"."accounts"."social_links" IS 'Links of the public profile, as a JSON object of network to address; empty when there are none.';
COMMENT ON COLUMN "reporting"."accounts"."avatar_url" IS 'Address of the avatar. Null when not told.';
COMMENT ON COLUMN "reporting"."accounts"."cover_url" IS 'Address of the cover image. Null when not told.';
COMMENT ON COLUMN "reporting"."accounts"."registered_at" IS 'When the account was registered; timestamptz, shown in the time zone of the session. Null when not told.';
COMMENT ON COLUMN "reporting"."accounts"."first_seen_at" IS 'When the run began that first saw the account; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."accounts"."changed_at" IS 'When the run began that last found a change of the columns above; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."accounts"."synced_run_id" IS 'The run that wrote this state; run_id of sync_runs. Runs that found nothing new are not noted here.';

COMMENT ON COLUMN "reporting"."item_history"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."item_history"."item_id" IS 'Number of the item on the marketplace; unique only together with seller_id.';
COMMENT ON COLUMN "reporting"."item_history"."name" IS 'Name of the item.';
COMMENT ON COLUMN "reporting"."item_history"."description" IS 'Description as the marketplace tells it, which may hold HTML. Null when not told.';
COMMENT ON COLUMN "reporting"."item_history"."category" IS 'Category. Null when not told.';
COMMENT ON COLUMN "reporting"."item_history"."sub_category" IS 'Category below category. Null when not told.';
COMMENT ON COLUMN "reporting"."item_history"."options" IS 'Options of the item, in the order told; empty when there are none.';
COMMENT ON COLUMN "reporting"."item_history"."version" IS 'Version of the newest release, as the seller wrote it. Null when not told.';
COMMENT ON COLUMN "reporting"."item_history"."demo_link" IS 'Address of the demo. Null when not told.';
COMMENT ON COLUMN "reporting"."item_history"."tags" IS 'Tags, in the order told; empty when there are none.';
COMMENT ON COLUMN "reporting"."item_history"."thumbnail_url" IS 'Address of the thumbnail. Null when not told.';
COMMENT ON COLUMN "reporting"."item_history"."preview_image_url" IS 'Address of the preview image. Null when not told.';
COMMENT ON COLUMN "reporting"."item_history"."preview_video_url" IS 'Address of the preview video. Null when not told.';
COMMENT ON COLUMN "reporting"."item_history"."preview_audio_url" IS 'Address of the preview audio. Null when not told.';
COMMENT ON COLUMN "reporting"."item_history"."screenshots" IS 'Addresses of the screenshots, in the order told; empty when there are none.';
COMMENT ON COLUMN "reporting"."item_history"."price_regular" IS 'Price of the regular licence, in whole units of currency with two decimals. Null when not told.';
COMMENT ON COLUMN "reporting"."item_history"."price_extended" IS 'Price of the extended licence, in whole units of currency with two decimals. Null when not told.';
COMMENT ON COLUMN "reporting"."item_history"."currency" IS 'Currency of both prices, as the marketplace writes it, such as USD. Null when not told.';
COMMENT ON COLUMN "reporting"."item_history"."published_at" IS 'When the item was published; timestamptz, shown in the time zone of the session. Null when not told.';
COMMENT ON COLUMN "reporting"."item_history"."state" IS 'live: listed, or found when looked up by itself. missing: not listed, and not proven to be gone. removed: proven to be gone.';
COMMENT ON COLUMN "reporting"."item_history"."first_seen_at" IS 'When the run began that first saw the item; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."item_history"."changed_at" IS 'As changed_at of items was while this state held; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."item_history"."removed_at" IS 'As removed_at of items was while this state held; timestamptz, shown in the time zone of the session. Null unless state is removed.';
COMMENT ON COLUMN "reporting"."item_history"."synced_run_id" IS 'The run that wrote this state; run_id of sync_runs.';
COMMENT ON COLUMN "reporting"."item_history"."valid_from" IS 'Since when it said so; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."item_history"."valid_to" IS 'Until just before when it said so; timestamptz, shown in the time zone of the session. Null for the present state.';
COMMENT ON COLUMN "reporting"."item_history"."superseded_run_id" IS 'The run that wrote the next state; run_id of sync_runs. Null for the present state.';

COMMENT ON COLUMN "reporting"."account_history"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."account_history"."username" IS 'Name of the account on the marketplace.';
COMMENT ON COLUMN "reporting"."account_history"."firstname" IS 'First name. Null when not told.';
COMMENT ON COLUMN "reporting"."account_history"."lastname" IS 'Last name. Null when not told.';
COMMENT ON COLUMN "reporting"."account_history"."full_name" IS 'Full name. Null when not told.';
COMMENT ON COLUMN "reporting"."account_history"."email" IS 'E-mail address of the account. Null when not told.';
COMMENT ON COLUMN "reporting"."account_history"."balance" IS 'Balance, in whole units of currency with two decimals; may be negative. Null when not told.';
COMMENT ON COLUMN "reporting"."account_history"."currency" IS 'Currency of balance, as the marketplace writes it, such as USD. Null when not told.';
COMMENT ON COLUMN "reporting"."account_history"."heading" IS 'Heading of the public profile. Null when not told.';
COMMENT ON COLUMN "reporting"."account_history"."description" IS 'Text of the public profile, which may hold HTML. Null when not told.';
COMMENT ON COLUMN "reporting"."account_history"."contact_email" IS 'E-mail address of the public profile. Null when not told.';
COMMENT ON COLUMN "reporting"."account_history"."social_links" IS 'Links of the public profile, as a JSON object of network to address; empty when there are none.';
COMMENT ON COLUMN "reporting"."account_history"."avatar_url" IS 'Address of the avatar. Null when not told.';
COMMENT ON COLUMN "reporting"."account_history"."cover_url" IS 'Address of the cover image. Null when not told.';
COMMENT ON COLUMN "reporting"."account_history"."registered_at" IS 'When the account was registered; timestamptz, shown in the time zone of the session. Null when not told.';
COMMENT ON COLUMN "reporting"."account_history"."first_seen_at" IS 'When the run began that first saw the account; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."account_history"."synced_run_id" IS 'The run that wrote this state; run_id of sync_runs.';
COMMENT ON COLUMN "reporting"."account_history"."valid_from" IS 'Since when it said so; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."account_history"."valid_to" IS 'Until just before when it said so; timestamptz, shown in the time zone of the session. Null for the present state.';
COMMENT ON COLUMN "reporting"."account_history"."superseded_run_id" IS 'The run that wrote the next state; run_id of sync_runs. Null for the present state.';

COMMENT ON COLUMN "reporting"."sync_runs"."run_id" IS 'Number of the run; later runs have greater numbers.';
COMMENT ON COLUMN "reporting"."sync_runs"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."sync_runs"."kind" IS 'account: the account alone. catalogue: all items. item: one item. approval: removal of items of a held run that a person approved.';
COMMENT ON COLUMN "reporting"."sync_runs"."state" IS 'running, succeeded, failed, held (the removal guard keeps items that would be removed) or interrupted.';
COMMENT ON COLUMN "reporting"."sync_runs"."started_at" IS 'When the run began; timestamptz, shown in the time zone of the session. What it found counts from this moment.';
COMMENT ON COLUMN "reporting"."sync_runs"."finished_at" IS 'When the run ended; timestamptz, shown in the time zone of the session. Null while it is running.';
COMMENT ON COLUMN "reporting"."sync_runs"."holder" IS 'Host and process that did the run.';
COMMENT ON COLUMN "reporting"."sync_runs"."listed" IS 'Records that the marketplace listed.';
COMMENT ON COLUMN "reporting"."sync_runs"."added" IS 'Items or accounts that were new.';
COMMENT ON COLUMN "reporting"."sync_runs"."changed" IS 'Items or accounts whose known fields had changed.';
COMMENT ON COLUMN "reporting"."sync_runs"."extra_changed" IS 'Items or accounts of which only undocumented fields had changed; these have no history.';
COMMENT ON COLUMN "reporting"."sync_runs"."unchanged" IS 'Items or accounts that were as before.';
COMMENT ON COLUMN "reporting"."sync_runs"."restored" IS 'Removed items that were back.';
COMMENT ON COLUMN "reporting"."sync_runs"."missing" IS 'Items that were not listed, and not proven to be gone.';
COMMENT ON COLUMN "reporting"."sync_runs"."removed" IS 'Items that were proven to be gone, and marked as removed.';
COMMENT ON COLUMN "reporting"."sync_runs"."quarantined" IS 'Records that could not be read, and were put aside.';
COMMENT ON COLUMN "reporting"."sync_runs"."duplicates" IS 'Records whose item the same list held already.';
COMMENT ON COLUMN "reporting"."sync_runs"."api_calls" IS 'Requests sent to the marketplace, repetitions included.';
COMMENT ON COLUMN "reporting"."sync_runs"."bytes" IS 'Size of the list as received, in bytes after decompression.';
COMMENT ON COLUMN "reporting"."sync_runs"."tolerated" IS 'Oddities of the answers that were read as what they mean, as a JSON object of name to number of records.';
COMMENT ON COLUMN "reporting"."sync_runs"."warnings" IS 'Sentences for a person; empty when there are none.';
COMMENT ON COLUMN "reporting"."sync_runs"."problem_code" IS 'Why it did not succeed, in a word for programs. Null when it succeeded or is running.';
COMMENT ON COLUMN "reporting"."sync_runs"."problem" IS 'Why it did not succeed, in a sentence. Null when it succeeded or is running.';
COMMENT ON COLUMN "reporting"."sync_runs"."job_id" IS 'Job of the queue that did the run. Null for a run by hand.';
COMMENT ON COLUMN "reporting"."sync_runs"."catalogue_wide" IS 'Columns of items that changed in nine of ten items or more at once, such as price_regular; empty when none did.';

COMMENT ON VIEW "reporting"."item_changes" IS 'What changed about items, field by field, in the order in which it was written. What a first list holds is no change, and neither are undocumented fields. Who has read up to a seq misses nothing by going on from there.';
COMMENT ON COLUMN "reporting"."item_changes"."seq" IS 'Place of the change in the order of all changes; later ones are greater, with gaps.';
COMMENT ON COLUMN "reporting"."item_changes"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."item_changes"."item_id" IS 'Number of the item on the marketplace.';
COMMENT ON COLUMN "reporting"."item_changes"."run_id" IS 'The run that found the change; run_id of sync_runs.';
COMMENT ON COLUMN "reporting"."item_changes"."changed_at" IS 'When that run began; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."item_changes"."class" IS 'price, release, text, media, listing (new items and dates of publication), missing (no longer listed, or found after all), removed or restored.';
COMMENT ON COLUMN "reporting"."item_changes"."field" IS 'Column of items that changed. Of items that are new, missing, removed or restored it is state.';
COMMENT ON COLUMN "reporting"."item_changes"."old_value" IS 'Value before, as JSON: amounts and moments (UTC) are text, lists are arrays. Null when there was none; a state that is null before is that of a new item.';
COMMENT ON COLUMN "reporting"."item_changes"."new_value" IS 'Value after, as JSON like old_value. Null when there is none.';

COMMENT ON VIEW "reporting"."price_changes" IS 'Changes of amounts: one row for each price of an item that changed. An item whose currency changed and whose amounts did not is in item_changes only, with field currency.';
COMMENT ON COLUMN "reporting"."price_changes"."seq" IS 'Place of the change in item_changes; later ones are greater, with gaps.';
COMMENT ON COLUMN "reporting"."price_changes"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."price_changes"."item_id" IS 'Number of the item on the marketplace.';
COMMENT ON COLUMN "reporting"."price_changes"."item_name" IS 'Present name of the item.';
COMMENT ON COLUMN "reporting"."price_changes"."run_id" IS 'The run that found the change; run_id of sync_runs.';
COMMENT ON COLUMN "reporting"."price_changes"."changed_at" IS 'When that run began; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."price_changes"."price" IS 'Which price: regular or extended.';
COMMENT ON COLUMN "reporting"."price_changes"."old_price" IS 'Amount before, in whole units of old_currency with two decimals. Null when there was none.';
COMMENT ON COLUMN "reporting"."price_changes"."new_price" IS 'Amount after, in whole units of currency with two decimals. Null when there is none any more.';
COMMENT ON COLUMN "reporting"."price_changes"."old_currency" IS 'Currency before the change. Null when not told.';
COMMENT ON COLUMN "reporting"."price_changes"."currency" IS 'Currency after the change. Null when not told.';
COMMENT ON COLUMN "reporting"."price_changes"."percent" IS 'By how many percent of the amount before it rose, rounded to two decimals; negative when it fell. Null when one of the amounts is null, that before is 0, or the currency changed in the same run.';

COMMENT ON VIEW "reporting"."balance_history" IS 'Every balance of every account, the present one included: it held from valid_from until just before valid_to. Changes of the profile make no row.';
COMMENT ON COLUMN "reporting"."balance_history"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."balance_history"."balance" IS 'Balance, in whole units of currency with two decimals; may be negative. Null when not told.';
COMMENT ON COLUMN "reporting"."balance_history"."currency" IS 'Currency of balance. Null when not told.';
COMMENT ON COLUMN "reporting"."balance_history"."change" IS 'By how much it differs from the balance before, in whole units of currency with two decimals. Null for the first balance, where one of them is null, and where the currency changed.';
COMMENT ON COLUMN "reporting"."balance_history"."valid_from" IS 'When the run began that first saw this balance; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."balance_history"."valid_to" IS 'When the run began that saw the next balance; timestamptz, shown in the time zone of the session. Null for the present balance.';

COMMENT ON VIEW "reporting"."purchases" IS 'Purchases whose code is known to be valid, one row for each code. Codes are shown whole, so that they can be joined with tables of yours: whoever may read this view can read every code.';
COMMENT ON COLUMN "reporting"."purchases"."code_id" IS 'Number of the code in this database.';
COMMENT ON COLUMN "reporting"."purchases"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."purchases"."code" IS 'The purchase code, whole, as it was listed to be checked; unique only together with seller_id.';
COMMENT ON COLUMN "reporting"."purchases"."item_id" IS 'Number of the purchased item on the marketplace. Null when the marketplace did not tell it.';
COMMENT ON COLUMN "reporting"."purchases"."item_name" IS 'Present name of the item, or the name that the purchase told where the mirror does not hold the item. Null when item_id is.';
COMMENT ON COLUMN "reporting"."purchases"."item_state" IS 'live, missing or removed, as in items. Null when the mirror does not hold the item.';
COMMENT ON COLUMN "reporting"."purchases"."license_type" IS 'Licence, as the marketplace writes it. Null when not told.';
COMMENT ON COLUMN "reporting"."purchases"."price" IS 'What was paid, in whole units of currency with two decimals. Null when not told.';
COMMENT ON COLUMN "reporting"."purchases"."currency" IS 'Currency of price. Null when not told.';
COMMENT ON COLUMN "reporting"."purchases"."purchased_at" IS 'When it was bought; timestamptz, shown in the time zone of the session. Null when not told.';
COMMENT ON COLUMN "reporting"."purchases"."supported_until" IS 'When support ends or ended; timestamptz, shown in the time zone of the session. Null when no end of support is known.';
COMMENT ON COLUMN "reporting"."purchases"."support" IS 'active: supported_until is still to come. expired: it has passed. none: no end of support is known. As of now.';
COMMENT ON COLUMN "reporting"."purchases"."downloaded" IS 'Whether the buyer has downloaded the item. Null when not told.';
COMMENT ON COLUMN "reporting"."purchases"."valid_since" IS 'When the check was made since which the code is known to be valid without a break; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."purchases"."first_checked_at" IS 'When it was first proven to be valid or invalid; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."purchases"."last_checked_at" IS 'When it was last proven to be valid; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."purchases"."answered_code" IS 'The code as the marketplace spells it. Null when not told.';

COMMENT ON VIEW "reporting"."purchase_transitions" IS 'What happened to purchase codes between two checks, in the order in which it was written. Codes are shown whole.';
COMMENT ON COLUMN "reporting"."purchase_transitions"."seq" IS 'Place in the order of all transitions; later ones are greater, with gaps.';
COMMENT ON COLUMN "reporting"."purchase_transitions"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."purchase_transitions"."code_id" IS 'Number of the code in this database; code_id of purchases as long as the code is valid.';
COMMENT ON COLUMN "reporting"."purchase_transitions"."code" IS 'The purchase code, whole, as it was listed to be checked.';
COMMENT ON COLUMN "reporting"."purchase_transitions"."item_id" IS 'Number of the item of the purchase, as last told. Null when the marketplace never told it.';
COMMENT ON COLUMN "reporting"."purchase_transitions"."item_name" IS 'Present name of the item, or the name that the purchase told where the mirror does not hold the item. Null when item_id is.';
COMMENT ON COLUMN "reporting"."purchase_transitions"."happened_at" IS 'When the check was made that found it; timestamptz, shown in the time zone of the session.';
COMMENT ON COLUMN "reporting"."purchase_transitions"."kind" IS 'first-seen, became-invalid (was valid: probably refunded), became-valid, license-changed, price-changed, item-changed, support-extended, support-shortened or support-expired.';
COMMENT ON COLUMN "reporting"."purchase_transitions"."old_value" IS 'Value before, as text: verdict, licence, amount and currency, item number, end of support (UTC), or state of support, by kind. Null when there was none.';
COMMENT ON COLUMN "reporting"."purchase_transitions"."new_value" IS 'Value after, as text like old_value. Null when there is none.';

COMMENT ON VIEW "reporting"."support_calendar" IS 'How many valid purchases lose their support in each month, past and to come. Months without any have no row; purchases whose end of support is not known are not counted.';
COMMENT ON COLUMN "reporting"."support_calendar"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."support_calendar"."month" IS 'First day of the month in UTC in which support ends.';
COMMENT ON COLUMN "reporting"."support_calendar"."purchases" IS 'Valid purchases whose support ends in that month; active + expired.';
COMMENT ON COLUMN "reporting"."support_calendar"."active" IS 'Those of them that are supported now.';
COMMENT ON COLUMN "reporting"."support_calendar"."expired" IS 'Those of them whose support has ended by now.';

COMMENT ON VIEW "reporting"."revenue_by_item" IS 'Valid purchases that audits know, and what was paid for them, by item and currency. What was never audited is not in it, and neither are refunded purchases.';
COMMENT ON COLUMN "reporting"."revenue_by_item"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."revenue_by_item"."item_id" IS 'Number of the item on the marketplace. Null for purchases whose item is not known.';
COMMENT ON COLUMN "reporting"."revenue_by_item"."item_name" IS 'Present name of the item, or the name that a purchase told last where the mirror does not hold the item. Null when item_id is.';
COMMENT ON COLUMN "reporting"."revenue_by_item"."currency" IS 'Currency of the prices; different ones are never added. Null for purchases whose currency is not known.';
COMMENT ON COLUMN "reporting"."revenue_by_item"."purchases" IS 'Valid purchases.';
COMMENT ON COLUMN "reporting"."revenue_by_item"."without_price" IS 'Those of them whose price is not known; revenue leaves them out.';
COMMENT ON COLUMN "reporting"."revenue_by_item"."revenue" IS 'Sum of their prices, what buyers paid, in whole units of currency with two decimals. Null when none of them has a price.';
COMMENT ON COLUMN "reporting"."revenue_by_item"."first_purchased_at" IS 'When the first of them was bought; timestamptz, shown in the time zone of the session. Null when told of none.';
COMMENT ON COLUMN "reporting"."revenue_by_item"."last_purchased_at" IS 'When the last of them was bought; timestamptz, shown in the time zone of the session. Null when told of none.';

COMMENT ON VIEW "reporting"."revenue_by_month" IS 'Valid purchases that audits know, and what was paid for them, by month of purchase and currency. What was never audited is not in it, and neither are refunded purchases. Months without any have no row.';
COMMENT ON COLUMN "reporting"."revenue_by_month"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."revenue_by_month"."month" IS 'First day of the month in UTC in which they were bought. Null for purchases of which the marketplace does not tell when.';
COMMENT ON COLUMN "reporting"."revenue_by_month"."currency" IS 'Currency of the prices; different ones are never added. Null for purchases whose currency is not known.';
COMMENT ON COLUMN "reporting"."revenue_by_month"."purchases" IS 'Valid purchases.';
COMMENT ON COLUMN "reporting"."revenue_by_month"."without_price" IS 'Those of them whose price is not known; revenue leaves them out.';
COMMENT ON COLUMN "reporting"."revenue_by_month"."revenue" IS 'Sum of their prices, what buyers paid, in whole units of currency with two decimals. Null when none of them has a price.';

COMMENT ON VIEW "reporting"."catalogue_daily" IS 'The catalogue day by day in UTC, one row for each seller and each day from its first list to today, those without a run included: their figures of change are 0 and their numbers of items are those of the day before. What a run found counts for the day on which it began.';
COMMENT ON COLUMN "reporting"."catalogue_daily"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."catalogue_daily"."day" IS 'Day in UTC. The row of today counts what has happened so far.';
COMMENT ON COLUMN "reporting"."catalogue_daily"."live" IS 'Live items at the end of the day.';
COMMENT ON COLUMN "reporting"."catalogue_daily"."missing" IS 'Missing items at the end of the day: not listed, not proven to be gone.';
COMMENT ON COLUMN "reporting"."catalogue_daily"."added" IS 'Items that were new on that day; on the first day also those of the first list.';
COMMENT ON COLUMN "reporting"."catalogue_daily"."restored" IS 'Removed items that were back on that day.';
COMMENT ON COLUMN "reporting"."catalogue_daily"."removed" IS 'Items found removed on that day.';
COMMENT ON COLUMN "reporting"."catalogue_daily"."changed" IS 'Items whose fields were found changed on that day, each counted once for every run that found it so.';
COMMENT ON COLUMN "reporting"."catalogue_daily"."runs" IS 'Runs of the whole catalogue that mirrored it on that day (succeeded or held). 0 tells a day on which nobody looked.';

COMMENT ON VIEW "reporting"."freshness" IS 'How current the copy of each seller is, and how large, one row for each seller.';
COMMENT ON COLUMN "reporting"."freshness"."seller_id" IS 'Name of the seller, as the settings call it.';
COMMENT ON COLUMN "reporting"."freshness"."marketplace" IS 'The marketplace that the seller is on.';
COMMENT ON COLUMN "reporting"."freshness"."account_mirrored_at" IS 'When the last run ended that mirrored the account; timestamptz, shown in the time zone of the session. Null when there was none.';
COMMENT ON COLUMN "reporting"."freshness"."account_age_seconds" IS 'Seconds that have passed since then. Null when there was none.';
COMMENT ON COLUMN "reporting"."freshness"."items_mirrored_at" IS 'When the last run ended that mirrored all items (succeeded or held); timestamptz, shown in the time zone of the session. Null when there was none.';
COMMENT ON COLUMN "reporting"."freshness"."items_age_seconds" IS 'Seconds that have passed since then. Null when there was none.';
COMMENT ON COLUMN "reporting"."freshness"."live_items" IS 'Live items.';
COMMENT ON COLUMN "reporting"."freshness"."missing_items" IS 'Missing items: not listed, not proven to be gone.';
COMMENT ON COLUMN "reporting"."freshness"."removed_items" IS 'Removed items.';
COMMENT ON COLUMN "reporting"."freshness"."parked_at" IS 'Since when schedules leave the seller alone until a person has mended what went wrong; timestamptz, shown in the time zone of the session. Null when they do not.';
