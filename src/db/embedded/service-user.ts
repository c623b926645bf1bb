import { cannotStart } from './errors.js';
import { execFile } from 'node:child_process';
import { userInfo } from 'node:os';
import { promisify } from 'node:util';
import { errorCode } from '../../domain/error-code.js';

/** An account of the operating system that PostgreSQL runs as, because it refuses to run as root. */
export interface ServiceUser {
  readonly uid: number;
  readonly gid: number;
}

/** macOS names it `_postgres`. `nobody` exists everywhere and owns nothing of value. */
const CANDIDATES = ['postgres', '_postgres', 'nobody'];

export function isRoot(): boolean {
  return process.geteuid?.() === 0;
}

/** The account for a new database. @returns null to run PostgreSQL as the current user */
export async function findServiceUser(): Promise<ServiceUser | null> {
  if (!isRoot()) {
    assertNamed();
    return null;
  }
  for (const name of CANDIDATES) {
    const [uid, gid] = [await id('-u', name), await id('-g', name)];
    if (Number(uid) > 0) return { uid: Number(uid), gid: Number(gid) };
  }
  throw cannotStart(
    'PostgreSQL does not run as root, and this system has no user postgres or nobody to run it as',
    'Run as an ordinary user, create a user called postgres, or set DATABASE_URL.',
  );
}

/** initdb refuses a user without a name, as containers run them. */
function assertNamed(): void {
  try {
    userInfo();
  } catch (cause) {
    throw cannotStart(
      `PostgreSQL can’t be set up by user ${process.geteuid?.()}, who has no entry in /etc/passwd`,
      'Add an entry, run as another user, or set DATABASE_URL.',
      cause,
    );
  }
}

export async function userName(uid: number): Promise<string> {
  return (await id('-nu', String(uid))) ?? String(uid);
}

/** Asks `id`, since the system may know accounts that /etc/passwd doesn't list. */
async function id(flag: string, user: string): Promise<string | null> {
  const { code, output } = await runAs(null, 'id', [flag, user]);
  return code === 0 ? output.trim() : null;
}

/**
 * Environment of a child process. Leaves out settings that PostgreSQL or Node would obey (PGDATA, NODE_OPTIONS),
 * and secrets, since the child may outlive the caller.
 */
function plainEnvironment(): Record<string, string> {
  const kept: Record<string, string> = { LC_ALL: 'C' };
  for (const name of ['PATH', 'TZ', 'LD_LIBRARY_PATH']) {
    const value = process.env[name];
    if (value !== undefined) kept[name] = value;
  }
  return kept;
}

/** Spawn options of a child that runs as `user`. libuv drops the supplementary groups. */
export function childOptions(user: ServiceUser | null) {
  const account = user === null ? {} : { uid: user.uid, gid: user.gid };
  return { ...account, cwd: '/', env: plainEnvironment() };
}

/**
 * Runs a program to its end. @returns its exit code (null: it could not run) and what it printed
 * @throws EmbeddedStartError when the system does not let us change user
 */
export async function runAs(
  user: ServiceUser | null,
  file: string,
  args: readonly string[],
  input = '',
): Promise<{ readonly code: number | null; readonly output: string }> {
  const running = promisify(execFile)(file, args, { ...childOptions(user), maxBuffer: 1 << 26 });
  // The child may end without reading; its exit code decides.
  running.child.stdin?.on('error', () => {}).end(input);
  try {
    const { stdout, stderr } = await running;
    return { code: 0, output: stdout + stderr };
  } catch (error) {
    const code = errorCode(error);
    if (user !== null && ['EPERM', 'EINVAL'].includes(code)) {
      throw cannotStart(
        'PostgreSQL does not run as root, and this system does not let root start it as another user',
        'Run as an ordinary user, or set DATABASE_URL.',
        error,
      );
    }
    if (['EMFILE', 'ENFILE'].includes(code)) throw error;
    const ended = error as Error & { code?: unknown; stdout?: string; stderr?: string };
    const isExit = typeof ended.code === 'number';
    const output = isExit ? `${ended.stdout ?? ''}${ended.stderr ?? ''}` : ended.message;
    return { code: isExit ? Number(ended.code) : null, output };
  }
}

/** Runs a shell script as `user`, with arguments `$1` and so on. @returns whether it succeeded */
export async function shellAs(
  user: ServiceUser | null,
  script: string,
  ...args: string[]
): Promise<boolean> {
  return (await runAs(user, '/bin/sh', ['-c', script, 'sh', ...args])).code === 0;
}
