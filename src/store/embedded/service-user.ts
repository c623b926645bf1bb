import { execFile, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { errorCode } from '../../domain/error-code.js';
import { EmbeddedStartError } from '../errors.js';

/** An account of the operating system that PostgreSQL runs as. */
export interface ServiceUser {
  readonly uid: number;
  readonly gid: number;
}

export interface Outcome {
  readonly code: number | null;
  readonly output: string;
}

/** macOS names it `_postgres`. `nobody` exists everywhere and owns nothing of value. */
const CANDIDATES = ['postgres', '_postgres', 'nobody'];

/** PostgreSQL refuses to run as root, so root starts it under another account. */
export function isRoot(): boolean {
  return process.geteuid?.() === 0;
}

/** The account for a new database. @returns null to run PostgreSQL as the current user */
export async function findServiceUser(): Promise<ServiceUser | null> {
  if (!isRoot()) return null;
  for (const name of CANDIDATES) {
    const user = await lookUpAccount(name);
    if (user !== null && user.uid !== 0) return user;
  }
  throw new EmbeddedStartError(
    'PostgreSQL does not run as root, and this system has no user postgres or nobody to run it as',
    'Run as an ordinary user, create a user called postgres, or set DATABASE_URL.',
  );
}

export function userName(uid: number): string {
  try {
    const lines = readFileSync('/etc/passwd', 'utf8').split('\n');
    const entries = lines.map((line) => line.split(':'));
    return entries.find((entry) => entry[2] === String(uid))?.[0] ?? String(uid);
  } catch {
    return String(uid);
  }
}

/** Uses `id`, since the system may know accounts that /etc/passwd doesn't list. @returns null if there is none */
async function lookUpAccount(name: string): Promise<ServiceUser | null> {
  const readId = async (flag: string) =>
    Number((await promisify(execFile)('id', [flag, name])).stdout) >>> 0;
  try {
    return { uid: await readId('-u'), gid: await readId('-g') };
  } catch {
    return null;
  }
}

/**
 * Environment of a child process. Leaves out settings that PostgreSQL or Node would obey (PGDATA, NODE_OPTIONS),
 * and secrets, since the child may outlive the caller.
 */
export function plainEnvironment(): Record<string, string> {
  const kept: Record<string, string> = { LC_ALL: 'C' };
  for (const name of ['PATH', 'TZ', 'LD_LIBRARY_PATH']) {
    const value = process.env[name];
    if (value !== undefined) kept[name] = value;
  }
  return kept;
}

/** Spawn options that run a child as `user`. libuv drops the supplementary groups. */
export function asUser(user: ServiceUser | null): { uid?: number; gid?: number } {
  return user === null ? {} : { uid: user.uid, gid: user.gid };
}

/** Runs a program to its end. @throws EmbeddedStartError when the system does not let us change user */
export async function runAs(
  user: ServiceUser | null,
  file: string,
  args: readonly string[],
  input = '',
): Promise<Outcome> {
  return await new Promise((resolve, reject) => {
    const child = spawn(file, args, {
      ...asUser(user),
      cwd: '/',
      env: plainEnvironment(),
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    child.once('error', (error) => {
      const code = errorCode(error);
      if (user !== null && ['EPERM', 'EINVAL'].includes(code)) reject(cannotChangeUser(error));
      else if (['EMFILE', 'ENFILE'].includes(code)) reject(error);
      else resolve({ code: null, output: error.message });
    });
    // Without free file descriptors there are no streams, whatever the types say.
    const streams: Partial<typeof child> = child;
    let output = '';
    const collect = (part: Buffer) => (output = (output + part.toString('utf8')).slice(-16_384));
    streams.stdout?.on('data', collect);
    streams.stderr?.on('data', collect);
    streams.stdin?.on('error', () => {}); // the child may end without reading; its exit code decides
    child.once('close', (code) => {
      resolve({ code, output });
    });
    streams.stdin?.end(input);
  });
}

function cannotChangeUser(cause: Error): EmbeddedStartError {
  return new EmbeddedStartError(
    'PostgreSQL does not run as root, and this system does not let root start it as another user',
    'Run as an ordinary user, or set DATABASE_URL.',
    { cause },
  );
}
