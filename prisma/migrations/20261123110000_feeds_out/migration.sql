-- Which life of the store this is: whoever copied it before it was restored from a backup must start over.
CREATE TABLE "mirror"."epochs" (
    "epoch" UUID NOT NULL DEFAULT gen_random_uuid(),
    "since" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "epochs_pkey" PRIMARY KEY ("epoch")
);
INSERT INTO "mirror"."epochs" DEFAULT VALUES;

-- How the feeds into other databases are doing. How far each is stands in its target.
CREATE TABLE "mirror"."feeds" (
    "feed" TEXT NOT NULL,
    "asked_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "delivered_at" TIMESTAMPTZ(6),
    "failures" INTEGER NOT NULL DEFAULT 0,
    "problem" TEXT,
    "failed_at" TIMESTAMPTZ(6),

    CONSTRAINT "feeds_pkey" PRIMARY KEY ("feed")
);
