-- What a program may do with its token. Those of before look up purchase codes.
CREATE TYPE "mirror"."token_scope" AS ENUM ('codes', 'manage');
ALTER TABLE "mirror"."api_tokens" ADD COLUMN "scope" "mirror"."token_scope" NOT NULL DEFAULT 'codes';

-- A run gets a number of its own when it begins. Who asked for it can still find it by the first one.
ALTER TABLE "mirror"."runs" ADD COLUMN "asked_run_id" BIGINT;
COMMENT ON COLUMN "mirror"."runs"."asked_run_id" IS 'The number that the run had while it was asked for and not begun. Null if nobody asked for it.';
CREATE INDEX "runs_asked_run_id_idx" ON "mirror"."runs" ("asked_run_id") WHERE "asked_run_id" IS NOT NULL;
