-- Until then other sellers are asked about the codes of the check: no second check begins before.
ALTER TABLE mirror.audits ADD COLUMN held_until timestamptz(6);
