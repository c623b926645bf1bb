-- CreateEnum
CREATE TYPE "mirror"."code_verdict" AS ENUM ('valid', 'invalid', 'unproven');

-- CreateEnum
CREATE TYPE "mirror"."audit_state" AS ENUM ('running', 'finished', 'cancelled', 'failed');

-- CreateTable
CREATE TABLE "mirror"."purchase_codes" (
    "code_id" BIGSERIAL NOT NULL,
    "seller_id" TEXT NOT NULL,
    "code" TEXT COLLATE "C" NOT NULL,
    "verdict" "mirror"."code_verdict",
    "proof" TEXT,
    "verdict_since" TIMESTAMPTZ(6),
    "first_checked_at" TIMESTAMPTZ(6),
    "last_checked_at" TIMESTAMPTZ(6),
    "last_check_id" BIGINT,
    "purchase_seen_at" TIMESTAMPTZ(6),
    "answered_code" TEXT,
    "license_type" TEXT,
    "price" DECIMAL(14,2),
    "currency" TEXT,
    "item_id" BIGINT,
    "item_name" TEXT,
    "item_url" TEXT,
    "item_preview_url" TEXT,
    "item_full" BOOLEAN NOT NULL DEFAULT false,
    "supported_until" TIMESTAMPTZ(6),
    "downloaded" BOOLEAN,
    "purchased_at" TIMESTAMPTZ(6),
    "raw" JSONB,

    CONSTRAINT "purchase_codes_pkey" PRIMARY KEY ("code_id")
);

-- CreateTable
CREATE TABLE "mirror"."code_checks" (
    "check_id" BIGSERIAL NOT NULL,
    "seller_id" TEXT NOT NULL,
    "code_id" BIGINT NOT NULL,
    "audit_id" BIGINT,
    "checked_at" TIMESTAMPTZ(6) NOT NULL,
    "verdict" "mirror"."code_verdict" NOT NULL,
    "reason" TEXT NOT NULL,
    "proof" TEXT NOT NULL,
    "http_status" INTEGER,
    "message" TEXT,
    "raw_hash" BYTEA,

    CONSTRAINT "code_checks_pkey" PRIMARY KEY ("check_id")
);

-- CreateTable
CREATE TABLE "mirror"."code_transitions" (
    "seq" BIGSERIAL NOT NULL,
    "seller_id" TEXT NOT NULL,
    "code_id" BIGINT NOT NULL,
    "check_id" BIGINT NOT NULL,
    "happened_at" TIMESTAMPTZ(6) NOT NULL,
    "kind" TEXT NOT NULL,
    "old_value" TEXT,
    "new_value" TEXT,

    CONSTRAINT "code_transitions_pkey" PRIMARY KEY ("seq")
);

-- CreateTable
CREATE TABLE "mirror"."audits" (
    "audit_id" BIGSERIAL NOT NULL,
    "seller_id" TEXT NOT NULL,
    "state" "mirror"."audit_state" NOT NULL,
    "source" TEXT NOT NULL,
    "layout" JSONB NOT NULL,
    "columns" TEXT[],
    "max_age_seconds" INTEGER,
    "canary" TEXT,
    "chunk_size" INTEGER NOT NULL,
    "lines" INTEGER NOT NULL,
    "rejected" INTEGER NOT NULL,
    "codes" INTEGER NOT NULL,
    "reused" INTEGER NOT NULL,
    "valid" INTEGER NOT NULL,
    "invalid" INTEGER NOT NULL,
    "unproven" INTEGER NOT NULL,
    "pending" INTEGER NOT NULL,
    "api_calls" INTEGER NOT NULL DEFAULT 0,
    "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "finished_at" TIMESTAMPTZ(6),
    "problem" TEXT,

    CONSTRAINT "audits_pkey" PRIMARY KEY ("audit_id")
);

-- CreateTable
CREATE TABLE "mirror"."audit_entries" (
    "audit_id" BIGINT NOT NULL,
    "entry" INTEGER NOT NULL,
    "seller_id" TEXT NOT NULL,
    "line" INTEGER NOT NULL,
    "position" INTEGER,
    "rejected" TEXT,
    "columns" TEXT[],

    CONSTRAINT "audit_entries_pkey" PRIMARY KEY ("audit_id","entry")
);

-- CreateTable
CREATE TABLE "mirror"."audit_codes" (
    "audit_id" BIGINT NOT NULL,
    "position" INTEGER NOT NULL,
    "seller_id" TEXT NOT NULL,
    "code_id" BIGINT NOT NULL,
    "verdict" "mirror"."code_verdict",
    "check_id" BIGINT,
    "reused" BOOLEAN NOT NULL,
    "attempts" INTEGER NOT NULL DEFAULT 0,

    CONSTRAINT "audit_codes_pkey" PRIMARY KEY ("audit_id","position")
);

-- CreateTable
CREATE TABLE "mirror"."audit_chunks" (
    "audit_id" BIGINT NOT NULL,
    "chunk" INTEGER NOT NULL,
    "seller_id" TEXT NOT NULL,
    "pending" INTEGER NOT NULL,

    CONSTRAINT "audit_chunks_pkey" PRIMARY KEY ("audit_id","chunk")
);

-- CreateTable
CREATE TABLE "mirror"."processes" (
    "process_id" UUID NOT NULL,
    "roles" TEXT[],
    "host" TEXT NOT NULL,
    "pid" INTEGER NOT NULL,
    "started_at" TIMESTAMPTZ(6) NOT NULL,
    "seen_at" TIMESTAMPTZ(6) NOT NULL,

    CONSTRAINT "processes_pkey" PRIMARY KEY ("process_id")
);

-- CreateIndex
CREATE INDEX "purchase_codes_seller_id_verdict_last_checked_at_idx" ON "mirror"."purchase_codes"("seller_id", "verdict", "last_checked_at") WHERE (last_checked_at IS NOT NULL);

-- CreateIndex
CREATE UNIQUE INDEX "purchase_codes_seller_id_code_key" ON "mirror"."purchase_codes"("seller_id", "code");

-- CreateIndex
CREATE INDEX "code_checks_code_id_check_id_idx" ON "mirror"."code_checks"("code_id", "check_id");

-- CreateIndex
CREATE INDEX "code_transitions_seller_id_seq_idx" ON "mirror"."code_transitions"("seller_id", "seq");

-- CreateIndex
CREATE INDEX "code_transitions_code_id_seq_idx" ON "mirror"."code_transitions"("code_id", "seq");

-- CreateIndex
CREATE INDEX "audits_seller_id_audit_id_idx" ON "mirror"."audits"("seller_id", "audit_id" DESC);

-- AddForeignKey
ALTER TABLE "mirror"."code_checks" ADD CONSTRAINT "code_checks_code_id_fkey" FOREIGN KEY ("code_id") REFERENCES "mirror"."purchase_codes"("code_id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "mirror"."code_transitions" ADD CONSTRAINT "code_transitions_code_id_fkey" FOREIGN KEY ("code_id") REFERENCES "mirror"."purchase_codes"("code_id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "mirror"."audits" ADD CONSTRAINT "audits_seller_id_fkey" FOREIGN KEY ("seller_id") REFERENCES "mirror"."sellers"("seller_id") ON DELETE RESTRICT ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "mirror"."audit_chunks" ADD CONSTRAINT "audit_chunks_audit_id_fkey" FOREIGN KEY ("audit_id") REFERENCES "mirror"."audits"("audit_id") ON DELETE RESTRICT ON UPDATE CASCADE;

COMMENT ON TABLE "mirror"."purchase_codes" IS 'Every purchase code of a list, with the newest proven verdict and the purchase as last answered.';
COMMENT ON COLUMN "mirror"."purchase_codes"."verdict" IS 'valid or invalid, or null when the code was never proven to be either.';
COMMENT ON COLUMN "mirror"."purchase_codes"."first_checked_at" IS 'When a verdict was first proven.';
COMMENT ON COLUMN "mirror"."purchase_codes"."last_checked_at" IS 'When the verdict was last proven.';
COMMENT ON COLUMN "mirror"."purchase_codes"."purchase_seen_at" IS 'When the marketplace last told the purchase, which is kept when the code becomes invalid.';
COMMENT ON TABLE "mirror"."code_checks" IS 'The ledger: every answer about a code with its evidence. Rows are only ever added.';
COMMENT ON TABLE "mirror"."code_transitions" IS 'What changed about codes, in the order in which it was recorded.';
COMMENT ON TABLE "mirror"."audits" IS 'Lists of codes that are or were checked. codes = valid + invalid + unproven + pending.';
COMMENT ON TABLE "mirror"."audit_entries" IS 'The lists as they came, a row for each record.';
COMMENT ON TABLE "mirror"."audit_codes" IS 'The distinct codes of each list, with what the audit found.';
COMMENT ON COLUMN "mirror"."audit_codes"."verdict" IS 'What this audit found, unproven when it gave up, null when not settled.';
COMMENT ON COLUMN "mirror"."audit_codes"."reused" IS 'The verdict was fresh, and was taken over without asking.';
COMMENT ON TABLE "mirror"."audit_chunks" IS 'Ranges of positions that are worked on as one.';
COMMENT ON TABLE "mirror"."processes" IS 'Processes that work for the mirror, and when they last said so.';
