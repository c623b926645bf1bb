import type { Socket } from 'node:net';
import { errorCode } from '../../domain/error-code.js';
import { TargetConflictError, TargetError, type Lines } from './target.js';

/** Timeouts of a server (ms). */
export interface ServerTimes {
  /** For connecting and logging in. */
  readonly connectMs: number;
  /** For the answer to a statement, and for accepting the next chunk of data. */
  readonly answerMs: number;
  /** For closing the connection. */
  readonly closeMs: number;
}

/** Adding a key to millions of rows takes a server many minutes. */
export const SERVER_TIMES: ServerTimes = {
  connectMs: 15_000,
  answerMs: 1_800_000,
  closeMs: 5_000,
};
/** How long a statement waits for a lock (s). */
export const LOCK_SECONDS = 60;
/** TCP keepalive delay (ms), so that an idle connection notices within minutes that its server is gone. */
export const KEEP_ALIVE_MS = 10_000;

/** Timeouts for the connection of a driver: destroys its socket when the server does not answer in time. */
export class ServerConnection {
  #timer: NodeJS.Timeout | null = null;

  /**
   * @param what such as `MySQL at host`
   * @param signal aborts the connection
   */
  constructor(
    readonly what: string,
    readonly socket: () => Socket,
    readonly times: ServerTimes,
    readonly signal: AbortSignal,
  ) {
    signal.addEventListener('abort', this.#abort, { once: true });
  }

  /** Waits until the driver has logged in. @throws {TargetError} */
  awaitLogin<T>(work: Promise<T>): Promise<T> {
    return this.#within(this.times.connectMs, 'check the host and port of the feed’s target', work);
  }

  /** Waits for the answer to a statement. @throws {TargetError} */
  awaitAnswer<T>(work: Promise<T>): Promise<T> {
    return this.#within(this.times.answerMs, 'check whether the server hangs', work);
  }

  async #within<T>(ms: number, remedy: string, work: Promise<T>): Promise<T> {
    const message = `${this.what}: no answer for ${Math.ceil(ms / 1000)} s`;
    const timer = setTimeout(() => this.socket().destroy(new TargetError(message, remedy)), ms);
    this.#timer = timer;
    try {
      return await work;
    } catch (error) {
      throw connectionError(error, this.what);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Passes lines on to the server, and restarts the timeout with each chunk that it accepts. */
  async *restartTimeout(lines: Lines): Lines {
    for await (const chunk of lines) {
      this.#timer?.refresh();
      yield chunk;
    }
  }

  /** Closes the connection; destroys it if the server takes too long. */
  async close(end: () => Promise<unknown>): Promise<void> {
    this.signal.removeEventListener('abort', this.#abort);
    const timer = setTimeout(() => this.socket().destroy(), this.times.closeMs);
    await end().catch(() => undefined);
    clearTimeout(timer);
    this.socket().destroy();
  }

  readonly #abort = (): void => void this.socket().destroy(new Error('interrupted'));
}

/** Error codes of PostgreSQL, MySQL and SQLite for values that a table rejects. */
const CONFLICTS =
  /^(?:22...|23...|42703|42804|42P10|ER_DUP_ENTRY|ER_DATA_TOO_LONG|ER_TRUNCATED\w*|ER_WARN_DATA_OUT_OF_RANGE|ER_BAD_NULL_ERROR|ER_NO_DEFAULT_FOR_FIELD|ER_CONSTRAINT_FAILED|ER_CHECK_CONSTRAINT_VIOLATED|ER_INVALID_JSON_TEXT|ER_NO_REFERENCED_ROW\w*|ER_ROW_IS_REFERENCED\w*|SQLITE_CONSTRAINT\w*)$/;

/** Describes the error of a driver, without passwords. @param what such as `MySQL at host` */
export function connectionError(error: unknown, what: string): TargetError {
  if (error instanceof TargetError) return error;
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const code = errorCode(inner) || 'failed';
  const words = inner instanceof Error && inner.message !== '' ? inner.message : code;
  const message = `${what}: ${words.replaceAll(/\s+/g, ' ').slice(0, 300)}`;
  if (CONFLICTS.test(code)) {
    return new TargetConflictError(message, 'change the table so that it accepts the view’s rows');
  }
  const remedy = REMEDIES.find(([codes]) => codes.test(code))?.[1];
  return new TargetError(message, remedy ?? 'fix it there; the feed continues by itself');
}

const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [
    /^(?:28P01|28000|ER_ACCESS_DENIED(?:_NO_PASSWORD)?_ERROR)$/,
    'check the user and the password file of the feed',
  ],
  [
    /^ER_DBACCESS_DENIED_ERROR$/,
    'check that the database exists, and grant the user all rights in it',
  ],
  [/^(?:3D000|ER_BAD_DB_ERROR)$/, 'create the database, or name another one in the feed’s target'],
  [
    /^(?:42501|ER_TABLEACCESS_DENIED_ERROR)$/,
    'grant the user the right to create, alter, drop, read and write tables',
  ],
  [
    /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)$/,
    'check the host and port of the feed’s target',
  ],
  [/^ER_NET_PACKET_TOO_LARGE$/, 'raise max_allowed_packet of the server, or turn local_infile on'],
];
