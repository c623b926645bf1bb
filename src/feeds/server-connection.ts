import type { Socket } from 'node:net';
import { errorCode } from '../domain/error-code.js';
import { TargetConflictError, TargetError, type Lines } from './target.js';

/** How long a server may take (ms). */
export interface ServerTimes {
  /** To connect and log in. */
  readonly connectMs: number;
  /** For the answer to a statement, and between two pieces of data that it takes. */
  readonly answerMs: number;
  /** To say goodbye. */
  readonly closeMs: number;
}

/** A key of millions of rows takes a server many minutes. */
export const SERVER_TIMES: ServerTimes = {
  connectMs: 15_000,
  answerMs: 1_800_000,
  closeMs: 5_000,
};
/** How long a statement waits for those who hold a table or a row (s). */
export const LOCK_SECONDS = 60;
/** A connection that is idle learns within minutes that its server is gone (ms). */
export const KEEP_ALIVE_MS = 10_000;

/** The connection of a driver. It is cut off when its server is silent for too long. */
export class ServerConnection {
  #timer: NodeJS.Timeout | null = null;

  /**
   * @param what such as `MySQL at host`
   * @param signal cuts the connection off
   */
  constructor(
    readonly what: string,
    readonly socket: () => Socket,
    readonly times: ServerTimes,
    readonly signal: AbortSignal,
  ) {
    signal.addEventListener('abort', this.#abort, { once: true });
  }

  /** Waits until the server has let the driver in. @throws {TargetError} */
  connected<T>(work: Promise<T>): Promise<T> {
    return this.#within(this.times.connectMs, 'check the host and port of the feed’s target', work);
  }

  /** Waits for the answer to a statement. @throws {TargetError} */
  answer<T>(work: Promise<T>): Promise<T> {
    return this.#within(this.times.answerMs, 'look whether the server hangs there', work);
  }

  async #within<T>(ms: number, remedy: string, work: Promise<T>): Promise<T> {
    const silence = `${this.what}: no answer for ${Math.ceil(ms / 1000)} s`;
    const timer = setTimeout(() => this.socket().destroy(new TargetError(silence, remedy)), ms);
    this.#timer = timer;
    try {
      return await work;
    } catch (error) {
      throw connectionError(error, this.what);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Lines on their way to the server, which is not silent while it takes them. */
  async *sent(lines: Lines): Lines {
    for await (const chunk of lines) {
      this.#timer?.refresh();
      yield chunk;
    }
  }

  /** Ends the connection, at the latest when the server had time to say goodbye. */
  async close(end: () => Promise<unknown>): Promise<void> {
    this.signal.removeEventListener('abort', this.#abort);
    const late = setTimeout(() => this.socket().destroy(), this.times.closeMs);
    await end().catch(() => undefined);
    clearTimeout(late);
    this.socket().destroy();
  }

  readonly #abort = (): void => void this.socket().destroy(new Error('interrupted'));
}

/** Codes of drivers for values that a table does not take, as PostgreSQL, MySQL and SQLite have them. */
const CONFLICTS =
  /^(?:22...|23...|42703|42804|42P10|ER_DUP_ENTRY|ER_DATA_TOO_LONG|ER_TRUNCATED\w*|ER_WARN_DATA_OUT_OF_RANGE|ER_BAD_NULL_ERROR|ER_NO_DEFAULT_FOR_FIELD|ER_CONSTRAINT_FAILED|ER_CHECK_CONSTRAINT_VIOLATED|ER_INVALID_JSON_TEXT|ER_NO_REFERENCED_ROW\w*|ER_ROW_IS_REFERENCED\w*|SQLITE_CONSTRAINT\w*)$/;

/** An error of a driver in words for a person, without passwords. @param what such as `MySQL at host` */
export function connectionError(error: unknown, what: string): TargetError {
  if (error instanceof TargetError) return error;
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const code = errorCode(inner) || 'failed';
  const words = inner instanceof Error && inner.message !== '' ? inner.message : code;
  const message = `${what}: ${words.replaceAll(/\s+/g, ' ').slice(0, 300)}`;
  if (CONFLICTS.test(code)) {
    return new TargetConflictError(message, 'change the table so that it takes the view’s rows');
  }
  const remedy = REMEDIES.find(([codes]) => codes.test(code))?.[1];
  return new TargetError(message, remedy ?? 'mend it there; the feed goes on by itself');
}

const REMEDIES: readonly (readonly [RegExp, string])[] = [
  [
    /^(?:28P01|28000|ER_ACCESS_DENIED(?:_NO_PASSWORD)?_ERROR)$/,
    'check the user and the password file of the feed',
  ],
  [
    /^ER_DBACCESS_DENIED_ERROR$/,
    'see that the database is there, and give the user all rights in it',
  ],
  [/^(?:3D000|ER_BAD_DB_ERROR)$/, 'create the database, or name another one in the feed’s target'],
  [
    /^(?:42501|ER_TABLEACCESS_DENIED_ERROR)$/,
    'give the user the right to create, change, drop, read and write tables',
  ],
  [
    /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)$/,
    'check the host and port of the feed’s target',
  ],
  [/^ER_NET_PACKET_TOO_LARGE$/, 'raise max_allowed_packet of the server, or allow local_infile'],
];
