-- CreateEnum
CREATE TYPE "mirror"."change_class" AS ENUM ('price', 'release', 'text', 'media', 'listing', 'missing', 'removed', 'restored');

-- AlterTable
ALTER TABLE "mirror"."sellers" ADD COLUMN     "loaded_run_id" BIGINT,
ADD COLUMN     "loaded_seq" BIGINT;

-- AlterTable
ALTER TABLE "mirror"."runs" ADD COLUMN     "catalogue_wide" TEXT[] DEFAULT ARRAY[]::TEXT[];

-- AlterTable
ALTER TABLE "mirror"."items" ADD COLUMN     "valid_from" TIMESTAMPTZ(6);

-- What an item was before it last changed was not kept so far: what is known of it begins there.
UPDATE "mirror"."items" AS i
   SET "valid_from" = CASE WHEN i."state" = 'missing'
       THEN greatest(i."changed_at", (SELECT r."started_at" FROM "mirror"."runs" AS r WHERE r."run_id" = i."synced_run_id"))
       ELSE i."changed_at" END;

ALTER TABLE "mirror"."items" ALTER COLUMN "valid_from" SET NOT NULL;

-- CreateTable
CREATE TABLE "mirror"."item_versions" (
    "seller_id" TEXT NOT NULL,
    "item_id" BIGINT NOT NULL,
    "name" TEXT NOT NULL,
    "description" TEXT,
    "category" TEXT,
    "sub_category" TEXT,
    "options" TEXT[],
    "version" TEXT,
    "demo_link" TEXT,
    "tags" TEXT[],
    "thumbnail_url" TEXT,
    "preview_image_url" TEXT,
    "preview_video_url" TEXT,
    "preview_audio_url" TEXT,
    "screenshots" TEXT[],
    "price_regular" DECIMAL(14,2),
    "price_extended" DECIMAL(14,2),
    "currency" TEXT,
    "published_at" TIMESTAMPTZ(6),
    "state" "mirror"."item_state" NOT NULL,
    "first_seen_at" TIMESTAMPTZ(6) NOT NULL,
    "changed_at" TIMESTAMPTZ(6) NOT NULL,
    "removed_at" TIMESTAMPTZ(6),
    "synced_run_id" BIGINT NOT NULL,
    "valid_from" TIMESTAMPTZ(6) NOT NULL,
    "valid_to" TIMESTAMPTZ(6) NOT NULL,
    "superseded_run_id" BIGINT NOT NULL,

    CONSTRAINT "item_versions_pkey" PRIMARY KEY ("seller_id","item_id","valid_from")
);

-- CreateTable
CREATE TABLE "mirror"."item_changes" (
    "seq" BIGSERIAL NOT NULL,
    "seller_id" TEXT NOT NULL,
    "item_id" BIGINT NOT NULL,
    "run_id" BIGINT NOT NULL,
    "changed_at" TIMESTAMPTZ(6) NOT NULL,
    "class" "mirror"."change_class" NOT NULL,
    "field" TEXT NOT NULL,
    "old_value" JSONB,
    "new_value" JSONB,

    CONSTRAINT "item_changes_pkey" PRIMARY KEY ("seq")
);

-- CreateTable
CREATE TABLE "mirror"."account_versions" (
    "seller_id" TEXT NOT NULL,
    "username" TEXT NOT NULL,
    "firstname" TEXT,
    "lastname" TEXT,
    "full_name" TEXT,
    "email" TEXT,
    "balance" DECIMAL(14,2),
    "currency" TEXT,
    "heading" TEXT,
    "description" TEXT,
    "contact_email" TEXT,
    "social_links" JSONB NOT NULL,
    "avatar_url" TEXT,
    "cover_url" TEXT,
    "registered_at" TIMESTAMPTZ(6),
    "first_seen_at" TIMESTAMPTZ(6) NOT NULL,
    "synced_run_id" BIGINT NOT NULL,
    "valid_from" TIMESTAMPTZ(6) NOT NULL,
    "valid_to" TIMESTAMPTZ(6) NOT NULL,
    "superseded_run_id" BIGINT NOT NULL,

    CONSTRAINT "account_versions_pkey" PRIMARY KEY ("seller_id","valid_from")
);

-- CreateIndex
CREATE INDEX "item_versions_valid_to_valid_from_idx" ON "mirror"."item_versions"("valid_to", "valid_from");

-- CreateIndex
CREATE INDEX "item_changes_seller_id_item_id_seq_idx" ON "mirror"."item_changes"("seller_id", "item_id", "seq");

-- CreateIndex
CREATE INDEX "item_changes_class_seq_idx" ON "mirror"."item_changes"("class", "seq");

-- CreateIndex
CREATE INDEX "item_changes_changed_at_idx" ON "mirror"."item_changes" USING BRIN ("changed_at");

-- Lists that were taken in before there was a feed: who follows it starts with all their items.
UPDATE "mirror"."sellers" AS s
   SET "loaded_seq" = nextval('"mirror"."item_changes_seq_seq"'),
       "loaded_run_id" = (SELECT max(r."run_id") FROM "mirror"."runs" AS r WHERE r."seller_id" = s."seller_id" AND r."kind" = 'catalogue' AND r."state" IN ('succeeded', 'held'))
 WHERE EXISTS (SELECT FROM "mirror"."runs" AS r WHERE r."seller_id" = s."seller_id" AND r."kind" = 'catalogue' AND r."state" IN ('succeeded', 'held'))
   AND EXISTS (SELECT FROM "mirror"."items" AS i WHERE i."seller_id" = s."seller_id");

COMMENT ON COLUMN "mirror"."sellers"."loaded_run_id" IS 'The run that took in the first list. Its items are not told one by one in item_changes.';
COMMENT ON COLUMN "mirror"."sellers"."loaded_seq" IS 'The place of that first list among the numbers of item_changes: who has read up to a smaller number knows none of its items.';
COMMENT ON COLUMN "mirror"."runs"."catalogue_wide" IS 'Fields that changed in all or nearly all items at once, such as price_regular or currency.';
COMMENT ON COLUMN "mirror"."items"."valid_from" IS 'Since when the row says what it says now, in its canonical fields and its state.';
COMMENT ON TABLE "mirror"."item_versions" IS 'Superseded states of items: what items said from valid_from until just before valid_to. The present state is in items.';
COMMENT ON COLUMN "mirror"."item_versions"."synced_run_id" IS 'The run that wrote this state.';
COMMENT ON COLUMN "mirror"."item_versions"."superseded_run_id" IS 'The run that wrote the next one.';
COMMENT ON TABLE "mirror"."item_changes" IS 'What changed about items, field by field. Numbers grow in the order of commits: who has read up to a number misses nothing by going on from there.';
COMMENT ON COLUMN "mirror"."item_changes"."field" IS 'A column of items. State is told too: null to live is an item that is new.';
COMMENT ON TABLE "mirror"."account_versions" IS 'Superseded states of accounts: what accounts said from valid_from until just before valid_to. The present state is in accounts.';

-- CreateView
CREATE VIEW "reporting"."item_history" AS
SELECT
    "seller_id",
    "item_id",
    "name",
    "description",
    "category",
    "sub_category",
    "options",
    "version",
    "demo_link",
    "tags",
    "thumbnail_url",
    "preview_image_url",
    "preview_video_url",
    "preview_audio_url",
    "screenshots",
    "price_regular",
    "price_extended",
    "currency",
    "published_at",
    "state",
    "first_seen_at",
    "changed_at",
    "removed_at",
    "synced_run_id",
    "valid_from",
    NULL::timestamptz AS "valid_to",
    NULL::bigint AS "superseded_run_id"
FROM "mirror"."items"
UNION ALL
SELECT
    "seller_id",
    "item_id",
    "name",
    "description",
    "category",
    "sub_category",
    "options",
    "version",
    "demo_link",
    "tags",
    "thumbnail_url",
    "preview_image_url",
    "preview_video_url",
    "preview_audio_url",
    "screenshots",
    "price_regular",
    "price_extended",
    "currency",
    "published_at",
    "state",
    "first_seen_at",
    "changed_at",
    "removed_at",
    "synced_run_id",
    "valid_from",
    "valid_to",
    "superseded_run_id"
FROM "mirror"."item_versions";

COMMENT ON VIEW "reporting"."item_history" IS 'Every state of every item, the present one included: the row held from valid_from until just before valid_to, which is null for the present state.';

-- CreateView
CREATE VIEW "reporting"."account_history" AS
SELECT
    "seller_id",
    "username",
    "firstname",
    "lastname",
    "full_name",
    "email",
    "balance",
    "currency",
    "heading",
    "description",
    "contact_email",
    "social_links",
    "avatar_url",
    "cover_url",
    "registered_at",
    "first_seen_at",
    "synced_run_id",
    "changed_at" AS "valid_from",
    NULL::timestamptz AS "valid_to",
    NULL::bigint AS "superseded_run_id"
FROM "mirror"."accounts"
UNION ALL
SELECT
    "seller_id",
    "username",
    "firstname",
    "lastname",
    "full_name",
    "email",
    "balance",
    "currency",
    "heading",
    "description",
    "contact_email",
    "social_links",
    "avatar_url",
    "cover_url",
    "registered_at",
    "first_seen_at",
    "synced_run_id",
    "valid_from",
    "valid_to",
    "superseded_run_id"
FROM "mirror"."account_versions";

COMMENT ON VIEW "reporting"."account_history" IS 'Every state of every account, the present one included: the row held from valid_from until just before valid_to, which is null for the present state.';

-- The functions read views, so that who may read the views may use them, and are single queries, so
-- that conditions on what they return reach the indexes.
CREATE FUNCTION "reporting"."items_as_of"("moment" timestamptz)
RETURNS TABLE (
    "seller_id" text,
    "item_id" bigint,
    "name" text,
    "description" text,
    "category" text,
    "sub_category" text,
    "options" text[],
    "version" text,
    "demo_link" text,
    "tags" text[],
    "thumbnail_url" text,
    "preview_image_url" text,
    "preview_video_url" text,
    "preview_audio_url" text,
    "screenshots" text[],
    "price_regular" numeric,
    "price_extended" numeric,
    "currency" text,
    "published_at" timestamptz,
    "state" "mirror"."item_state",
    "first_seen_at" timestamptz,
    "changed_at" timestamptz,
    "removed_at" timestamptz,
    "synced_run_id" bigint
)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
SELECT
    h."seller_id",
    h."item_id",
    h."name",
    h."description",
    h."category",
    h."sub_category",
    h."options",
    h."version",
    h."demo_link",
    h."tags",
    h."thumbnail_url",
    h."preview_image_url",
    h."preview_video_url",
    h."preview_audio_url",
    h."screenshots",
    h."price_regular",
    h."price_extended",
    h."currency",
    h."published_at",
    h."state",
    h."first_seen_at",
    h."changed_at",
    h."removed_at",
    h."synced_run_id"
FROM "reporting"."item_history" AS h
WHERE h."valid_from" <= "moment" AND (h."valid_to" > "moment" OR h."valid_to" IS NULL)
$$;

COMMENT ON FUNCTION "reporting"."items_as_of"(timestamptz) IS 'The rows of reporting.items as they were at a moment. What a run found counts from the moment when the run began.';

CREATE FUNCTION "reporting"."accounts_as_of"("moment" timestamptz)
RETURNS TABLE (
    "seller_id" text,
    "username" text,
    "firstname" text,
    "lastname" text,
    "full_name" text,
    "email" text,
    "balance" numeric,
    "currency" text,
    "heading" text,
    "description" text,
    "contact_email" text,
    "social_links" jsonb,
    "avatar_url" text,
    "cover_url" text,
    "registered_at" timestamptz,
    "first_seen_at" timestamptz,
    "changed_at" timestamptz,
    "synced_run_id" bigint
)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
SELECT
    h."seller_id",
    h."username",
    h."firstname",
    h."lastname",
    h."full_name",
    h."email",
    h."balance",
    h."currency",
    h."heading",
    h."description",
    h."contact_email",
    h."social_links",
    h."avatar_url",
    h."cover_url",
    h."registered_at",
    h."first_seen_at",
    h."valid_from",
    h."synced_run_id"
FROM "reporting"."account_history" AS h
WHERE h."valid_from" <= "moment" AND (h."valid_to" > "moment" OR h."valid_to" IS NULL)
$$;

COMMENT ON FUNCTION "reporting"."accounts_as_of"(timestamptz) IS 'The rows of reporting.accounts as they were at a moment. What a run found counts from the moment when the run began.';
