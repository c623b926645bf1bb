-- In a migration of their own: PostgreSQL does not let the transaction that adds a value use it.
ALTER TYPE mirror.code_verdict ADD VALUE 'no_longer_valid' AFTER 'invalid';
ALTER TYPE mirror.audit_state ADD VALUE 'draft' BEFORE 'running';
