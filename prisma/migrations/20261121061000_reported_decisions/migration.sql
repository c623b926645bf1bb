-- CreateView
CREATE OR REPLACE VIEW "reporting"."sync_runs" AS
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
    "problem",
    "job_id",
    "catalogue_wide",
    "decision",
    "decided_at",
    "decided_by",
    "approval_run_id"
FROM "mirror"."runs";

COMMENT ON COLUMN "reporting"."sync_runs"."decision" IS 'What a person decided about the removals that the removal guard held back: approved or rejected. Null when nothing was held, or nobody has decided.';
COMMENT ON COLUMN "reporting"."sync_runs"."decided_at" IS 'When that was decided; timestamptz, shown in the time zone of the session. Null as long as decision is.';
COMMENT ON COLUMN "reporting"."sync_runs"."decided_by" IS 'Who decided it, as the command found them. Null as long as decision is.';
COMMENT ON COLUMN "reporting"."sync_runs"."approval_run_id" IS 'The run that removed the items once that was approved; run_id of sync_runs. Null when there is none.';
