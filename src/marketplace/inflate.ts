import type { Transform } from 'node:stream';
import {
  brotliDecompressSync,
  createBrotliDecompress,
  createGunzip,
  gunzipSync,
  type ZlibOptions,
} from 'node:zlib';
import { unreadable } from './response.js';
import type { TransportError } from './transport-error.js';

/** Undoes one kind of compression, at once or as a stream. */
export interface Inflater {
  readonly whole: (bytes: Buffer, options: { maxOutputLength: number }) => Buffer;
  readonly stream: (options: Pick<ZlibOptions, 'chunkSize'>) => Transform;
}

export interface Inflated {
  readonly bytes: Buffer;
  /** False when there is more of it than was asked for. */
  readonly isAll: boolean;
}

/** What is inflated at once, before and after: a stream takes ten times as long to set up. */
const SMALL_BYTES = 64 * 1024;
const SMALL_INFLATED_BYTES = 1024 * 1024;

/** A gzip body may have several members. */
const GZIP: Inflater = { whole: gunzipSync, stream: createGunzip };
const BROTLI: Inflater = { whole: brotliDecompressSync, stream: createBrotliDecompress };

/**
 * What undoes a `Content-Encoding`; null when there is nothing to undo.
 * @throws TransportError for one that `Accept-Encoding` did not invite
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
 * Inflates bytes that have all arrived, to about `maxBytes` at most.
 * @throws what zlib throws for damaged ones
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
