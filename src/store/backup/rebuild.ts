import type { ClientBase } from 'pg';
import { HISTORY_SCHEMA, type MigrationOnDisk } from '../migrate.js';
import { BackupError } from './format.js';

/** Others' views that would go with ours. */
const DEPENDENTS = `
  SELECT DISTINCT v.oid::regclass::text AS name
    FROM pg_depend d
    JOIN pg_class r ON d.refclassid = 'pg_class'::regclass AND r.oid = d.refobjid
    JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
    JOIN pg_class v ON v.oid = w.ev_class
   WHERE r.relnamespace::regnamespace::text IN ('mirror', 'reporting')
     AND v.relnamespace::regnamespace::text NOT IN ('mirror', 'reporting')`;

/** Rights and default rights of other roles, as statements that grant them again. */
const GRANTS = `
  WITH granted AS (
    SELECT 'SCHEMA ' || quote_ident(n.nspname) AS what, n.nspowner AS owner, n.nspacl AS acl
      FROM pg_namespace n WHERE n.nspname IN ('mirror', 'reporting')
    UNION ALL
    SELECT 'TABLE ' || c.oid::regclass, c.relowner, c.relacl
      FROM pg_class c
     WHERE c.relnamespace::regnamespace::text IN ('mirror', 'reporting') AND c.relkind IN ('r', 'v')
    UNION ALL
    SELECT 'FUNCTION ' || p.oid::regprocedure, p.proowner, p.proacl
      FROM pg_proc p WHERE p.pronamespace::regnamespace::text = 'reporting'
  )
  SELECT format('GRANT %s ON %s TO %s%s', a.privilege_type, g.what,
                CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,
                CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) AS statement
    FROM granted g, aclexplode(g.acl) a WHERE a.grantee <> g.owner
   UNION ALL
  SELECT format('ALTER DEFAULT PRIVILEGES FOR ROLE %s IN SCHEMA %I GRANT %s ON %s TO %s%s',
                d.defaclrole::regrole, n.nspname, a.privilege_type,
                CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'f' THEN 'FUNCTIONS'
                                     WHEN 'S' THEN 'SEQUENCES' ELSE 'TYPES' END,
                CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,
                CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
    FROM pg_default_acl d JOIN pg_namespace n ON n.oid = d.defaclnamespace,
         aclexplode(d.defaclacl) a
   WHERE n.nspname IN ('mirror', 'reporting')`;

/**
 * Drops the tables, and makes those of an older version: `earlier` are its migrations. All in the
 * transaction that the connection is in.
 * @returns brings the tables, filled meanwhile, up to this version with the migrations `later`
 * @throws {BackupError} when views of others depend on the tables
 */
export async function rebuild(
  client: ClientBase,
  earlier: readonly MigrationOnDisk[],
  later: readonly MigrationOnDisk[],
): Promise<() => Promise<void>> {
  const { rows: dependents } = await client.query<{ name: string }>(DEPENDENTS);
  if (dependents.length > 0) {
    throw new BackupError(
      `the backup is of an older version, for which the tables are created again, and views of others depend on them: ${dependents.map(({ name }) => name).join(', ')}`,
      'Nothing was changed. Drop these views, or restore into another database.',
    );
  }
  const { rows: grants } = await client.query<{ statement: string }>(GRANTS);
  // The history of migrations stays: in the end the tables are those of this version again.
  await client.query(`
    CREATE SCHEMA mirror_restoring;
    ALTER TABLE ${HISTORY_SCHEMA}._prisma_migrations SET SCHEMA mirror_restoring;
    DROP SCHEMA mirror, reporting CASCADE; CREATE SCHEMA ${HISTORY_SCHEMA};
    ALTER TABLE mirror_restoring._prisma_migrations SET SCHEMA ${HISTORY_SCHEMA};
    DROP SCHEMA mirror_restoring`);
  await apply(client, earlier);
  return async () => {
    await apply(client, later);
    for (const { statement } of grants) await client.query(statement);
  };
}

async function apply(client: ClientBase, migrations: readonly MigrationOnDisk[]): Promise<void> {
  await client.query(`SET LOCAL search_path = ${HISTORY_SCHEMA}`);
  for (const { sql } of migrations) await client.query(sql);
  await client.query(`SET LOCAL search_path = DEFAULT`);
}
