import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, watch } from 'node:fs';
import { chmod, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';
import { type Answer, answerIn, requestIn, type TestServer, type Wanted } from './test-run.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PREFIX = 'seller-mirror-tests-';

/** Removes what was made for tests. */
type Undo = () => Promise<void>;

let undo: Undo = () => Promise.resolve();

/**
 * Makes what tests ask for through a folder (`test-run.ts`): `dist`, and one PostgreSQL with a migrated template. A test
 * of pure rules asks for nothing, so it starts at once. This process makes it, because it outlives the tests' processes.
 */
export async function setup(project: TestProject): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}-`));
  project.provide('testRun', folder);
  let stop: Undo = () => Promise.resolve();
  const make: Record<Wanted, () => Promise<unknown>> = {
    build: () => ensureBuild().then(() => join(ROOT, 'dist')),
    server: async () => {
      await ensureBuild();
      const url = process.env['TEST_DATABASE_URL'] ?? '';
      const started = url === '' ? await startServer(folder) : await useServer(url);
      ({ stop } = started);
      return started.server;
    },
  };
  const asked = new Map<Wanted, Promise<void>>();
  const answer = async (what: Wanted): Promise<void> => {
    const found: Answer = await make[what]().then(
      (value) => ({ value }),
      (error: unknown) => ({ error: String(error) }),
    );
    // Appears whole, by a rename.
    await writeFile(`${answerIn(folder, what)}.new`, JSON.stringify(found));
    await rename(`${answerIn(folder, what)}.new`, answerIn(folder, what));
  };
  const watcher = watch(folder, () => {
    for (const what of ['build', 'server'] as const) {
      if (!asked.has(what) && existsSync(requestIn(folder, what))) asked.set(what, answer(what));
    }
  });
  // In watch mode, changed sources are compiled again before tests run programs from `dist`.
  project.onTestsRerun(async () => {
    if (asked.size > 0) await ensureBuild();
  });
  undo = async () => {
    watcher.close();
    await Promise.all(asked.values());
    await stop();
    await rm(folder, { recursive: true, force: true });
  };
}

export async function teardown(): Promise<void> {
  await undo();
}

interface Started {
  readonly server: TestServer;
  readonly stop: Undo;
}

/** Starts an embedded server. Its modules are loaded here, because loading them takes a while. */
async function startServer(parent: string): Promise<Started> {
  const { addressOf, readCredentials } = await import('../../src/db/embedded/server.js');
  const { openEmbedded, release } = await import('../../src/db/embedded/index.js');
  const { migrate } = await import('../../src/db/migrate.js');
  await sweep();
  await chmod(parent, 0o755); // as root, the server runs under another account
  const dataDir = join(parent, 'data');
  const database = await openEmbedded({ dataDir, applicationName: 'tests' });
  const credentials = await readCredentials(database.location);
  const adminUrl = addressOf(credentials, database.port, 'admin', 'postgres');
  await makeHasty(adminUrl, [adminUrl, database.url]);
  await migrate(database.url);
  await makeOdd(adminUrl, new URL(database.url).username);
  return {
    server: {
      adminUrl,
      userUrl: database.url,
      template: 'seller_mirror',
      // Takes half the processor time of a copy by WAL. The only strategy of PostgreSQL 14.
      strategy: 'STRATEGY FILE_COPY',
    },
    stop: async () => {
      await database.close();
      await release(dataDir, { now: true });
      await rm(database.location, { recursive: true, force: true });
    },
  };
}

/** Uses the server of TEST_DATABASE_URL. Its user must be allowed to create databases. */
async function useServer(url: string): Promise<Started> {
  const { migrate } = await import('../../src/db/migrate.js');
  const { databaseAt, query } = await import('./query.js');
  const id = randomBytes(6).toString('hex');
  const template = `test_template_${id}`;
  const owner = await ordinaryUser(url, `test_owner_${id}`);
  await query(url, `CREATE DATABASE ${template} OWNER "${decodeURIComponent(owner.username)}"`);
  await migrate(databaseAt(owner.href, template));
  return {
    server: { adminUrl: url, userUrl: owner.href, template, strategy: '' },
    stop: async () => {
      await query(url, `DROP DATABASE IF EXISTS ${template} WITH (FORCE)`);
      await query(url, `DROP ROLE IF EXISTS test_owner_${id}`);
    },
  };
}

/** Returns the address with its user, or with a new one if that is a superuser, as the product expects none. */
async function ordinaryUser(url: string, name: string): Promise<URL> {
  const { query } = await import('./query.js');
  const user = new URL(url);
  const [row] = await query(url, 'SELECT rolsuper FROM pg_roles WHERE rolname = current_user');
  if (row?.['rolsuper'] !== true) return user;
  user.username = name;
  user.password = randomBytes(12).toString('hex');
  await query(url, `CREATE ROLE ${name} LOGIN PASSWORD '${user.password}'`);
  await makeOdd(url, name);
  return user;
}

/**
 * Lets commits not wait for the disk, as no test survives a power cut, and makes a login cheap: tests log in thousands of
 * times, and hashing a password 4,096 times would take as long as the rest of it.
 */
async function makeHasty(adminUrl: string, urls: readonly string[]): Promise<void> {
  const { query } = await import('./query.js');
  const logins = urls.map((url) => new URL(url));
  await query(
    adminUrl,
    'SET scram_iterations = 1',
    ...logins.map((url) => `ALTER ROLE "${url.username}" PASSWORD '${url.password}'`),
  );
  const names = ['fsync', 'synchronous_commit', 'full_page_writes'];
  await query(adminUrl, ...names.map((name) => `ALTER SYSTEM SET ${name} = off`));
  await query(adminUrl, 'SELECT pg_reload_conf()');
}

/** What a role may have set and the product must not depend on. */
const ODD_SETTINGS = {
  TimeZone: 'Asia/Tokyo',
  DateStyle: 'German, DMY',
  IntervalStyle: 'sql_standard',
  bytea_output: 'escape',
  extra_float_digits: '-5',
  standard_conforming_strings: 'off',
  array_nulls: 'off',
  quote_all_identifiers: 'on',
  search_path: 'nowhere',
  default_transaction_isolation: 'serializable',
  default_transaction_deferrable: 'on',
  client_encoding: 'LATIN1',
};

async function makeOdd(adminUrl: string, role: string): Promise<void> {
  const { query } = await import('./query.js');
  const settings = Object.entries(ODD_SETTINGS);
  await query(
    adminUrl,
    ...settings.map(([name, value]) => `ALTER ROLE "${role}" SET ${name} = '${value}'`),
  );
}

/** Removes folders that killed test runs left behind. Their servers have stopped by themselves. */
async function sweep(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(PREFIX)) continue;
    const folder = join(tmpdir(), name);
    const ours = (await stat(folder).catch(() => null))?.uid === process.geteuid?.();
    const pid = Number(name.slice(PREFIX.length).split('-')[0]);
    if (ours && !isAlive(pid)) await rm(folder, { recursive: true, force: true }).catch(() => {});
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Builds `dist` if a source is newer. The watcher of the embedded server and the commands that tests start run from it. */
async function ensureBuild(): Promise<void> {
  const script = [join(ROOT, 'scripts/build.mjs'), '--if-old'];
  await promisify(execFile)(process.execPath, script, { cwd: ROOT });
}
