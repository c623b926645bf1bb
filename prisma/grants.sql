-- Creates the role reporting_reader, which can read all of schema reporting, also after updates, and nothing else.
-- Run this as the role that seller-mirror uses, or as a superuser. You can run it again at any time:
--
--   psql "$DATABASE_URL" -f prisma/grants.sql
--   psql "$DATABASE_URL" -c "CREATE ROLE metabase LOGIN PASSWORD '…' IN ROLE reporting_reader"
--
-- Views read their tables with the owner's rights, and functions read only views, so no rights on schema mirror
-- are needed. Anyone who can read reporting.purchases sees unmasked purchase codes.

DO $$
DECLARE
    owner text := (SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'reporting');
BEGIN
    IF owner IS NULL THEN
        RAISE EXCEPTION 'there is no schema reporting in this database'
            USING HINT = 'Run seller-mirror migrate first, with the same database.';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'reporting_reader') THEN
        BEGIN
            CREATE ROLE reporting_reader NOLOGIN;
        EXCEPTION WHEN insufficient_privilege THEN
            RAISE EXCEPTION 'there is no role reporting_reader, and % may not create it', current_user
                USING HINT = 'Have an administrator run: CREATE ROLE reporting_reader NOLOGIN; then run this again.';
        END;
    END IF;
    -- Views that later versions add have the same owner.
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %s IN SCHEMA reporting GRANT SELECT ON TABLES TO reporting_reader', owner);
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %s IN SCHEMA reporting GRANT EXECUTE ON FUNCTIONS TO reporting_reader', owner);
END $$;

GRANT USAGE ON SCHEMA reporting TO reporting_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA reporting TO reporting_reader;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA reporting TO reporting_reader;
