import { Readable, pipeline } from 'node:stream';
import { constants, createBrotliCompress, createDeflate, createGzip } from 'node:zlib';

export type Encoding = 'gzip' | 'br' | 'deflate';
type Chunks = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/** One after the other. */
export async function* joined(...parts: Chunks[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield* part;
}

/** The first `end` bytes. */
export async function* upTo(chunks: Chunks, end: number): AsyncGenerator<Uint8Array> {
  let left = end;
  if (left <= 0) return;
  for await (const chunk of chunks) {
    yield chunk.subarray(0, left);
    left -= chunk.length;
    if (left <= 0) return;
  }
}

/** The same bytes in chunks of at most `size`. */
export async function* rechunked(chunks: Chunks, size: number): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += size) yield chunk.subarray(at, at + size);
  }
}

/** The bytes compressed. */
export function compressed(chunks: Chunks, encoding: Encoding): AsyncIterable<Uint8Array> {
  const packer =
    encoding === 'br'
      ? createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: 4 } })
      : encoding === 'gzip'
        ? createGzip()
        : createDeflate();
  // Errors come out where the packer is read.
  pipeline(Readable.from(chunks), packer, () => undefined);
  return packer;
}

/** The encoding that a client's Accept-Encoding and the server's option come to. */
export function chooseEncoding(
  option: 'auto' | 'gzip' | 'br' | 'none',
  accepted: string,
): Encoding | null {
  const names = accepted.split(',').map((part) => part.replace(/;.*/, '').trim());
  const offered: readonly Encoding[] =
    option === 'auto' ? ['br', 'gzip'] : option === 'none' ? [] : [option];
  return offered.find((name) => names.includes(name)) ?? null;
}
