-- The denied codes of a check are read before each step of its second check, the one asked longest ago first.
CREATE INDEX audit_codes_denied_idx
    ON mirror.audit_codes (audit_id, asked_at)
    WHERE verdict IS NULL AND denied_at IS NOT NULL;
