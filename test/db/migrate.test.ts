import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { MAIN, printed, run } from '../cli/support.js';
import { query } from '../support/postgres.js';
import { NO_FILTERS, poolOf, shape, withEngine } from './shape.js';
import { database } from './support.js';

const FOLDER = fileURLToPath(new URL('../../prisma/migrations', import.meta.url));
const NAMES = readdirSync(FOLDER, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .sort();
const sqlOf = (name: string): string => readFileSync(`${FOLDER}/${name}/migration.sql`, 'utf8');

const emptyDatabase = () => database({ empty: true });
const migrated = async (url: string): Promise<unknown> =>
  JSON.parse(await printed(['migrate', '--json'], { DATABASE_URL: url })) as unknown;
const pending = async (url: string): Promise<unknown> =>
  JSON.parse(await printed(['migrate', '--status', '--json'], { DATABASE_URL: url })) as unknown;
const CLEAN = { pending: [], edited: [], unknown: [] };

describe('migrate', () => {
  it('applies everything to an empty database, and nothing the second time', async () => {
    const url = await emptyDatabase();
    const env = { DATABASE_URL: url };
    expect(await pending(url)).toEqual({ ...CLEAN, pending: NAMES });
    expect(await printed(['migrate', '--status'], env)).toMatch(/^Pending; .*\n {2}\d+_init\n/);
    expect(await printed(['migrate'], env)).toMatch(/^Applied \d+ migrations?:\n {2}\d+_init\n/);
    expect(await printed(['migrate', '--status'], env)).toBe('The database is up to date.\n');
    expect(await pending(url)).toEqual(CLEAN);
    expect(await migrated(url)).toEqual([]);
    expect(await query(url, 'SELECT * FROM reporting.items')).toEqual([]);
  });

  it('ignores tables and Prisma migrations of other programs', async () => {
    const url = await emptyDatabase();
    await query(url, 'CREATE TABLE public._prisma_migrations AS SELECT 1 AS theirs');
    expect(await migrated(url)).toEqual(NAMES);
    expect(await query(url, 'SELECT * FROM public._prisma_migrations')).toEqual([{ theirs: 1 }]);
  });

  it('applies everything once when several processes migrate at the same time', async () => {
    const url = await emptyDatabase();
    const one = () => run(['migrate', '--json'], { DATABASE_URL: url }, { spawned: true });
    const outputs = (await Promise.all([one(), one(), one()])).map(({ stdout }) => stdout);
    const applied = outputs.map((text) => JSON.parse(text) as string[]);
    expect(applied.flat().sort()).toEqual(NAMES);
    expect(applied.filter((names) => names.length > 0)).toHaveLength(1);
  });

  it('rolls a failing migration back, says why, and continues once the cause is gone', async () => {
    const url = await emptyDatabase();
    await query(url, 'CREATE SCHEMA mirror', 'CREATE TABLE mirror.accounts ()');
    const failed = await run(['migrate'], { DATABASE_URL: url });
    expect(failed.stderr).toMatch(
      /^error: the database could not be migrated: .*"accounts" already exists\n {2}→ The failed migration was rolled back/,
    );
    expect(failed.code).toBe(1);
    expect(await query(url, `SELECT to_regclass('mirror.sellers') AS half`)).toEqual([
      { half: null },
    ]);
    await query(url, 'DROP TABLE mirror.accounts');
    expect(await migrated(url)).toEqual(NAMES);
  });

  it('leaves each migration applied or not applied when killed, and the next call continues', async () => {
    const url = await emptyDatabase();
    const child = spawn(process.execPath, [MAIN, 'migrate'], {
      env: { PATH: process.env['PATH'], DATABASE_URL: url },
      stdio: 'ignore',
    });
    const working = () =>
      query(
        url,
        `SELECT FROM pg_stat_activity WHERE application_name = 'seller-mirror migrate'
                   AND datname = current_database()`,
      );
    await expect.poll(working, { timeout: 30_000, interval: 5 }).toHaveLength(1);
    child.kill('SIGKILL');
    await once(child, 'close');
    await migrated(url);
    expect(await pending(url)).toEqual(CLEAN);
  });

  it('continues after Prisma’s own commands failed, and clears their mark, or they would refuse to go on', async () => {
    const url = await emptyDatabase();
    await migrated(url);
    const last = NAMES.at(-1) ?? '';
    await query(
      url,
      'CREATE TABLE kept AS SELECT * FROM mirror._prisma_migrations',
      'DROP SCHEMA mirror, reporting CASCADE',
      'CREATE SCHEMA mirror',
      'CREATE TABLE mirror._prisma_migrations (LIKE kept INCLUDING ALL)',
      `ALTER TABLE mirror._prisma_migrations ALTER started_at SET DEFAULT now(),
         ALTER applied_steps_count SET DEFAULT 0, ADD PRIMARY KEY (id)`,
      `INSERT INTO mirror._prisma_migrations (id, checksum, migration_name) VALUES ('x', 'x', '${last}')`,
    );
    expect(await migrated(url)).toEqual(NAMES);
    const open = `SELECT FROM mirror._prisma_migrations WHERE finished_at IS NULL AND rolled_back_at IS NULL`;
    expect(await query(url, open)).toEqual([]);
  });

  it('refuses a database that a newer version migrated, and says which migration', async () => {
    const url = await database();
    await query(
      url,
      `INSERT INTO mirror._prisma_migrations (id, checksum, finished_at, migration_name)
       VALUES ('x', 'x', now(), '99999999999999_newer')`,
    );
    expect(await run(['migrate'], { DATABASE_URL: url })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(
        'newer version of this program (99999999999999_newer)\n  → Upgrade this program',
      ) as string,
    });
  });

  it.skipIf(process.env['TEST_DATABASE_URL'])(
    'says what to grant if the right to create schemas is missing (skipped with TEST_DATABASE_URL, whose user may be a superuser)',
    async () => {
      const url = await emptyDatabase();
      const name = new URL(url).pathname.slice(1);
      await query(url, `REVOKE CREATE ON DATABASE ${name} FROM current_user`);
      const { stderr } = await run(['migrate'], { DATABASE_URL: url });
      expect(stderr).toContain('GRANT CREATE ON DATABASE');
    },
  );
});

describe('every migration', () => {
  it('does not end the transaction in which it is applied', () => {
    for (const name of NAMES) {
      // BEGIN in a function body begins a PL/pgSQL block.
      const code = sqlOf(name).replaceAll(/--.*$|'(?:[^']|'')*'|\$(\w*)\$[^]*?\$\1\$/gm, '');
      expect(code).not.toMatch(
        /^\s*(BEGIN|COMMIT|ROLLBACK|START TRANSACTION|VACUUM)\b|CONCURRENTLY/im,
      );
    }
  });

  it('is for PostgreSQL, as Prisma’s lock file says', () => {
    expect(readFileSync(`${FOLDER}/migration_lock.toml`, 'utf8')).toContain(
      'provider = "postgresql"',
    );
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
    const pool = await poolOf();
    await pool.query('SET search_path = mirror');
    const migrationsList = {
      baseDir: 'prisma/migrations',
      shadowDbInitScript: '',
      lockfile: { path: 'migration_lock.toml', content: 'provider = "postgresql"\n' },
      migrationDirectories: NAMES.map((name) => ({
        path: name,
        migrationFile: {
          path: 'migration.sql',
          content: { tag: 'ok' as const, value: sqlOf(name) },
        },
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
      history: null,
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
    expect(known).toEqual(await shapeOf(readFileSync(SCHEMA, 'utf8')));
  });
});
