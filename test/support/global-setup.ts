import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, cp, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';
import { addressOf, readCredentials } from '../../src/db/embedded/server.js';
import { openEmbedded, release } from '../../src/db/embedded/index.js';
import { migrate } from '../../src/db/migrate.js';
import { databaseAt, query } from './postgres.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PREFIX = 'seller-mirror-tests-';

/** Removes what the set-up made. */
type Undo = () => Promise<void>;

let undo: Undo = () => Promise.resolve();

/** Provides one PostgreSQL for the whole run, with a migrated template for test databases. */
export async function setup(project: TestProject): Promise<void> {
  await ensureBuild();
  const url = process.env['TEST_DATABASE_URL'] ?? '';
  undo = url === '' ? await startServer(project) : await useServer(project, url);
}

export async function teardown(): Promise<void> {
  await undo();
}

async function startServer(project: TestProject): Promise<Undo> {
  await sweep();
  const folder = await mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}-`));
  await chmod(folder, 0o755); // as root, the server runs under another account
  const options = { dataDir: folder, applicationName: 'tests', durable: false };
  const database = await openEmbedded(options);
  await migrate(database.url);
  const credentials = await readCredentials(database.location);
  const adminUrl = addressOf(credentials, database.port, 'admin', 'postgres');
  await makeOdd(adminUrl, new URL(database.url).username);
  project.provide('testServer', {
    adminUrl,
    userUrl: database.url,
    template: 'seller_mirror',
    // Takes half the processor time of a copy by WAL. The only strategy of PostgreSQL 14.
    strategy: 'STRATEGY FILE_COPY',
  });
  return async () => {
    await database.close();
    await release(folder, { now: true });
    await rm(database.location, { recursive: true, force: true });
    await rm(folder, { recursive: true, force: true });
  };
}

/** Uses the server of TEST_DATABASE_URL. Its user must be allowed to create databases. */
async function useServer(project: TestProject, url: string): Promise<Undo> {
  const id = randomBytes(6).toString('hex');
  const template = `test_template_${id}`;
  const owner = await ordinaryUser(url, `test_owner_${id}`);
  await query(url, `CREATE DATABASE ${template} OWNER "${decodeURIComponent(owner.username)}"`);
  await migrate(databaseAt(owner.href, template));
  project.provide('testServer', { adminUrl: url, userUrl: owner.href, template, strategy: '' });
  return async () => {
    await query(url, `DROP DATABASE IF EXISTS ${template} WITH (FORCE)`);
    await query(url, `DROP ROLE IF EXISTS test_owner_${id}`);
  };
}

/** Returns the address with its user, or with a new one if that is a superuser, as the product expects none. */
async function ordinaryUser(url: string, name: string): Promise<URL> {
  const user = new URL(url);
  const [row] = await query(url, 'SELECT rolsuper FROM pg_roles WHERE rolname = current_user');
  if (row?.['rolsuper'] !== true) return user;
  user.username = name;
  user.password = randomBytes(12).toString('hex');
  await query(url, `CREATE ROLE ${name} LOGIN PASSWORD '${user.password}'`);
  await makeOdd(url, name);
  return user;
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

/**
 * Compiles src/ to dist/ if dist/ is older. The watcher of the embedded server and the commands that tests
 * start run from dist/. Replaces dist/ by renaming, so that parallel test runs never see a partial one.
 */
async function ensureBuild(): Promise<void> {
  if (await isBuilt()) return;
  const fresh = join(ROOT, `.dist-${process.pid}`);
  const old = join(ROOT, `.dist-${process.pid}-old`);
  const node = (...args: string[]) => promisify(execFile)(process.execPath, args, { cwd: ROOT });
  const compile = (project: string, outDir: string): Promise<unknown> =>
    // tsc compiles in spite of type errors; `npm run types` reports them.
    node('node_modules/typescript/bin/tsc', '-p', project, '--outDir', outDir).catch(() => {});
  try {
    await compile('tsconfig.build.json', fresh);
    await compile('src/dashboard/client', join(fresh, 'dashboard/client'));
    await cp(join(ROOT, 'src/dashboard/styles.css'), join(fresh, 'dashboard/styles.css'));
    await rename(join(ROOT, 'dist'), old).catch(() => {});
    await rename(fresh, join(ROOT, 'dist')).catch(() => {}); // a parallel test run was faster
  } finally {
    await rm(fresh, { recursive: true, force: true });
    await rm(old, { recursive: true, force: true });
  }
}

async function isBuilt(): Promise<boolean> {
  const entries = await readdir(join(ROOT, 'src'), { recursive: true });
  // Declarations are not compiled. Each `prisma generate` writes the generated client again, changed or not.
  const ours = entries.filter(
    (name) => !name.startsWith(join('db', 'generated')) && !name.endsWith('.d.ts'),
  );
  for (const name of ours.filter((entry) => /\.(?:tsx?|css)$/.test(entry))) {
    if (!(await isNewer(join('dist', name.replace(/tsx?$/, 'js')), join('src', name))))
      return false;
  }
  return isNewer('dist/db/generated/prisma/client.js', 'prisma/schema.prisma');
}

async function isNewer(built: string, source: string): Promise<boolean> {
  const output = await stat(join(ROOT, built)).catch(() => null);
  return output !== null && output.mtimeMs >= (await stat(join(ROOT, source))).mtimeMs;
}
