import { UserError } from '../domain/user-error.js';
import { errorCode } from '../domain/error-code.js';
import { asksForTls, CERTIFICATE_PROBLEMS, NO_TLS, TLS_NEEDED } from '../domain/postgres-tls.js';

/**
 * Explains a lack of room that PostgreSQL printed, in any language.
 * @param text what it printed
 * @param where the database, as people know it
 * @returns null if the text is about something else
 */
export function explainNoRoom(text: string, where: string, cause?: unknown): UserError | null {
  // The name of a segment in /dev/shm. The rest of the sentence is translated.
  if (/\/PostgreSQL\.\d+"/.test(text)) {
    return new UserError(
      `${where}: the server has too little shared memory`,
      'Give its machine or container more of it (Docker: shm_size: 256mb; Linux: mount -o remount,size=256m /dev/shm), then try again.',
      'SHARED_MEMORY',
      1,
      { cause },
    );
  }
  if (!/No space left on device|quota exceeded/i.test(text)) return null;
  return diskFull(where, cause);
}

export function diskFull(where: string, cause?: unknown): UserError {
  return new UserError(
    `${where}: the disk is full`,
    'Free some space, then try again. No partial data was written.',
    'DISK_FULL',
    1,
    { cause },
  );
}

/** Oldest supported PostgreSQL major version. */
export const OLDEST_SERVER = 14;

/** Refuses a server older than `OLDEST_SERVER`. `versionNumber` is `server_version_num`. */
export function assertServerVersion(versionNumber: number): void {
  if (versionNumber >= OLDEST_SERVER * 10_000) return;
  const version = `${Math.floor(versionNumber / 10_000)}.${versionNumber % 10_000}`;
  throw new UserError(
    `the server runs PostgreSQL ${version}, but ${OLDEST_SERVER} or newer is needed`,
    'Point DATABASE_URL to a newer server, or unset it to use the embedded one.',
    'STORE_TOO_OLD',
  );
}

const NETWORK_PROBLEMS: Readonly<Record<string, string>> = {
  ENOTFOUND: 'the host name is unknown',
  EAI_AGAIN: 'the host name could not be looked up',
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was cut',
  EPIPE: 'the connection was cut',
  ETIMEDOUT: 'there was no answer',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network cannot be reached',
};

const SERVER_PROBLEMS: Readonly<Record<string, readonly [problem: string, remedy: string]>> = {
  '28P01': ['user name or password is wrong', 'Correct the user or the password in DATABASE_URL.'],
  '28000': [
    'the server refused this user',
    'Ask the administrator to allow the user in pg_hba.conf, or correct DATABASE_URL.',
  ],
  '3D000': [
    'the database does not exist',
    'Create it (createdb), or correct its name in DATABASE_URL.',
  ],
  '53300': [
    'the server has no free connections',
    'Close other sessions, or raise max_connections.',
  ],
  '57P03': ['the server is starting up or shutting down', 'Try again in a moment.'],
  '57P01': ['an administrator stopped the server or the session', 'Try again in a moment.'],
  '57P02': ['the server crashed and is recovering', 'Try again in a moment.'],
};

/**
 * Turns an error of the `pg` driver into a `UserError`; null unless it is about the connection or the
 * disk. The message names host, port and database of `url`, never user or password.
 */
export function explainDatabaseError(error: unknown, url: string): UserError | null {
  if (error instanceof UserError) return error;
  const code = errorCode(error);
  if (code === '53100' || code === 'ENOSPC') {
    const text = error instanceof Error ? error.message : '';
    return explainNoRoom(text, shownUrl(url), error) ?? diskFull(shownUrl(url), error);
  }
  const found = problemOf(error, code, url);
  if (found === null) return null;
  const [problem, remedy] = found;
  return new UserError(`${shownUrl(url)}: ${problem}`, remedy, 'STORE_CONNECTION', 1, {
    cause: error,
  });
}

const CHECK_ADDRESS =
  'Check host and port in DATABASE_URL, and that the server runs and accepts connections from this machine.';

function problemOf(
  error: unknown,
  code: string,
  url: string,
): readonly [problem: string, remedy: string] | null {
  if (code === '28000' && !asksForTls(url)) {
    const [problem, remedy] = SERVER_PROBLEMS[code] ?? TLS_NEEDED;
    return [problem, `If the server wants TLS, add sslmode=require to DATABASE_URL. ${remedy}`];
  }
  const network = NETWORK_PROBLEMS[code];
  if (network !== undefined) return [network, CHECK_ADDRESS];
  return SERVER_PROBLEMS[code] ?? CERTIFICATE_PROBLEMS[code] ?? problemInMessage(error);
}

/** Host, port and database of a connection string, without secrets. */
export function shownUrl(url: string): string {
  if (!URL.canParse(url)) return 'the database';
  const { host, pathname } = new URL(url);
  return `database ${pathname.slice(1) || '(default)'} at ${host || '(local)'}`;
}

/** Recognizes problems that have no code of their own. */
function problemInMessage(error: unknown): readonly [problem: string, remedy: string] | null {
  if (!(error instanceof Error)) return null;
  const { message } = error;
  if (/timeout expired|timeout exceeded|connection timeout|read timeout/i.test(message))
    return ['there was no answer', CHECK_ADDRESS];
  if (/Connection terminated|not queryable/i.test(message))
    return ['the connection was cut', CHECK_ADDRESS];
  if (/does not support SSL/i.test(message)) return NO_TLS;
  // PgBouncer and hosts of databases in clouds.
  if (/SSL (?:connection )?(?:is )?required|sslmode=require/i.test(message)) return TLS_NEEDED;
  if (/password must be a (non-empty )?string/i.test(message))
    return ['a password is needed', 'Write the password into DATABASE_URL.'];
  if (isFileError(error)) {
    return [
      `the file ${error.path} can’t be read (${errorCode(error)})`,
      'Correct sslrootcert, sslcert or sslkey in DATABASE_URL. For the authorities that Node.js trusts, write sslrootcert=system.',
    ];
  }
  if (/certificate/i.test(message)) return [`TLS failed: ${message}`, CHECK_CERTIFICATES];
  return null;
}

const CHECK_CERTIFICATES =
  'Check the certificates of the server, and sslrootcert, sslcert and sslkey in DATABASE_URL.';

/** Whether a file that the address names could not be opened. A socket has no such call. */
function isFileError(
  error: NodeJS.ErrnoException,
): error is NodeJS.ErrnoException & { path: string } {
  return error.syscall === 'open' && error.path !== undefined;
}
