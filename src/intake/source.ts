import { open } from 'node:fs/promises';
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { errorCode, IntakeError, shown } from './error.js';

const PROBLEMS: Readonly<Record<string, readonly [problem: string, remedy: string]>> = {
  ENOENT: ['there is no such file', 'Check the path.'],
  ENOTDIR: ['there is no such file', 'Check the path.'],
  EISDIR: ['is a folder, not a file', 'Name a file in it.'],
  EACCES: ['this user may not read it', 'Give the user leave to read it.'],
  EPERM: ['this user may not read it', 'Give the user leave to read it.'],
  ELOOP: ['its links lead in a circle', 'Name the file itself.'],
  EMFILE: ['too many files are open', 'Check fewer lists at once.'],
};

/**
 * The bytes of a file or named pipe, read as they are asked for. The file is closed at its end and
 * when the reader goes away.
 * @throws IntakeError when there is nothing to read at the path
 */
export async function openSource(path: string): Promise<AsyncIterable<Uint8Array>> {
  try {
    const file = await open(path, 'r');
    if ((await file.stat()).isDirectory()) {
      await file.close();
      throw Object.assign(new Error('is a folder'), { code: 'EISDIR' });
    }
    return file.createReadStream({ highWaterMark: 64 * 1024 });
  } catch (error) {
    const [problem, remedy] = PROBLEMS[errorCode(error)] ?? [
      `it can't be read (${errorCode(error) || 'for no known reason'})`,
      'Check the file and its disk.',
    ];
    throw new IntakeError(`${shown(path, 200)}: ${problem}`, remedy, { cause: error });
  }
}

/** The beginning of a source, looked at before it is read. */
export interface Head {
  readonly bytes: Buffer;
  /** There is nothing after it. */
  readonly whole: boolean;
}

/** A source whose beginning can be looked at without taking it. */
export class Peekable {
  readonly #source: AsyncIterator<Uint8Array>;
  #parts: Uint8Array[] = [];
  #size = 0;
  #ended = false;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** At least so many bytes from the beginning, or all there are. */
  async peek(size: number): Promise<Head> {
    while (this.#size < size && !this.#ended) {
      const next = await this.#source.next();
      if (next.done === true) this.#ended = true;
      else {
        this.#parts.push(next.value);
        this.#size += next.value.length;
      }
    }
    const bytes = Buffer.concat(this.#parts);
    this.#parts = [bytes];
    return { bytes, whole: this.#ended };
  }

  /** Everything, what was looked at included. */
  async *read(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      const parts = this.#parts;
      this.#parts = [];
      yield* parts;
      while (!this.#ended) {
        const next = await this.#source.next();
        if (next.done === true) this.#ended = true;
        else yield next.value;
      }
    } finally {
      await this.close();
    }
  }

  /** Lets go of the source. */
  async close(): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    await this.#source.return?.();
  }
}

const MAX_UNPACKED_BYTES = 4 * 1024 ** 3;

/** True when the bytes are the beginning of a gzip file. */
export function isGzip(head: Buffer): boolean {
  return head[0] === 0x1f && head[1] === 0x8b;
}

/**
 * The bytes inside a gzip file.
 * @param most bytes it may unpack to, so that a small file can't fill a disk or run for days
 * @throws IntakeError when it unpacks to more, or is broken
 */
export async function* unpacked(
  source: Peekable,
  most = MAX_UNPACKED_BYTES,
): AsyncGenerator<Uint8Array, void, undefined> {
  const gunzip = createGunzip({ chunkSize: 64 * 1024 });
  // The callback only takes note: what goes wrong reaches the loop below as well.
  pipeline(Readable.from(source.read()), gunzip, () => undefined);
  let size = 0;
  try {
    for await (const bytes of gunzip as AsyncIterable<Buffer>) {
      size += bytes.length;
      if (size > most) {
        throw new IntakeError(
          `the compressed list unpacks to more than ${most} bytes`,
          'If that is right, unpack it first and check the file that comes out.',
        );
      }
      yield bytes;
    }
  } catch (error) {
    throw explained(error);
  } finally {
    gunzip.destroy();
    await source.close();
  }
}

function explained(error: unknown): unknown {
  const code = errorCode(error);
  if (!/^(?:Z_|ERR_BUFFER_TOO_LARGE)/.test(code)) return error;
  const cut = code === 'Z_BUF_ERROR';
  return new IntakeError(
    `the compressed list ${cut ? 'ends in the middle' : 'is damaged'}`,
    'Copy or export it again; `gzip -t` tells whether it is whole.',
    { cause: error },
  );
}
