import {
  crc32,
  createBrotliDecompress,
  createInflate,
  createInflateRaw,
  type BrotliDecompress,
  type InflateRaw,
} from 'node:zlib';
import { errorCode } from '../domain/error-code.js';
import { damagedBody, unreadableBody } from './transport-error.js';

/** Bytes at the beginning of a body that decide its compression. */
const BEGINNING_BYTES = 64;
/** Some proxies compress what is compressed already. */
const MAX_LAYERS = 2;
/** Bytes decompressed at once. They can become a thousand times as many. */
const PIECE_BYTES = 1024;
const CHUNK = { chunkSize: 256 * 1024 };

type Compression = 'gzip' | 'zlib' | 'deflate' | 'brotli';
type Bytes = AsyncGenerator<Buffer, void, undefined>;

/**
 * Decompresses a body by its first bytes, because servers compress without saying so, and name encodings that
 * are no compression (`none`, `UTF-8`). Text passes unchanged. Ignores bytes after the end of a compressed
 * stream.
 * @param encoding the header Content-Encoding; a hint for formats that can't be recognized for certain
 * @throws {TransportError} when the body is damaged, or neither text nor in a known compression
 */
export async function* decompress(received: Bytes, encoding: string, httpStatus: number): Bytes {
  try {
    yield* unwrapped(new Source(received), encoding, MAX_LAYERS);
  } catch (error) {
    const isDamage = /^(?:Z_|ERR__ERROR_FORMAT)/.test(errorCode(error));
    if (!isDamage) throw error;
    // Brotli is a guess for bytes that are no text.
    if (!/gzip|deflate|br/i.test(encoding)) {
      throw unreadableBody(httpStatus, 'the answer is neither text nor in a known compression');
    }
    throw error;
  } finally {
    await received.return();
  }
}

async function* unwrapped(source: Source, encoding: string, layers: number): Bytes {
  const beginning = await source.peek(BEGINNING_BYTES);
  const compression = layers === 0 ? null : compressionOf(beginning, encoding);
  if (compression === null) {
    yield* source.rest();
  } else {
    yield* unwrapped(new Source(open(compression, source)), encoding, layers - 1);
  }
}

function open(compression: Compression, source: Source): Bytes {
  switch (compression) {
    case 'gzip':
      return gunzip(source);
    case 'zlib':
      return inflate(createInflate(CHUNK), source);
    case 'deflate':
      return inflate(createInflateRaw(CHUNK), source);
    case 'brotli':
      return inflate(createBrotliDecompress(CHUNK), source);
  }
}

/** The compression of a body that begins with these bytes; null if it is text. */
export function compressionOf(beginning: Buffer, encoding: string): Compression | null {
  const bytes = beginning.subarray(0, BEGINNING_BYTES);
  if (isGzip(bytes)) return 'gzip';
  if (isText(bytes)) return null;
  if (bytes[0] === 0x78 && bytes.length > 1 && bytes.readUInt16BE() % 31 === 0) return 'zlib';
  return /deflate/i.test(encoding) ? 'deflate' : 'brotli';
}

function isGzip(bytes: Buffer): boolean {
  return bytes[0] === 0x1f && bytes[1] === 0x8b;
}

/**
 * True for UTF-8 without control characters, or with some after the beginning of JSON or a page: one broken
 * record must not hide the others. The last character may be cut.
 */
function isText(bytes: Buffer): boolean {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
    // eslint-disable-next-line no-control-regex -- they are what it looks for
    return /^\s*[{[<]\s*["<!\w]/.test(text) || !/[\x01-\x08\x0e-\x1f]/.test(text);
  } catch {
    return false;
  }
}

/**
 * Reads all members of a gzip file, and nothing after them. Node's own gunzip fails if something else follows
 * the last member, and drops what it has read.
 */
async function* gunzip(source: Source): Bytes {
  do {
    await skipGzipHeader(source);
    let checksum = 0;
    for await (const chunk of inflate(createInflateRaw(CHUNK), source)) {
      checksum = crc32(chunk, checksum);
      yield chunk;
    }
    const trailer = await source.take(8);
    if (trailer.readUInt32LE() !== checksum) throw damagedBody('Z_DATA_ERROR');
  } while (isGzip(await source.peek(2)));
}

/** Skips the header of a gzip member (RFC 1952). */
async function skipGzipHeader(source: Source): Promise<void> {
  const [, , , flags = 0] = await source.take(10);
  if ((flags & 4) !== 0) await source.take((await source.take(2)).readUInt16LE());
  for (const flag of [8, 16]) {
    if ((flags & flag) === 0) continue;
    while ((await source.take(1))[0] !== 0);
  }
  if ((flags & 2) !== 0) await source.take(2);
}

/** Decompresses one stream and puts back what follows it. */
async function* inflate(engine: InflateRaw | BrotliDecompress, source: Source): Bytes {
  const output: Buffer[] = [];
  const ended = new Promise<void>((resolve, reject) => {
    engine.once('end', resolve).once('error', reject);
  });
  ended.catch(() => {});
  engine.on('data', (chunk: Buffer) => output.push(chunk));
  let fed = 0;
  try {
    for (;;) {
      const piece = await source.next(PIECE_BYTES);
      if (piece === null) {
        engine.end();
        await ended;
        yield* output;
        return;
      }
      fed += piece.length;
      const written = new Promise<void>((resolve) => engine.write(piece, () => resolve()));
      await Promise.race([written, ended]);
      yield* output.splice(0);
      if (!engine.readableEnded) continue;
      source.putBack(piece.subarray(piece.length - (fed - engine.bytesWritten)));
      return;
    }
  } finally {
    engine.destroy();
  }
}

/** The bytes of a body, with a look at what comes next. */
class Source {
  #held: Buffer = Buffer.alloc(0);

  constructor(private readonly body: Bytes) {}

  /** The next bytes, fewer than `count` only at the end. They stay in the source. */
  async peek(count: number): Promise<Buffer> {
    while (this.#held.length < count) {
      const next = await this.body.next();
      if (next.done === true) break;
      this.#held = this.#held.length === 0 ? next.value : Buffer.concat([this.#held, next.value]);
    }
    return this.#held.subarray(0, count);
  }

  /** Exactly `count` bytes. @throws {TransportError} when the body ends before */
  async take(count: number): Promise<Buffer> {
    const bytes = await this.peek(count);
    if (bytes.length < count) throw damagedBody('Z_BUF_ERROR');
    this.#held = this.#held.subarray(count);
    return bytes;
  }

  /** Up to `most` bytes; null at the end. */
  async next(most: number): Promise<Buffer | null> {
    await this.peek(1);
    const bytes = this.#held.subarray(0, most);
    this.#held = this.#held.subarray(bytes.length);
    return bytes.length === 0 ? null : bytes;
  }

  putBack(bytes: Buffer): void {
    this.#held = Buffer.concat([bytes, this.#held]);
  }

  async *rest(): Bytes {
    if (this.#held.length > 0) yield this.#held;
    yield* this.body;
  }
}
