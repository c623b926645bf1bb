-- Uploaded lists whose checks were not started. The audit has state draft.
CREATE TABLE mirror.audit_drafts (
    audit_id bigint NOT NULL PRIMARY KEY REFERENCES mirror.audits ON DELETE CASCADE ON UPDATE CASCADE,
    owner bytea NOT NULL,
    chosen_column text NOT NULL DEFAULT '',
    chosen_sheet text NOT NULL DEFAULT '',
    content bytea NOT NULL,
    reading jsonb,
    problem jsonb
);

COMMENT ON TABLE mirror.audit_drafts IS 'Uploaded lists whose checks were not started. They are deleted when the check starts, or after an hour.';
COMMENT ON COLUMN mirror.audit_drafts.owner IS 'SHA-256 of the form token of the session that uploaded it. Other sessions can''t see it.';
COMMENT ON COLUMN mirror.audit_drafts.chosen_column IS 'The column of codes that a person named; empty: found by itself.';
COMMENT ON COLUMN mirror.audit_drafts.chosen_sheet IS 'The sheet of a workbook that a person named; empty: found by itself.';
COMMENT ON COLUMN mirror.audit_drafts.content IS 'The file as it came.';
COMMENT ON COLUMN mirror.audit_drafts.reading IS 'What reading the list found; null until it was read.';
COMMENT ON COLUMN mirror.audit_drafts.problem IS 'Why the list could not be read, or its check not be started; null: no problem.';
