-- A denied code is asked for again before it is called invalid.
ALTER TABLE mirror.audits
  ADD COLUMN confirm text NOT NULL DEFAULT 'auto',
  ADD COLUMN denied integer NOT NULL DEFAULT 0,
  ADD COLUMN overturned integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN mirror.audits.confirm IS 'Which denied codes are asked for again before they are invalid: auto, all or none.';
COMMENT ON COLUMN mirror.audits.denied IS 'Of the pending codes, those denied at least once and waiting to be asked for again.';
COMMENT ON COLUMN mirror.audits.overturned IS 'Codes that were denied at first and found when they were asked for again.';

ALTER TABLE mirror.audit_codes
  ADD COLUMN denials integer NOT NULL DEFAULT 0,
  ADD COLUMN first_denied_at timestamptz(6),
  ADD COLUMN last_denied_at timestamptz(6);
COMMENT ON COLUMN mirror.audit_codes.denials IS 'Times it was denied between two checkpoints.';

ALTER TABLE mirror.purchase_codes ADD COLUMN denied_at timestamptz(6);
COMMENT ON COLUMN mirror.purchase_codes.denied_at IS 'When a code that is still held valid was first denied as a canary; null when it was found since.';
CREATE INDEX purchase_codes_denied_idx ON mirror.purchase_codes (seller_id, denied_at)
  WHERE denied_at IS NOT NULL;
