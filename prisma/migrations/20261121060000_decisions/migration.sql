-- CreateEnum
CREATE TYPE "mirror"."decision" AS ENUM ('approved', 'rejected');

-- AlterEnum
ALTER TYPE "mirror"."run_kind" ADD VALUE 'approval';

-- AlterTable
ALTER TABLE "mirror"."runs" ADD COLUMN     "approval_run_id" BIGINT,
ADD COLUMN     "compared" INTEGER,
ADD COLUMN     "decided_at" TIMESTAMPTZ(6),
ADD COLUMN     "decided_by" TEXT,
ADD COLUMN     "decision" "mirror"."decision",
ADD COLUMN     "present" INTEGER,
ADD COLUMN     "wide_items" INTEGER[] DEFAULT ARRAY[]::INTEGER[];

-- CreateTable
CREATE TABLE "mirror"."held_items" (
    "run_id" BIGINT NOT NULL,
    "item_id" BIGINT NOT NULL,
    "seller_id" TEXT NOT NULL,
    "confirmed" BOOLEAN NOT NULL,

    CONSTRAINT "held_items_pkey" PRIMARY KEY ("run_id","item_id")
);

-- CreateIndex
CREATE INDEX "held_items_seller_id_item_id_idx" ON "mirror"."held_items"("seller_id", "item_id");

-- AddForeignKey
ALTER TABLE "mirror"."held_items" ADD CONSTRAINT "held_items_run_id_fkey" FOREIGN KEY ("run_id") REFERENCES "mirror"."runs"("run_id") ON DELETE CASCADE ON UPDATE CASCADE;

COMMENT ON COLUMN "mirror"."runs"."decision" IS 'What a person decided about the removals that the removal guard held back.';
COMMENT ON COLUMN "mirror"."runs"."approval_run_id" IS 'The run that removed the items once a person approved.';
COMMENT ON COLUMN "mirror"."runs"."present" IS 'Of a run that was held: items that the mirror held as live or missing before it.';
COMMENT ON COLUMN "mirror"."runs"."compared" IS 'Of a run with catalogue_wide: items that the list named and the mirror held before.';
COMMENT ON COLUMN "mirror"."runs"."wide_items" IS 'In how many of the compared items each field of catalogue_wide changed, in its order.';
COMMENT ON TABLE "mirror"."held_items" IS 'The items that a run would have removed, or may have, had the removal guard not held it.';
COMMENT ON COLUMN "mirror"."held_items"."confirmed" IS 'The run looked the item up, and it was denied between two proofs of the key; otherwise it is only not listed.';
