import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Migration, migrate, migrationState, readMigrations } from '../../src/db/migrate.js';
import { createTestDatabase, query } from '../support/postgres.js';
import { NO_FILTERS, poolOf, shape, withEngine } from './shape.js';

const CLEAN = { pending: [], edited: [], unknown: [] };
const COMPILED = fileURLToPath(new URL('../../dist/db/migrate.js', import.meta.url));
const SCRIPT =
  'const { migrate } = await import(process.argv[1]); console.log(JSON.stringify(await migrate(process.argv[2], JSON.parse(process.argv[3]))))';

/** Arguments of a Node.js process that migrates and prints the result. */
const scriptArguments = (url: string, migrations: readonly Migration[]): string[] => [
  ...['--input-type=module', '-e', SCRIPT],
  ...['--', COMPILED, url, JSON.stringify(migrations)],
];

async function emptyDatabase(): Promise<string> {
  const database = await createTestDatabase({ empty: true });
  onTestFinished(() => database.drop());
  return database.url;
}

/** Migrations by name. */
function migrationsOf(sqlByName: Readonly<Record<string, string>>): Migration[] {
  return Object.entries(sqlByName).map(([name, sql]) => ({ name, sql }));
}

describe('migrating', () => {
  it('applies everything to an empty database, and nothing the second time', async () => {
    const url = await emptyDatabase();
    const names = (await readMigrations()).map(({ name }) => name);
    expect(await migrationState(url)).toEqual({ ...CLEAN, pending: names });
    expect(await migrate(url)).toEqual({ applied: names });
    expect(await migrationState(url)).toEqual(CLEAN);
    expect(await migrate(url)).toEqual({ applied: [] });
    expect(await query(url, 'SELECT * FROM reporting.items')).toEqual([]);
  });

  it('ignores tables and Prisma migrations of other programs', async () => {
    const url = await emptyDatabase();
    await query(url, 'CREATE TABLE public._prisma_migrations AS SELECT 1 AS theirs');
    expect((await migrate(url)).applied).not.toEqual([]);
    expect(await query(url, 'SELECT * FROM public._prisma_migrations')).toEqual([{ theirs: 1 }]);
  });

  it('applies everything once when several processes migrate at the same time', async () => {
    const url = await emptyDatabase();
    const script = scriptArguments(url, await readMigrations());
    const run = () => promisify(execFile)(process.execPath, script);
    const outputs = (await Promise.all([run(), run(), run()])).map(({ stdout }) => stdout.trim());
    const names = (await readMigrations()).map(({ name }) => name);
    const results = [names, [], []].map((applied) => JSON.stringify({ applied }));
    expect(outputs.sort()).toEqual(results.sort());
  });

  it('sends a script as a whole, whatever semicolons it contains', async () => {
    const url = await emptyDatabase();
    const migrations = migrationsOf({
      '1_semicolons': `CREATE TABLE mirror.t (x text DEFAULT 'a;b'); -- a comment; with one
        CREATE FUNCTION mirror.f() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN ';'; END $$; -- the end`,
    });
    await migrate(url, migrations);
    await query(url, 'INSERT INTO mirror.t DEFAULT VALUES');
    expect(await query(url, 'SELECT x, mirror.f() FROM mirror.t')).toEqual([{ x: 'a;b', f: ';' }]);
  });

  it('rolls a failing migration back, and continues once it is corrected', async () => {
    const url = await emptyDatabase();
    const good = { '1_good': 'CREATE TABLE mirror.good (x int);' };
    const half = 'CREATE TABLE mirror.half (x int);';
    const bad = migrationsOf({ ...good, '2_bad': `${half} SELECT 1 / 0;` });
    await expect(migrate(url, bad)).rejects.toMatchObject({
      code: 'MIGRATION',
      message: expect.stringContaining('division by zero') as string,
    });
    expect(await query(url, `SELECT to_regclass('mirror.half') AS half`)).toEqual([{ half: null }]);
    expect(await migrationState(url, bad)).toEqual({ ...CLEAN, pending: ['2_bad'] });
    const corrected = migrationsOf({ ...good, '2_bad': half });
    expect(await migrate(url, corrected)).toEqual({ applied: ['2_bad'] });
    expect(await migrationState(url, corrected)).toEqual(CLEAN);
  });

  it('leaves a migration applied or not applied when killed, and the next call continues', async () => {
    const url = await emptyDatabase();
    const slow = migrationsOf({
      '1_slow': 'CREATE TABLE mirror.t (x int); SELECT pg_sleep(2);',
    });
    const child = spawn(process.execPath, scriptArguments(url, slow));
    const sleeping = () =>
      query(
        url,
        `SELECT FROM pg_stat_activity WHERE query LIKE '%pg_sleep(2)%' AND wait_event = 'PgSleep'`,
      );
    await expect.poll(sleeping, { timeout: 30_000 }).toHaveLength(1);
    child.kill('SIGKILL');
    await once(child, 'close');
    const { applied } = await migrate(url, slow);
    expect(applied.length).toBeLessThanOrEqual(1);
    expect(await migrationState(url, slow)).toEqual(CLEAN);
    expect(await query(url, 'SELECT FROM mirror.t')).toEqual([]);
  });

  it('continues after Prisma’s own commands failed, and clears their mark, or they would refuse to go on', async () => {
    const url = await emptyDatabase();
    await migrate(url, migrationsOf({ '1_good': 'SELECT 1;' }));
    await query(
      url,
      `INSERT INTO mirror._prisma_migrations (id, checksum, migration_name) VALUES ('x', 'x', '2_next')`,
    );
    const migrations = migrationsOf({ '1_good': 'SELECT 1;', '2_next': 'SELECT 2;' });
    expect(await migrate(url, migrations)).toEqual({ applied: ['2_next'] });
    const open = `SELECT FROM mirror._prisma_migrations WHERE finished_at IS NULL AND rolled_back_at IS NULL`;
    expect(await query(url, open)).toEqual([]);
  });

  it('refuses a database that a newer version migrated', async () => {
    const url = await emptyDatabase();
    const newer = { name: '99999999999999_newer', sql: 'CREATE TABLE mirror.newer (x int);' };
    await migrate(url, [...(await readMigrations()), newer]);
    expect(await migrationState(url)).toEqual({ ...CLEAN, unknown: ['99999999999999_newer'] });
    await expect(migrate(url)).rejects.toMatchObject({ code: 'SCHEMA_AHEAD' });
  });

  it('reports migrations that were edited after they were applied', async () => {
    const url = await emptyDatabase();
    const state = (first: string, second: string) =>
      migrationState(url, migrationsOf({ '1_a': first, '2_b': second }));
    const [table, select] = ['CREATE TABLE mirror.a ();\n', 'SELECT 1;\n'];
    await migrate(url, migrationsOf({ '1_a': table, '2_b': select }));
    expect(await state(table, select)).toEqual(CLEAN);
    expect(await state(table, 'SELECT 2;\n')).toEqual({ ...CLEAN, edited: ['2_b'] });
  });

  it.skipIf(process.env['TEST_DATABASE_URL'])(
    'says what to grant if the right to create schemas is missing (skipped with TEST_DATABASE_URL, whose user may be a superuser)',
    async () => {
      const url = await emptyDatabase();
      const [{ name }] = (await query(url, 'SELECT current_database() AS name')) as [
        { name: string },
      ];
      await query(url, `REVOKE CREATE ON DATABASE ${name} FROM current_user`);
      await expect(migrate(url)).rejects.toMatchObject({
        code: 'MIGRATION',
        remedy: expect.stringContaining('GRANT CREATE ON DATABASE') as string,
      });
    },
  );
});

describe('every migration', () => {
  it('does not end the transaction in which it is applied', async () => {
    for (const { sql } of await readMigrations()) {
      // BEGIN in a function body begins a PL/pgSQL block.
      const code = sql.replaceAll(/--.*$|'(?:[^']|'')*'|\$(\w*)\$[^]*?\$\1\$/gm, '');
      expect(code).not.toMatch(
        /^\s*(BEGIN|COMMIT|ROLLBACK|START TRANSACTION|VACUUM)\b|CONCURRENTLY/im,
      );
    }
  });

  it('is for PostgreSQL, as Prisma’s lock file says', async () => {
    const lock = new URL('../../prisma/migrations/migration_lock.toml', import.meta.url);
    expect(await readFile(lock, 'utf8')).toContain('provider = "postgresql"');
  });
});

const SCHEMA = fileURLToPath(new URL('../../prisma/schema.prisma', import.meta.url));

/** The tables that Prisma would create for `schema`. */
async function shapeOf(schema: string): Promise<string[]> {
  const pool = await poolOf({ empty: true });
  const to = { tag: 'schemaDatamodel' as const, files: [{ path: SCHEMA, content: schema }] };
  const from = { tag: 'empty' as const };
  const { stdout } = await withEngine(
    pool,
    (engine) => engine.diff({ from, to, script: true, exitCode: null, filters: NO_FILTERS }),
    schema,
  );
  // The engine omits the name of the migration history's schema.
  await pool.query(`SET search_path = mirror; ${stdout ?? ''}`);
  return await shape(pool);
}

describe('the migrations', () => {
  it('are recorded as Prisma’s own commands record them', async () => {
    const pool = await poolOf({ empty: true });
    const url = pool.options.connectionString ?? '';
    const migrations = migrationsOf({ '1_good': 'SELECT 1;', '2_bad': 'SELECT 1 / 0;' });
    await expect(migrate(url, migrations)).rejects.toThrow('division by zero');
    await pool.query('SET search_path = mirror');
    const migrationsList = {
      baseDir: 'prisma/migrations',
      shadowDbInitScript: '',
      lockfile: { path: 'migration_lock.toml', content: 'provider = "postgresql"\n' },
      migrationDirectories: migrations.map(({ name, sql }) => ({
        path: name,
        migrationFile: { path: 'migration.sql', content: { tag: 'ok' as const, value: sql } },
      })),
    };
    const diagnosis = await withEngine(pool, (engine) =>
      engine.diagnoseMigrationHistory({
        migrationsList,
        optInToShadowDatabase: false,
        filters: NO_FILTERS,
      }),
    );
    expect(diagnosis).toMatchObject({
      history: { diagnostic: 'databaseIsBehind', unappliedMigrationNames: ['2_bad'] },
      failedMigrationNames: [],
      editedMigrationNames: [],
      hasMigrationsTable: true,
    });
  });

  it('create exactly the tables in schema.prisma', async () => {
    const migrated = await shape(await poolOf());
    expect(migrated.length).toBeGreaterThan(80); // or the comparison compares nothing
    // Prisma has no syntax for INCLUDE.
    const known = migrated.map((line) => line.replace(/ INCLUDE \([^)]*\)/, ''));
    expect(known).toEqual(await shapeOf(await readFile(SCHEMA, 'utf8')));
  });
});
