-- AlterTable
ALTER TABLE "mirror"."sellers" ADD COLUMN     "parked_at" TIMESTAMPTZ(6),
ADD COLUMN     "parked_code" TEXT,
ADD COLUMN     "parked_reason" TEXT,
ADD COLUMN     "parked_run_id" BIGINT;

-- AlterTable
ALTER TABLE "mirror"."runs" ADD COLUMN     "job_id" TEXT;

-- CreateTable
CREATE TABLE "mirror"."schedules" (
    "seller_id" TEXT NOT NULL,
    "kind" TEXT NOT NULL,
    "cron" TEXT NOT NULL,
    "time_zone" TEXT NOT NULL,
    "last_tick" TIMESTAMPTZ(6) NOT NULL,
    "enqueued_at" TIMESTAMPTZ(6) NOT NULL,

    CONSTRAINT "schedules_pkey" PRIMARY KEY ("seller_id","kind")
);

-- AddForeignKey
ALTER TABLE "mirror"."schedules" ADD CONSTRAINT "schedules_seller_id_fkey" FOREIGN KEY ("seller_id") REFERENCES "mirror"."sellers"("seller_id") ON DELETE RESTRICT ON UPDATE CASCADE;
