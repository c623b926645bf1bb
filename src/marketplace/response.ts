import type { Unreadable } from '../domain/reply.js';
import type { Head } from './judge.js';
import type { HeaderMap } from './retry-after.js';
import { TransportError } from './transport-error.js';

/** An error body is read no further than this; what matters of it is small. */
export const MAX_ERROR_BYTES = 1024 * 1024;

/** Bounds of one HTTP exchange, milliseconds. */
export interface Patience {
  /** From the beginning to the last header received, the connection included. */
  readonly headersMs: number;
  /** Silence within the body. */
  readonly silenceMs: number;
  /** The whole exchange. */
  readonly totalMs: number;
}

/** An HTTP answer of which the head has arrived. */
export interface Response extends Head {
  /** Scheme, host and port that answered. */
  readonly origin: string;
  /** Closes the connection without reading on; harmless when all has been read. */
  discard(): void;
}

/** An answer whose body may be of any size. */
export interface StreamedResponse extends Response {
  /**
   * The decompressed body. Ends normally only when all of it came; otherwise throws
   * `TransportError`, or the reason of the aborted signal. Leaving it early closes the connection.
   */
  chunks(maxBytes: number): AsyncGenerator<Buffer, void, undefined>;
}

/** An answer whose body is collected within bounds. */
export interface WholeResponse extends Response {
  /**
   * The decompressed body: of a success all of it, of an error the beginning.
   * @throws TransportError when it breaks off, can't be decompressed or is too large
   * @throws the reason of the aborted signal
   */
  body(): Promise<Buffer>;
}

/** Repeated headers are joined. */
export function flatten(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
): HeaderMap {
  const flat: Record<string, string> = {};
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (typeof value === 'string') flat[name] = value;
    else if (value !== undefined) flat[name] = value.join(', ');
  }
  return flat;
}

export function tooLarge(httpStatus: number, maxBytes: number): TransportError {
  return unreadable(httpStatus, `the answer is larger than the ${maxBytes} bytes allowed`);
}

export function unreadable(httpStatus: number, detail: string): TransportError {
  const failure: Unreadable = { kind: 'unreadable', httpStatus, detail, excerpt: '' };
  return new TransportError(failure);
}
