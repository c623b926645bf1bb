import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, cp, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';
import { addressOf, readCredentials } from '../../src/store/embedded/server.js';
import { openEmbedded, release } from '../../src/store/embedded/index.js';
import { migrate } from '../../src/store/migrate.js';
import { databaseAt, query } from './postgres.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PREFIX = 'seller-mirror-tests-';

/** Undoes a part of the set-up. */
type Undo = () => Promise<void>;

let undo: Undo = () => Promise.resolve();

/** One PostgreSQL for the whole run, with a migrated database to copy test databases from. */
export async function setup(project: TestProject): Promise<void> {
  await ensureBuild();
  const given = process.env['TEST_DATABASE_URL'];
  const useGiven = given !== undefined && given !== '';
  undo = useGiven ? await useServer(project, given) : await startServer(project);
}

export async function teardown(): Promise<void> {
  await undo();
}

async function startServer(project: TestProject): Promise<Undo> {
  await sweep();
  const folder = await mkdtemp(join(tmpdir(), `${PREFIX}${process.pid}-`));
  await chmod(folder, 0o755); // root lends it to another account
  const options = { dataDir: folder, applicationName: 'tests', durable: false };
  const database = await openEmbedded(options);
  await migrate(database.url);
  const credentials = await readCredentials(database.location);
  project.provide('testServer', {
    adminUrl: addressOf(credentials, database.port, 'admin', 'postgres'),
    userUrl: database.url,
    template: 'seller_mirror',
    // Takes half the processor time of a copy through the log. PostgreSQL 14 knows no other way.
    strategy: 'STRATEGY FILE_COPY',
  });
  return async () => {
    await database.close();
    await release(folder, { now: true });
    await rm(database.location, { recursive: true, force: true });
    await rm(folder, { recursive: true, force: true });
  };
}

/** A server that was given; its user must be allowed to create databases. */
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

/** The given user, or a new one when that is a superuser, whom the product would not use. */
async function ordinaryUser(url: string, name: string): Promise<URL> {
  const user = new URL(url);
  const [row] = await query(url, 'SELECT rolsuper FROM pg_roles WHERE rolname = current_user');
  if (row?.['rolsuper'] !== true) return user;
  user.username = name;
  user.password = randomBytes(12).toString('hex');
  await query(url, `CREATE ROLE ${name} LOGIN PASSWORD '${user.password}'`);
  return user;
}

/** Removes what killed test runs left; their servers ended by themselves. */
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
 * Compiles src/ to dist/ when that is older: the supervisor of the embedded server, and commands that
 * tests start, are processes of their own and run what users run. The new dist/ takes the place of
 * the old one at once, for test runs that go on at the same time.
 */
async function ensureBuild(): Promise<void> {
  if (await isBuilt()) return;
  const fresh = join(ROOT, `.dist-${process.pid}`);
  const old = join(ROOT, `.dist-${process.pid}-old`);
  const node = (...args: string[]) => promisify(execFile)(process.execPath, args, { cwd: ROOT });
  const compile = (project: string, outDir: string): Promise<unknown> =>
    // Type errors do not keep it from compiling, and `npm run types` is there to tell of them.
    node('node_modules/typescript/bin/tsc', '-p', project, '--outDir', outDir).catch(() => {});
  try {
    await compile('tsconfig.build.json', fresh);
    await compile('src/dashboard/client', join(fresh, 'dashboard/client'));
    await cp(join(ROOT, 'src/dashboard/styles.css'), join(fresh, 'dashboard/styles.css'));
    await node('scripts/finish-build.mjs', fresh);
    await rename(join(ROOT, 'dist'), old).catch(() => {});
    await rename(fresh, join(ROOT, 'dist')).catch(() => {}); // another test run was first
  } finally {
    await rm(fresh, { recursive: true, force: true });
    await rm(old, { recursive: true, force: true });
  }
}

async function isBuilt(): Promise<boolean> {
  const entries = await readdir(join(ROOT, 'src'), { recursive: true });
  // What Prisma generates becomes a part of store/prisma.js.
  // Of declarations nothing is built.
  const ours = entries.filter(
    (name) => !name.startsWith(join('store', 'generated')) && !name.endsWith('.d.ts'),
  );
  for (const name of ours.filter((entry) => /\.(?:tsx?|css)$/.test(entry))) {
    const source = await stat(join(ROOT, 'src', name));
    const built = await stat(join(ROOT, 'dist', name.replace(/tsx?$/, 'js'))).catch(() => null);
    if (built === null || built.mtimeMs < source.mtimeMs) return false;
  }
  return true;
}
