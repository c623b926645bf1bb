-- Nothing reads how many counted denials a check has, nor how many denied codes it found later: a code's own rows say both.
ALTER TABLE mirror.audits DROP COLUMN confirmed, DROP COLUMN overturned;
