-- CreateSchema
CREATE SCHEMA IF NOT EXISTS "mirror";

-- CreateSchema
CREATE SCHEMA IF NOT EXISTS "reporting";

-- CreateEnum
CREATE TYPE "mirror"."item_state" AS ENUM ('live', 'missing', 'removed');

-- CreateEnum
CREATE TYPE "mirror"."run_kind" AS ENUM ('account', 'catalogue', 'item');

-- CreateEnum
CREATE TYPE "mirror"."run_state" AS ENUM ('running', 'succeeded', 'failed', 'held', 'interrupted');

-- CreateTable
CREATE TABLE "mirror"."sellers" (
    "seller_id" TEXT NOT NULL,
    "marketplace" TEXT NOT NULL,
    "bound_username" TEXT,
    "bound_at" TIMESTAMPTZ(6),
    "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "sellers_pkey" PRIMARY KEY ("seller_id")
);

-- CreateTable
CREATE TABLE "mirror"."accounts" (
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
    "changed_at" TIMESTAMPTZ(6) NOT NULL,
    "synced_run_id" BIGINT NOT NULL,
    "content_hash" BYTEA NOT NULL,
    "extra" JSONB NOT NULL,
    "raw" JSONB NOT NULL,

    CONSTRAINT "accounts_pkey" PRIMARY KEY ("seller_id")
);

-- CreateTable
CREATE TABLE "mirror"."items" (
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
    "content_hash" BYTEA NOT NULL,
    "extra_hash" BYTEA NOT NULL,
    "wire_hash" BYTEA NOT NULL,
    "extra" JSONB NOT NULL,
    "raw" JSONB NOT NULL,

    CONSTRAINT "items_pkey" PRIMARY KEY ("seller_id","item_id")
);

-- CreateTable
CREATE TABLE "mirror"."runs" (
    "run_id" BIGSERIAL NOT NULL,
    "seller_id" TEXT NOT NULL,
    "kind" "mirror"."run_kind" NOT NULL,
    "state" "mirror"."run_state" NOT NULL,
    "started_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "finished_at" TIMESTAMPTZ(6),
    "holder" TEXT NOT NULL,
    "listed" INTEGER NOT NULL DEFAULT 0,
    "added" INTEGER NOT NULL DEFAULT 0,
    "changed" INTEGER NOT NULL DEFAULT 0,
    "extra_changed" INTEGER NOT NULL DEFAULT 0,
    "unchanged" INTEGER NOT NULL DEFAULT 0,
    "restored" INTEGER NOT NULL DEFAULT 0,
    "missing" INTEGER NOT NULL DEFAULT 0,
    "removed" INTEGER NOT NULL DEFAULT 0,
    "quarantined" INTEGER NOT NULL DEFAULT 0,
    "duplicates" INTEGER NOT NULL DEFAULT 0,
    "api_calls" INTEGER NOT NULL DEFAULT 0,
    "bytes" BIGINT NOT NULL DEFAULT 0,
    "tolerated" JSONB NOT NULL DEFAULT '{}',
    "warnings" TEXT[] DEFAULT ARRAY[]::TEXT[],
    "problem_code" TEXT,
    "problem" TEXT,

    CONSTRAINT "runs_pkey" PRIMARY KEY ("run_id")
);

-- CreateTable
CREATE TABLE "mirror"."quarantine" (
    "quarantine_id" BIGSERIAL NOT NULL,
    "seller_id" TEXT NOT NULL,
    "item_id" BIGINT,
    "reason" TEXT NOT NULL,
    "raw" TEXT NOT NULL,
    "raw_hash" BYTEA NOT NULL,
    "first_run_id" BIGINT NOT NULL,
    "last_run_id" BIGINT NOT NULL,
    "first_seen_at" TIMESTAMPTZ(6) NOT NULL,
    "last_seen_at" TIMESTAMPTZ(6) NOT NULL,

    CONSTRAINT "quarantine_pkey" PRIMARY KEY ("quarantine_id")
);

-- CreateTable
CREATE TABLE "mirror"."item_lookups" (
    "seller_id" TEXT NOT NULL,
    "item_id" BIGINT NOT NULL,
    "looked_up_at" TIMESTAMPTZ(6) NOT NULL,
    "outcome" TEXT NOT NULL,

    CONSTRAINT "item_lookups_pkey" PRIMARY KEY ("seller_id","item_id")
);

-- CreateTable
CREATE TABLE "mirror"."request_budgets" (
    "host" TEXT NOT NULL,
    "next_at" TIMESTAMPTZ(6) NOT NULL,
    "paused_until" TIMESTAMPTZ(6) NOT NULL,
    "urgent_until" TIMESTAMPTZ(6) NOT NULL,

    CONSTRAINT "request_budgets_pkey" PRIMARY KEY ("host")
);

-- CreateIndex
CREATE INDEX "runs_seller_id_kind_run_id_idx" ON "mirror"."runs"("seller_id", "kind", "run_id" DESC);

-- CreateIndex
CREATE UNIQUE INDEX "quarantine_seller_id_raw_hash_key" ON "mirror"."quarantine"("seller_id", "raw_hash");

-- AddForeignKey
ALTER TABLE "mirror"."accounts" ADD CONSTRAINT "accounts_seller_id_fkey" FOREIGN KEY ("seller_id") REFERENCES "mirror"."sellers"("seller_id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "mirror"."items" ADD CONSTRAINT "items_seller_id_fkey" FOREIGN KEY ("seller_id") REFERENCES "mirror"."sellers"("seller_id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "mirror"."runs" ADD CONSTRAINT "runs_seller_id_fkey" FOREIGN KEY ("seller_id") REFERENCES "mirror"."sellers"("seller_id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "mirror"."quarantine" ADD CONSTRAINT "quarantine_seller_id_fkey" FOREIGN KEY ("seller_id") REFERENCES "mirror"."sellers"("seller_id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "mirror"."item_lookups" ADD CONSTRAINT "item_lookups_seller_id_fkey" FOREIGN KEY ("seller_id") REFERENCES "mirror"."sellers"("seller_id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- The views of schema reporting are the contract for BI tools. They name every column, so that a
-- column added to a table changes no report.
COMMENT ON SCHEMA "mirror" IS 'Tables of seller-mirror. They may change with every version: report from schema reporting.';
COMMENT ON SCHEMA "reporting" IS 'Views for reports and BI tools. Columns are only ever added.';

-- CreateView
CREATE VIEW "reporting"."items" AS
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
    "synced_run_id"
FROM "mirror"."items";

COMMENT ON VIEW "reporting"."items" IS 'Every item ever seen, one row for each seller and item. Column state tells live, missing (not listed, not confirmed gone) and removed (confirmed gone).';

-- CreateView
CREATE VIEW "reporting"."accounts" AS
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
    "changed_at",
    "synced_run_id"
FROM "mirror"."accounts";

COMMENT ON VIEW "reporting"."accounts" IS 'The account of each seller as it was last read.';

-- CreateView
CREATE VIEW "reporting"."sync_runs" AS
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
    "problem"
FROM "mirror"."runs";

COMMENT ON VIEW "reporting"."sync_runs" IS 'One row for each run: what it did, what it met, how it ended.';
