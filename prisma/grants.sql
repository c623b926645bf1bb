-- Lets the role reporting_reader read all of schema reporting, now and after updates, and nothing else.
-- To be run by the role that seller-mirror connects as, or by a superuser, as often as you like:
--
--   psql "$DATABASE_URL" -f prisma/grants.sql
--   psql "$DATABASE_URL" -c "CREATE ROLE metabase LOGIN PASSWORD '…' IN ROLE reporting_reader"
--
-- Views read the tables with their owner's rights, and the functions read views: no right on schema
-- mirror is needed. Whoever may read reporting.purchases sees whole purchase codes.

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
    -- What later versions add belongs to the same owner.
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %s IN SCHEMA reporting GRANT SELECT ON TABLES TO reporting_reader', owner);
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %s IN SCHEMA reporting GRANT EXECUTE ON FUNCTIONS TO reporting_reader', owner);
END $$;

GRANT USAGE ON SCHEMA reporting TO reporting_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA reporting TO reporting_reader;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA reporting TO reporting_reader;
