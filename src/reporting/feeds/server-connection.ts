import { UserError } from '../../domain/user-error.js';
import type { Socket } from 'node:net';
import { errorCode } from '../../domain/error-code.js';
import { type Lines } from './target.js';

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
  /** What went wrong while rows were read from the store. */
  #sourceError: Error | null = null;

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

  /** Waits until the driver has logged in. @throws {UserError} */
  awaitLogin<T>(work: Promise<T>): Promise<T> {
    return this.#within(this.times.connectMs, 'check the host and port of the feed’s target', work);
  }

  /** Waits for the answer to a statement. @throws {UserError} */
  awaitAnswer<T>(work: Promise<T>): Promise<T> {
    return this.#within(this.times.answerMs, 'check whether the server hangs', work);
  }

  async #within<T>(ms: number, remedy: string, work: Promise<T>): Promise<T> {
    const message = `${this.what}: no answer for ${Math.ceil(ms / 1000)} s`;
    const timer = setTimeout(
      () => this.socket().destroy(new UserError(message, remedy, 'TARGET')),
      ms,
    );
    this.#timer = timer;
    try {
      return await work;
    } catch (error) {
      throw this.#sourceError ?? connectionError(error, this.what);
    } finally {
      clearTimeout(timer);
      this.#timer = null;
    }
  }

  /** Passes lines on to the server, and restarts the timeout with each chunk that it accepts. */
  async *passOn(lines: Lines): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of lines) {
        this.#timer?.refresh();
        yield chunk;
      }
    } catch (error) {
      this.#sourceError = error instanceof Error ? error : new Error(String(error));
      throw error;
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

/**
 * Error codes of drivers and servers that concern the whole target: it is gone, full, read-only, overloaded, or does
 * not know us. All others concern the table that a statement was about.
 */
const WHOLE_TARGET =
  /^(?:failed|E(?!R_)[A-Z_]+|08...|28...|3D000|25006|53...|57P..|58...|PROTOCOL_\w+|HANDSHAKE_\w+|ER_(?!REF)\w*(?:ACCESS_DENIED|DBACCESS|BAD_DB|CON_COUNT|HOST|SHUTDOWN|READ_ONLY|PREVENTS|DISK_FULL|FILE_FULL|NET_|OUT_OF|NEW_ABORTING)\w*|SQLITE_(?:BUSY|FULL|READONLY|IOERR|CANTOPEN|NOTADB|CORRUPT)\w*)$/;

/** Describes the error of a driver, without passwords. @param what such as `MySQL at host` */
export function connectionError(error: unknown, what: string): UserError {
  if (error instanceof UserError) return error;
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const code = errorCode(inner) || 'failed';
  const words = inner instanceof Error && inner.message !== '' ? inner.message : code;
  const message = `${what}: ${words.replaceAll(/\s+/g, ' ').slice(0, 300)}`;
  const remedy = REMEDIES.find(([codes]) => codes.test(code))?.[1];
  if (WHOLE_TARGET.test(code) && !code.startsWith('ER_TABLEACCESS')) {
    return new UserError(message, remedy ?? 'fix it there; the feed continues by itself', 'TARGET');
  }
  return new UserError(
    message,
    remedy ?? 'change the table so that it accepts the view’s rows',
    'VIEW',
  );
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
  [/^ER_NET_PACKET_TOO_LARGE$/, 'raise max_allowed_packet of the server'],
  [/^(?:53100|ER_DISK_FULL|ER_RECORD_FILE_FULL)$/, 'make room on the disk of the server'],
  [
    /^(?:55P03|40...|ER_LOCK_\w+)$/,
    'another program has locked the table; the feed tries again by itself',
  ],
];
