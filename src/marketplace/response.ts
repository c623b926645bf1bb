import type { Transform } from 'node:stream';
import {
  brotliDecompressSync,
  createBrotliDecompress,
  createGunzip,
  gunzipSync,
  type ZlibOptions,
} from 'node:zlib';
import {
  unavailable,
  type Failure,
  type UnavailableReason,
  type Unreadable,
} from '../domain/reply.js';
import type { Head } from './judge.js';
import type { HeaderMap } from './rate-limit.js';

/** Error bodies are read up to here; the message is at their beginning. */
export const MAX_ERROR_BYTES = 1024 * 1024;

/** Time limits of one HTTP request, milliseconds. */
export interface Timeouts {
  /** Until the last header, connecting included. */
  readonly headersMs: number;
  /** Silence within the body. */
  readonly silenceMs: number;
  /** The whole request. */
  readonly totalMs: number;
}

/** An HTTP answer whose head has arrived. */
export interface Response extends Head {
  /** Scheme, host and port that answered. */
  readonly origin: string;
  /** Closes the connection unless the whole body has been read. */
  discard(): void;
}

/** An answer whose body may be of any size. */
export interface StreamedResponse extends Response {
  /**
   * The decompressed body. Ends normally only when it is complete; otherwise throws
   * `TransportError`, or the reason of the aborted signal. Leaving it early closes the connection.
   */
  chunks(maxBytes: number): AsyncGenerator<Buffer, void, undefined>;
}

/** An answer whose body is collected within bounds. */
export interface WholeResponse extends Response {
  /**
   * The decompressed body, complete for a success, the beginning for an error.
   * @throws TransportError when it breaks off, can't be decompressed or is too large
   * @throws the reason of the aborted signal
   */
  body(): Promise<Buffer>;
}

/** Headers as one text each; repeated ones are joined by commas. */
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

function unreadable(httpStatus: number, detail: string): TransportError {
  const failure: Unreadable = { kind: 'unreadable', httpStatus, detail, excerpt: '' };
  return new TransportError(failure);
}

/** A request failed; `failure` says how. Internal: the client turns it into a reply. */
export class TransportError extends Error {
  override name = 'TransportError';
  constructor(readonly failure: Failure) {
    super('the request failed');
  }
}

/** OpenSSL's errors for an answer that is not TLS; its versions differ. */
const PLAIN_HTTP_CODES = new Set([
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
]);

/**
 * The failure behind an error of undici or Node. Only the error's code is used: messages may
 * contain addresses, and these the key.
 * @param httpStatus null until the head has arrived
 */
export function describeError(
  error: unknown,
  host: string,
  httpStatus: number | null,
): TransportError {
  if (error instanceof TransportError) return error;
  const code = codeOf(error);
  const failed = (reason: UnavailableReason, detail: string): TransportError =>
    new TransportError(unavailable(httpStatus, reason, detail));
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') {
    return failed('timeout', `${host} can't be reached in time (${code})`);
  }
  if (PLAIN_HTTP_CODES.has(code)) {
    return failed('plain-http', `${host} is asked by https, but this port speaks plain http`);
  }
  if (code === 'EMFILE' || code === 'ENFILE') {
    const remedy = 'raise the limit of open files (ulimit -n)';
    return failed('network', `no connection to ${host} can be opened (${code}): ${remedy}`);
  }
  if (httpStatus === null) return failed('network', `${host} can't be reached (${code})`);
  return failed('cut-off', `the answer of ${host} ended early or is damaged (${code})`);
}

function codeOf(error: unknown): string {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : null;
  return typeof code === 'string' ? code : 'unknown error';
}

/** Decompresses one encoding, at once or as a stream. */
export interface Inflater {
  readonly whole: (bytes: Buffer, options: { maxOutputLength: number }) => Buffer;
  readonly stream: (options: Pick<ZlibOptions, 'chunkSize'>) => Transform;
}

interface Inflated {
  readonly bytes: Buffer;
  /** False when there is more than `maxBytes`. */
  readonly isAll: boolean;
}

/** Bodies up to this size are inflated at once: a stream takes ten times as long to set up. */
const SMALL_BYTES = 64 * 1024;
const SMALL_INFLATED_BYTES = 1024 * 1024;

/** A gzip body may have several members. */
const GZIP: Inflater = { whole: gunzipSync, stream: createGunzip };
const BROTLI: Inflater = { whole: brotliDecompressSync, stream: createBrotliDecompress };

/**
 * The decompression for a `Content-Encoding`; null when the body is not compressed.
 * @throws TransportError for an encoding that `Accept-Encoding` does not name
 */
export function inflaterFor(encoding: string, httpStatus: number): Inflater | null {
  switch (encoding.trim().toLowerCase()) {
    case '':
    case 'identity':
      return null;
    case 'gzip':
    case 'x-gzip':
      return GZIP;
    case 'br':
      return BROTLI;
    default:
      throw notInvited(httpStatus);
  }
}

/**
 * Inflates a complete body, to about `maxBytes` at most.
 * @throws the error of zlib when the bytes are damaged
 */
export async function inflate(
  bytes: Buffer,
  { whole, stream }: Inflater,
  maxBytes: number,
): Promise<Inflated> {
  if (bytes.length <= SMALL_BYTES) {
    try {
      const maxOutputLength = Math.min(maxBytes, SMALL_INFLATED_BYTES);
      return { bytes: whole(bytes, { maxOutputLength }), isAll: true };
    } catch (error) {
      if (!isTooLong(error)) throw error;
    }
  }
  const inflating = stream({});
  inflating.end(bytes);
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of inflating as AsyncIterable<Buffer>) {
    parts.push(part);
    size += part.length;
    if (size > maxBytes) return { bytes: Buffer.concat(parts), isAll: false };
  }
  return { bytes: Buffer.concat(parts), isAll: true };
}

function isTooLong(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE';
}

function notInvited(httpStatus: number): TransportError {
  return unreadable(httpStatus, 'the answer is compressed in a way that was not asked for');
}
