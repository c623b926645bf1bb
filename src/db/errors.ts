import { errorCode } from '../domain/error-code.js';
import { oneLine } from '../domain/text.js';

/** A problem with the database: a one-line message and a remedy. Neither contains a password. */
export abstract class StoreError extends Error {
  /** Stable name for scripts. */
  abstract readonly code: string;
  /** What to do about it, in one sentence. */
  readonly remedy: string;

  constructor(message: string, remedy: string, options?: ErrorOptions) {
    super(oneLine(message), options);
    this.name = new.target.name;
    this.remedy = remedy;
  }
}

/** The embedded PostgreSQL could not be set up, started or used. */
export class EmbeddedStartError extends StoreError {
  readonly code = 'EMBEDDED_START';
}

/** No database could be reached at DATABASE_URL. */
export class StoreConnectionError extends StoreError {
  readonly code = 'STORE_CONNECTION';
}

/** The database answers but refuses writes, as a standby does. */
export class StoreReadOnlyError extends StoreError {
  readonly code = 'STORE_READ_ONLY';
}

/** The server is older than `OLDEST_SERVER`. */
class StoreTooOldError extends StoreError {
  readonly code = 'STORE_TOO_OLD';
}

/** The server's disk or the one under DATA_DIR is full. */
export class DiskFullError extends StoreError {
  readonly code = 'DISK_FULL';
}

/** The server's shared memory is full, which PostgreSQL reports as a full disk. */
class SharedMemoryError extends StoreError {
  readonly code = 'SHARED_MEMORY';
}

/**
 * Explains a lack of room that PostgreSQL printed, in any language.
 * @param text what it printed
 * @param where the database, as people know it
 * @returns null if the text is about something else
 */
export function explainNoRoom(text: string, where: string, cause?: unknown): StoreError | null {
  // The name of a segment in /dev/shm. The rest of the sentence is translated.
  if (/\/PostgreSQL\.\d+"/.test(text)) {
    return new SharedMemoryError(
      `${where}: the server has too little shared memory`,
      'Give its machine or container more of it (Docker: shm_size: 256mb; Linux: mount -o remount,size=256m /dev/shm), then try again.',
      { cause },
    );
  }
  if (!/No space left on device|quota exceeded/i.test(text)) return null;
  return diskFull(where, cause);
}

export function diskFull(where: string, cause?: unknown): DiskFullError {
  return new DiskFullError(
    `${where}: the disk is full`,
    'Free some space, then try again. No partial data was written.',
    { cause },
  );
}

/** A migration failed and was rolled back. */
export class MigrationError extends StoreError {
  readonly code = 'MIGRATION';
}

/** The database was migrated by a newer version of this program. */
export class SchemaAheadError extends StoreError {
  readonly code = 'SCHEMA_AHEAD';
}

/** A migration was applied with other SQL than this version has. */
export class SchemaDiffersError extends StoreError {
  readonly code = 'SCHEMA_DIFFERS';
}

/** Oldest supported PostgreSQL major version. */
export const OLDEST_SERVER = 14;

/** Refuses a server older than `OLDEST_SERVER`. `versionNumber` is `server_version_num`. */
export function assertServerVersion(versionNumber: number): void {
  if (versionNumber >= OLDEST_SERVER * 10_000) return;
  const version = `${Math.floor(versionNumber / 10_000)}.${versionNumber % 10_000}`;
  throw new StoreTooOldError(
    `the server runs PostgreSQL ${version}, but ${OLDEST_SERVER} or newer is needed`,
    'Point DATABASE_URL to a newer server, or unset it to use the embedded one.',
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
 * Turns an error of the `pg` driver into a `StoreError`; null unless it is about the connection or the
 * disk. The message names host, port and database of `url`, never user or password.
 */
export function explainDatabaseError(error: unknown, url: string): StoreError | null {
  if (error instanceof StoreError) return error;
  const code = errorCode(error);
  const server = SERVER_PROBLEMS[code];
  if (code === '53100' || code === 'ENOSPC') {
    const text = error instanceof Error ? error.message : '';
    return explainNoRoom(text, shownUrl(url), error) ?? diskFull(shownUrl(url), error);
  }
  if (server !== undefined) {
    return new StoreConnectionError(`${shownUrl(url)}: ${server[0]}`, server[1], { cause: error });
  }
  const network = NETWORK_PROBLEMS[code] ?? problemInMessage(error);
  if (network === null) return null;
  return new StoreConnectionError(
    `${shownUrl(url)}: ${network}`,
    'Check host and port in DATABASE_URL, and that the server runs and accepts connections from this machine.',
    { cause: error },
  );
}

/** Host, port and database of a connection string, without secrets. */
export function shownUrl(url: string): string {
  if (!URL.canParse(url)) return 'the database';
  const { host, pathname } = new URL(url);
  return `database ${pathname.slice(1) || '(default)'} at ${host || '(local)'}`;
}

/** Recognizes problems that the driver reports without a code. */
function problemInMessage(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  if (/timeout expired|timeout exceeded|connection timeout|read timeout/i.test(error.message))
    return 'there was no answer';
  if (/Connection terminated|not queryable/i.test(error.message)) return 'the connection was cut';
  if (/does not support SSL/i.test(error.message)) return 'the server does not offer TLS';
  if (/password must be a (non-empty )?string/i.test(error.message)) return 'a password is needed';
  if (/certificate/i.test(error.message)) return `TLS failed: ${error.message}`;
  return null;
}
