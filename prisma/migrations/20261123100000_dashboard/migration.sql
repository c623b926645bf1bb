-- People who use the dashboard, and what they did there.

-- CreateEnum
CREATE TYPE "mirror"."role" AS ENUM ('viewer', 'operator');

-- CreateTable
CREATE TABLE "mirror"."users" (
    "name" TEXT NOT NULL,
    "role" "mirror"."role" NOT NULL,
    "password_hash" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "users_pkey" PRIMARY KEY ("name")
);

-- CreateTable
CREATE TABLE "mirror"."sessions" (
    "token_hash" BYTEA NOT NULL,
    "user_name" TEXT,
    "made_by" TEXT,
    "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "seen_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "sessions_pkey" PRIMARY KEY ("token_hash"),
    CONSTRAINT "sessions_user_name_fkey" FOREIGN KEY ("user_name") REFERENCES "mirror"."users"("name") ON DELETE CASCADE ON UPDATE CASCADE
);

-- CreateTable
CREATE TABLE "mirror"."login_links" (
    "token_hash" BYTEA NOT NULL,
    "made_by" TEXT NOT NULL,
    "expires_at" TIMESTAMPTZ(6) NOT NULL,

    CONSTRAINT "login_links_pkey" PRIMARY KEY ("token_hash")
);

-- CreateTable
CREATE TABLE "mirror"."actions" (
    "action_id" BIGSERIAL NOT NULL,
    "at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "who" TEXT NOT NULL,
    "action" TEXT NOT NULL,
    "target" TEXT,
    "outcome" TEXT NOT NULL,

    CONSTRAINT "actions_pkey" PRIMARY KEY ("action_id")
);

-- CreateTable
CREATE TABLE "mirror"."run_progress" (
    "run_id" BIGINT NOT NULL,
    "phase" TEXT NOT NULL,
    "done" INTEGER NOT NULL,
    "total" INTEGER,
    "at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "run_progress_pkey" PRIMARY KEY ("run_id"),
    CONSTRAINT "run_progress_run_id_fkey" FOREIGN KEY ("run_id") REFERENCES "mirror"."runs"("run_id") ON DELETE CASCADE ON UPDATE CASCADE
);

-- AlterTable
ALTER TABLE "mirror"."processes" ADD COLUMN     "dashboard_url" TEXT;

-- CreateIndex
CREATE INDEX "runs_running_idx" ON "mirror"."runs"("run_id") WHERE (state = 'running'::mirror.run_state);

-- CreateIndex
CREATE INDEX "audits_running_idx" ON "mirror"."audits"("audit_id") WHERE (state = 'running'::mirror.audit_state);
