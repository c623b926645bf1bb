-- Removals that the guard held are accepted by a run of their own, or kept. Nobody decides about runs any more.

ALTER TABLE mirror.held_items ADD COLUMN kept boolean NOT NULL DEFAULT false;

UPDATE mirror.held_items AS h SET kept = true
FROM mirror.runs AS r
WHERE r.run_id = h.run_id AND r.decision = 'rejected';

COMMENT ON TABLE mirror.held_items IS 'Items whose removal the removal guard held back, with the run that held them first. An item is held as long as it stays missing.';
COMMENT ON COLUMN mirror.held_items.kept IS 'True if a person chose to keep the item as missing.';

ALTER TABLE mirror.runs ADD COLUMN accepted_run_id bigint;

UPDATE mirror.runs AS a SET accepted_run_id = h.run_id
FROM mirror.runs AS h
WHERE h.approval_run_id = a.run_id;

COMMENT ON COLUMN mirror.runs.accepted_run_id IS 'For a run of kind approval: the run whose held removals were accepted.';

CREATE INDEX runs_accepted_run_id_idx ON mirror.runs (accepted_run_id) WHERE accepted_run_id IS NOT NULL;

-- The columns at the end stay for programs that name them.
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
) AS a ON r.kind = 'items';

COMMENT ON COLUMN reporting.sync_runs.kind IS 'account: the account alone. items: all items. item: one item. approval: removal of held items that a person accepted.';
COMMENT ON COLUMN reporting.sync_runs.decision IS 'approved if a person accepted held removals that this run showed; otherwise null.';
COMMENT ON COLUMN reporting.sync_runs.decided_at IS 'When they were accepted, as timestamptz in the time zone of the session. Null if decision is null.';
COMMENT ON COLUMN reporting.sync_runs.decided_by IS 'Always null: the warnings of the run in approval_run_id say who accepted.';
COMMENT ON COLUMN reporting.sync_runs.approval_run_id IS 'The newest run that removed held items that this run showed; run_id of sync_runs. Null if there is none.';

ALTER TABLE mirror.runs DROP COLUMN decision, DROP COLUMN decided_at, DROP COLUMN decided_by, DROP COLUMN approval_run_id;

DROP TYPE mirror.decision;

ALTER TABLE mirror.item_lookups ADD COLUMN found_runs integer NOT NULL DEFAULT 0;

COMMENT ON COLUMN mirror.item_lookups.found_runs IS 'In how many runs in a row a look-up found the item although the list lacked it.';

ALTER TABLE mirror.quarantine ADD COLUMN runs integer NOT NULL DEFAULT 1;

COMMENT ON COLUMN mirror.quarantine.runs IS 'In how many runs in a row the item, or the record if it has no id, could not be read; as of last_run_id.';
