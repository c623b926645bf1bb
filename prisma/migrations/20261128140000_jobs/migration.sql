-- A run that a person or a program asked for, and that no worker has begun.
ALTER TYPE "mirror"."run_state" ADD VALUE 'asked' BEFORE 'running';

-- What a run was for, and when it is tried again. The newest copy of each kind answers the last time of its schedule, so
-- that schedules go on after the upgrade where they were.
ALTER TABLE "mirror"."runs"
  ADD COLUMN "due_at" TIMESTAMPTZ(6),
  ADD COLUMN "retry_at" TIMESTAMPTZ(6),
  ADD COLUMN "asked_by" TEXT,
  ADD COLUMN "item_id" BIGINT;
COMMENT ON COLUMN "mirror"."runs"."due_at" IS 'The time of the schedule that it answers, or when it was asked for. Null for a run by a command.';
COMMENT ON COLUMN "mirror"."runs"."retry_at" IS 'For a failed run: when it is tried again. Null if it is not.';
COMMENT ON COLUMN "mirror"."runs"."asked_by" IS 'Who asked for it; null for a run of a schedule or by a command.';
COMMENT ON COLUMN "mirror"."runs"."item_id" IS 'The item of a run that mirrors one item.';

UPDATE "mirror"."runs" r SET "due_at" = s."last_at"
  FROM "mirror"."schedules" s
 WHERE s."kind" IN ('sync', 'account') AND s."last_at" IS NOT NULL
   AND r."run_id" = (SELECT max("run_id") FROM "mirror"."runs" o
                      WHERE o."seller_id" = s."name" AND o."started_at" >= s."last_at"
                        AND o."state" IN ('succeeded', 'held', 'failed')
                        AND o."kind" = (CASE s."kind" WHEN 'sync' THEN 'items' ELSE 'account' END)::"mirror"."run_kind");

CREATE INDEX "runs_due_idx" ON "mirror"."runs" ("seller_id", "due_at" DESC) WHERE "due_at" IS NOT NULL;

ALTER TABLE "mirror"."sellers" ADD COLUMN "recheck_due_at" TIMESTAMPTZ(6);
COMMENT ON COLUMN "mirror"."sellers"."recheck_due_at" IS 'The time of AUDIT_CRON for which codes were last checked again, or found to need no check.';
UPDATE "mirror"."sellers" SET "recheck_due_at" = s."last_at"
  FROM "mirror"."schedules" s WHERE s."kind" = 'recheck' AND s."name" = "sellers"."seller_id";

-- When schedules are due follows from what was done. What a process goes by is told by its heartbeat.
DROP TABLE "mirror"."schedules";
ALTER TABLE "mirror"."processes" ADD COLUMN "schedules" JSONB NOT NULL DEFAULT '[]';
COMMENT ON COLUMN "mirror"."processes"."schedules" IS 'The schedules that a scheduler goes by, as objects with kind, name, cron and timeZone.';

-- When a pause was asked for. A pause that was asked for in the future is one of a clock that was wrong.
ALTER TABLE "mirror"."request_budgets" ADD COLUMN "paused_at" TIMESTAMPTZ(6);

-- Messages to people, one row for each channel. They are written when something happened, and sent once.
CREATE TABLE "mirror"."alerts" (
  "alert_id" TEXT NOT NULL,
  "channel" TEXT NOT NULL,
  "type" TEXT NOT NULL,
  "seller_id" TEXT,
  "happened_at" TIMESTAMPTZ(6) NOT NULL,
  "message" JSON NOT NULL,
  "created_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
  "attempts" INTEGER NOT NULL DEFAULT 0,
  "retry_at" TIMESTAMPTZ(6),
  "ended_at" TIMESTAMPTZ(6),
  "outcome" TEXT,
  "note" TEXT,
  PRIMARY KEY ("alert_id", "channel")
);
CREATE INDEX "alerts_open_idx" ON "mirror"."alerts" ("created_at") WHERE "ended_at" IS NULL;
COMMENT ON TABLE "mirror"."alerts" IS 'Alerts, one row for each channel that sends them.';

-- The unknown fields that items of a seller have had, so that a new one is reported once.
CREATE TABLE "mirror"."item_fields" (
  "seller_id" TEXT NOT NULL,
  "field" TEXT NOT NULL,
  "first_run_id" BIGINT,
  "first_seen_at" TIMESTAMPTZ(6) NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY ("seller_id", "field")
);
COMMENT ON TABLE "mirror"."item_fields" IS 'Fields of items that no column holds. They are in items.extra.';
INSERT INTO "mirror"."item_fields" ("seller_id", "field")
SELECT DISTINCT "seller_id", jsonb_object_keys("extra") FROM "mirror"."items" WHERE "extra" <> '{}'::jsonb;

-- A run that nobody has begun did nothing, which a report could show.
CREATE OR REPLACE VIEW reporting.sync_runs AS
SELECT
    r.run_id,
    r.seller_id,
    r.kind::text AS kind,
    r.state::text AS state,
    r.started_at,
    r.finished_at,
    r.holder,
    r.listed,
    r.added,
    r.changed,
    r.extra_changed,
    r.unchanged,
    r.restored,
    r.missing,
    r.removed,
    r.quarantined,
    r.duplicates,
    r.api_calls,
    r.bytes,
    r.tolerated,
    r.warnings,
    r.problem_code,
    r.problem,
    r.job_id,
    r.wide_fields,
    CASE WHEN a.run_id IS NOT NULL THEN 'approved' END AS decision,
    a.started_at AS decided_at,
    NULL::text AS decided_by,
    a.run_id AS approval_run_id
FROM mirror.runs AS r
LEFT JOIN LATERAL (
    SELECT
        n.run_id,
        n.started_at
    FROM mirror.runs AS n
    WHERE n.accepted_run_id = r.run_id AND n.state = 'succeeded'
    ORDER BY n.run_id DESC
    LIMIT 1
) AS a ON r.kind = 'items'
WHERE r.state::text <> 'asked';
