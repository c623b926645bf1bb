-- How far each view of a feed is behind, and since when people know that a feed is.
CREATE TABLE "mirror"."feed_views" (
    "feed" TEXT NOT NULL,
    "view_name" TEXT NOT NULL,
    "waiting_since" TIMESTAMPTZ(6),
    "delivered_at" TIMESTAMPTZ(6),
    "problem" TEXT,

    CONSTRAINT "feed_views_pkey" PRIMARY KEY ("feed","view_name")
);

ALTER TABLE "mirror"."feeds" ADD COLUMN "stale_since" TIMESTAMPTZ(6);
