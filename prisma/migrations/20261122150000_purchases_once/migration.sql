-- One purchase has several rows when lists spell its code in different letter cases: each is answered
-- with the marketplace's spelling. Sums are to count it once.

-- DropIndex
DROP INDEX "mirror"."purchase_codes_sales_idx";

-- CreateIndex
CREATE INDEX "purchase_codes_sales_idx" ON "mirror"."purchase_codes"("seller_id", "item_id", "currency", "price", "purchased_at", "supported_until", "code_id") WHERE ((verdict = 'valid') AND (octet_length(COALESCE(currency, '')) <= 64));

-- CreateIndex
CREATE INDEX "purchase_codes_respelled_idx" ON "mirror"."purchase_codes"("seller_id", "answered_code", "code_id") WHERE ((verdict = 'valid') AND (answered_code <> code));

-- CreateView
CREATE VIEW "mirror"."repeated_sales" AS
SELECT r."code_id"
FROM "mirror"."purchase_codes" AS r
WHERE r."verdict" = 'valid' AND r."answered_code" <> r."code"
  AND (EXISTS (SELECT FROM "mirror"."purchase_codes" AS o
                WHERE o."seller_id" = r."seller_id" AND o."code" = r."answered_code"
                  AND o."verdict" = 'valid'
                  -- Where the marketplace's own spelling has changed, two rows may name each other.
                  AND (o."answered_code" IS DISTINCT FROM r."code" OR o."code_id" < r."code_id"))
    OR EXISTS (SELECT FROM "mirror"."purchase_codes" AS o
                WHERE o."seller_id" = r."seller_id" AND o."answered_code" = r."answered_code"
                  AND o."verdict" = 'valid' AND o."answered_code" <> o."code"
                  AND o."code_id" < r."code_id"));

COMMENT ON VIEW "mirror"."repeated_sales" IS 'Rows of sales whose purchase another row is for: the one with the marketplace’s spelling of the code, else the first.';

-- CreateView
CREATE OR REPLACE VIEW "reporting"."support_calendar" AS
SELECT
    p."seller_id",
    date_trunc('month', p."supported_until" AT TIME ZONE 'UTC')::date AS "month",
    count(*) AS "purchases",
    count(*) FILTER (WHERE p."supported_until" > now()) AS "active",
    count(*) FILTER (WHERE p."supported_until" <= now()) AS "expired"
FROM "mirror"."sales" AS p
WHERE p."supported_until" IS NOT NULL
  AND NOT EXISTS (SELECT FROM "mirror"."repeated_sales" AS s WHERE s."code_id" = p."code_id")
GROUP BY 1, 2;

-- CreateView
CREATE OR REPLACE VIEW "reporting"."revenue_by_item" AS
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
    WHERE NOT EXISTS (SELECT FROM "mirror"."repeated_sales" AS s WHERE s."code_id" = p."code_id")
    GROUP BY p."seller_id", p."item_id", p."currency"
) AS r
LEFT JOIN "mirror"."items" AS i ON i."seller_id" = r."seller_id" AND i."item_id" = r."item_id";

-- CreateView
CREATE OR REPLACE VIEW "reporting"."revenue_by_month" AS
SELECT
    p."seller_id",
    date_trunc('month', p."purchased_at" AT TIME ZONE 'UTC')::date AS "month",
    p."currency",
    count(*) AS "purchases",
    count(*) - count(p."price") AS "without_price",
    sum(p."price")::numeric(24,2) AS "revenue"
FROM "mirror"."sales" AS p
WHERE NOT EXISTS (SELECT FROM "mirror"."repeated_sales" AS s WHERE s."code_id" = p."code_id")
GROUP BY 1, 2, 3;

COMMENT ON COLUMN "reporting"."support_calendar"."purchases" IS 'Valid purchases whose support ends in that month; active + expired. One whose code was audited in several spellings counts once.';
COMMENT ON COLUMN "reporting"."revenue_by_item"."purchases" IS 'Valid purchases. One whose code was audited in several spellings counts once.';
COMMENT ON COLUMN "reporting"."revenue_by_month"."purchases" IS 'Valid purchases. One whose code was audited in several spellings counts once.';
