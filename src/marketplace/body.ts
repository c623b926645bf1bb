import type { Readable, Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from 'node:zlib';

const MIB = 1024 * 1024;
/** A larger body needs the process's one large place. */
const LARGE_BYTES = 32 * MIB;
/** Some proxies compress what is compressed already. */
const MAX_LAYERS = 2;
const CHUNK = { chunkSize: 64 * 1024 };

/** A body is larger when compressed by no more than this. */
const OVERHEAD_BYTES = MIB;

/** The body has more bytes than allowed. Its message is that of `BodyLimits.tooLarge`. */
export class TooLarge extends Error {
  override name = 'TooLarge';
}

/** The body is large, and another one has the large place. */
class NeedsLargePlace extends Error {}

/** The body took longer than allowed. */
export class TookTooLong extends Error {
  override name = 'TookTooLong';
}

export interface BodyLimits {
  /** Most bytes to read, decompressed. */
  readonly maxBytes: number;
  /** Says that the body is larger, in a sentence; null: the rest is left out. */
  readonly tooLarge: string | null;
  /** Called for a body that becomes large; false: another one has the large place. Null: bodies are never large. */
  readonly takeLargePlace: (() => boolean) | null;
  /** Called as the body grows. */
  readonly onBytes?: ((bytes: number) => void) | undefined;
}

/**
 * Reads a body to one buffer, and decompresses it. The connection is closed as soon as the limit is passed.
 * @param encoding the header Content-Encoding
 * @param totalMs longest time
 * @returns null if the body is large, and another one has the large place
 * @throws {TooLarge | TookTooLong} the errors of the connection and of zlib
 */
export function readWhole(
  body: Readable,
  encoding: string,
  limits: BodyLimits,
  totalMs: number,
): Promise<Buffer | null> {
  const whole = new Whole(limits);
  return new Promise((resolve, reject) => {
    const streams = new Set<Readable>();
    const timer = setTimeout(() => end(new TookTooLong()), Math.max(0, totalMs));
    const end = (error: Error | null): void => {
      clearTimeout(timer);
      for (const stream of streams) stream.on('error', () => undefined).destroy();
      if (error === null) resolve(whole.buffer());
      else if (error instanceof NeedsLargePlace) resolve(null);
      else reject(error);
    };
    const add = (chunk: Buffer): void => {
      try {
        if (!whole.add(chunk)) end(null);
      } catch (error) {
        end(error as Error);
      }
    };
    // Nothing is paused: undici 7 throws an uncatchable error if a connection ends while it is
    // (https://github.com/nodejs/undici/issues/5360).
    const read = (source: Readable, codings: readonly string[], layers: number): void => {
      let decoder: Transform | null | undefined;
      let received = 0;
      let first: Buffer = Buffer.alloc(0);
      const decide = (): void => {
        const [coding, ...others] = layers === 0 ? [] : codings;
        decoder = decoderOf(first, coding ?? '');
        if (decoder === null) add(first);
        else {
          read(decoder, others, layers - 1);
          decoder.write(first);
        }
      };
      streams.add(source);
      source.on('data', (chunk: Buffer) => {
        // Compressed bytes may stand for nothing, and wait here for their decoder.
        received += chunk.length;
        if (received > limits.maxBytes + OVERHEAD_BYTES) return end(limitError(limits));
        if (decoder !== undefined) return decoder === null ? add(chunk) : void decoder.write(chunk);
        first = first.length === 0 ? chunk : Buffer.concat([first, chunk]);
        if (first.length >= 2) decide();
      });
      source.on('end', () => {
        if (decoder === undefined) decide();
        if (decoder === null) end(null);
        else decoder?.end();
      });
      source.on('error', end);
    };
    read(body, encoding.toLowerCase().split(',').toReversed(), MAX_LAYERS);
  });
}

/**
 * The decoder of a body; null if it is plain. Gzip is known by its first bytes, because servers send it without saying
 * so. Names that are no compression (`none`, `identity`, `utf-8`, `binary`) mean plain bytes.
 */
function decoderOf(first: Buffer, coding: string): Transform | null {
  if (first[0] === 0x1f && first[1] === 0x8b) return createGunzip(CHUNK);
  // JSON, whatever the header says.
  if (first.toString('latin1', 0, 2) === '{"') return null;
  if (coding.trim() === 'br') return createBrotliDecompress(CHUNK);
  if (coding.trim() !== 'deflate') return null;
  const isZlib = first[0] === 0x78 && first.length > 1 && first.readUInt16BE() % 31 === 0;
  return isZlib ? createInflate(CHUNK) : createInflateRaw(CHUNK);
}

function limitError({ tooLarge }: BodyLimits): TooLarge | null {
  return tooLarge === null ? null : new TooLarge(tooLarge);
}

/** A body as it grows. A large one is never twice in memory. */
class Whole {
  #chunks: Buffer[] = [];
  #size = 0;
  /** Has room for the largest body. The system provides memory only for the part that is written. */
  #large: Buffer | null = null;

  constructor(private readonly limits: BodyLimits) {}

  /** @returns false once no more is needed */
  add(chunk: Buffer): boolean {
    const { maxBytes, takeLargePlace } = this.limits;
    const isOver = this.#size + chunk.length > maxBytes;
    const error = isOver ? limitError(this.limits) : null;
    if (error !== null) throw error;
    const part = chunk.subarray(0, maxBytes - this.#size);
    const at = this.#size;
    this.#size += part.length;
    this.limits.onBytes?.(this.#size);
    if (this.#large !== null) part.copy(this.#large, at);
    else this.#chunks.push(part);
    if (this.#large === null && this.#size > LARGE_BYTES && takeLargePlace !== null) {
      if (!takeLargePlace()) throw new NeedsLargePlace();
      this.#grow(maxBytes);
    }
    return !isOver;
  }

  buffer(): Buffer {
    if (this.#large !== null) return this.#large.subarray(0, this.#size);
    return this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
  }

  #grow(maxBytes: number): void {
    const large = Buffer.allocUnsafeSlow(maxBytes);
    let at = 0;
    for (const chunk of this.#chunks) at += chunk.copy(large, at);
    this.#large = large;
    this.#chunks = [];
  }
}

/** The process's one place for a large body. Those who wait get it in the order of their calls. */
class LargePlace {
  #isTaken = false;
  readonly #waiting = new Set<() => void>();

  /** @returns false if it is taken */
  tryToTake(): boolean {
    const isFree = !this.#isTaken;
    this.#isTaken = true;
    return isFree;
  }

  /** @throws the signal's reason */
  async take(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.tryToTake()) return;
    await new Promise<void>((resolve, reject) => {
      const onTurn = (): void => {
        this.#waiting.delete(onTurn);
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      const onAbort = (): void => {
        this.#waiting.delete(onTurn);
        reject(signal.reason as Error);
      };
      this.#waiting.add(onTurn);
      signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  free(): void {
    const [next] = this.#waiting;
    this.#isTaken = next !== undefined;
    next?.();
  }
}

export const largePlace = new LargePlace();
