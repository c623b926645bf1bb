-- Until when requests to a host go without the random parameter that keeps caches from answering.
ALTER TABLE "mirror"."request_budgets" ADD COLUMN "random_left_out_until" TIMESTAMPTZ(6);
