import type { Client, ClientBase } from 'pg';
import { type CopyStreamQuery, from as copyFrom } from 'pg-copy-streams';
import { HISTORY_SCHEMA, type MigrationOnDisk } from '../migrate.js';
import {
  BackupError,
  type BackupManifest,
  type BackupTable,
  quoted,
  type TableShape,
  tablesOf,
  targetOf,
} from './format.js';

/** Fills the tables of a store with the rows of a backup, one table after the other. */
export class Filler {
  readonly #client: Client;
  readonly #waiting: BackupTable[];
  #copying: { readonly table: BackupTable; readonly copy: TextCopy } | null = null;

  private constructor(client: Client, tables: readonly BackupTable[]) {
    this.#client = client;
    this.#waiting = [...tables];
  }

  /** @throws {BackupError} when the tables of the store are not those of the backup */
  static async begin(client: Client, { tables }: BackupManifest): Promise<Filler> {
    const shapes = new Map((await tablesOf(client)).map((shape) => [shape.name, shape]));
    for (const table of tables) assertFits(table, shapes.get(table.name));
    // The triggers did their work when the rows were first written.
    for (const { name } of tables) await triggers(client, name, 'DISABLE');
    return new Filler(client, tables);
  }

  /** Takes rows; a table that was begun before is ended by those of the next. */
  async take(name: string, rows: Buffer): Promise<void> {
    if (this.#copying?.table.name !== name) await this.#open(name);
    await this.#copying?.copy.write(rows);
  }

  async finish(): Promise<void> {
    await this.#close();
    for (const { name, rows } of this.#waiting) {
      if (rows > 0) throw BackupError.damaged(`the rows of ${name} are missing`);
    }
  }

  /** Has triggers do their work from now on. */
  async enableTriggers({ tables }: BackupManifest): Promise<void> {
    for (const { name } of tables) await triggers(this.#client, name, 'ENABLE');
  }

  /** Those without rows are passed over. */
  async #open(name: string): Promise<void> {
    await this.#close();
    for (;;) {
      const table = this.#waiting.shift();
      if (table === undefined) throw BackupError.damaged('its tables are not in their order');
      if (table.name !== name) continue;
      this.#copying = { table, copy: new TextCopy(this.#client, table) };
      return;
    }
  }

  async #close(): Promise<void> {
    if (this.#copying === null) return;
    const { table, copy } = this.#copying;
    this.#copying = null;
    const rows = await copy.end();
    if (rows !== table.rows) {
      throw BackupError.damaged(`${rows} of ${table.rows} rows arrived in ${table.name}`);
    }
  }
}

function assertFits(table: BackupTable, shape: TableShape | undefined): void {
  const columns = new Map(shape?.columns.map(({ name, type }) => [name, type]));
  const fits =
    shape?.columns.length === table.columns.length &&
    table.columns.every(({ name, type }) => columns.get(name) === type);
  if (fits) return;
  throw new BackupError(
    `the table ${table.name} of the backup is not as its migrations make it`,
    'Nothing was changed. Restore it with the program that made it.',
  );
}

async function triggers(client: Client, table: string, what: 'DISABLE' | 'ENABLE'): Promise<void> {
  await client.query(`ALTER TABLE mirror.${quoted(table)} ${what} TRIGGER USER`);
}

/** Rows on their way into a table, as text. */
class TextCopy {
  readonly #stream: CopyStreamQuery;
  readonly #failed: Promise<never>;

  constructor(client: Client, table: TableShape) {
    this.#stream = client.query(copyFrom(`COPY ${targetOf(table)} FROM STDIN`));
    this.#failed = new Promise((_, reject) => this.#stream.on('error', reject));
    // write() and end() throw it.
    this.#failed.catch(() => undefined);
  }

  async write(rows: Buffer): Promise<void> {
    const sent = new Promise<void>((resolve) => this.#stream.write(rows, () => resolve()));
    await Promise.race([sent, this.#failed]);
  }

  /** Waits until the server has taken in all rows, and says how many. */
  async end(): Promise<number> {
    const finished = new Promise<void>((resolve) => this.#stream.once('finish', resolve));
    this.#stream.end();
    await Promise.race([finished, this.#failed]);
    return this.#stream.rowCount;
  }
}

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

/** Makes, in the transaction that the connection is in, the tables of an older version and of this one. */
export class Rebuild {
  readonly #client: ClientBase;
  readonly #later: readonly MigrationOnDisk[];
  readonly #grants: readonly string[];

  private constructor(
    client: ClientBase,
    later: readonly MigrationOnDisk[],
    grants: readonly string[],
  ) {
    this.#client = client;
    this.#later = later;
    this.#grants = grants;
  }

  /**
   * Drops the tables and makes those that these migrations, and no others, make.
   * @throws {BackupError} when views of others depend on them
   */
  static async begin(
    client: ClientBase,
    migrations: readonly MigrationOnDisk[],
    wanted: ReadonlySet<string>,
  ): Promise<Rebuild> {
    const { rows: dependents } = await client.query<{ name: string }>(DEPENDENTS);
    if (dependents.length > 0) {
      throw new BackupError(
        `the backup is of an older version, for which the tables are created again, and views of others depend on them: ${dependents.map(({ name }) => name).join(', ')}`,
        'Nothing was changed. Drop these views, or restore into another database.',
      );
    }
    const { rows: grants } = await client.query<{ statement: string }>(GRANTS);
    // The history of migrations stays: in the end the tables are those of this version again.
    const known = `${HISTORY_SCHEMA}._prisma_migrations`;
    await client.query(`
      CREATE SCHEMA mirror_restoring; ALTER TABLE ${known} SET SCHEMA mirror_restoring;
      DROP SCHEMA mirror, reporting CASCADE; CREATE SCHEMA ${HISTORY_SCHEMA};
      ALTER TABLE mirror_restoring._prisma_migrations SET SCHEMA ${HISTORY_SCHEMA};
      DROP SCHEMA mirror_restoring`);
    const earlier = migrations.filter(({ name }) => wanted.has(name));
    const later = migrations.filter(({ name }) => !wanted.has(name));
    await apply(client, earlier);
    return new Rebuild(
      client,
      later,
      grants.map(({ statement }) => statement),
    );
  }

  /** Brings the tables, filled meanwhile, up to this version. */
  async finish(): Promise<void> {
    await apply(this.#client, this.#later);
    for (const statement of this.#grants) await this.#client.query(statement);
  }
}

async function apply(client: ClientBase, migrations: readonly MigrationOnDisk[]): Promise<void> {
  await client.query(`SET LOCAL search_path = ${HISTORY_SCHEMA}`);
  for (const { sql } of migrations) await client.query(sql);
  await client.query(`SET LOCAL search_path = DEFAULT`);
}
