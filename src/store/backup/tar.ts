import { BackupError } from './format.js';

/** Everything in a tar archive comes in blocks of this size. */
const BLOCK = 512;
const CHECKSUM = { at: 148, length: 8 };
/** No file of ours is larger; one that claims to be is not read into memory. */
const LARGEST_FILE = 64 * 1024 * 1024;

/** A file of an archive, whole. */
export interface TarFile {
  readonly name: string;
  readonly data: Buffer;
}

/** A file as it stands in an archive: POSIX ustar, for its owner's eyes only. */
export function tarFile({ name, data }: TarFile, modified: Date): Buffer {
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, length: number): void => {
    header.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1');
  };
  header.write(name, 0, 100, 'latin1');
  octal(0o600, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(data.length, 124, 12);
  octal(Math.floor(modified.getTime() / 1000), 136, 12);
  header.write('0', 156, 'latin1');
  header.write('ustar\u000000', 257, 'latin1');
  octal(checksumOf(header), CHECKSUM.at, CHECKSUM.length);
  return Buffer.concat([header, data, Buffer.alloc(paddingOf(data.length))]);
}

/** The end of an archive. */
export const TAR_END: Buffer = Buffer.alloc(2 * BLOCK);

/**
 * The files of an archive that `tarFile` wrote, one at a time in memory.
 * @throws {BackupError} when it is none, or is cut off
 */
export async function* readTar(
  bytes: AsyncIterable<Buffer>,
): AsyncGenerator<TarFile, void, undefined> {
  const source = new Blocks(bytes);
  try {
    for (;;) {
      const header = await source.take(BLOCK);
      if (header.every((byte) => byte === 0)) break;
      const { name, size } = readHeader(header);
      const data = await source.take(size);
      await source.take(paddingOf(size));
      yield { name, data };
    }
    await source.drain();
  } finally {
    await source.close();
  }
}

function readHeader(header: Buffer): { name: string; size: number } {
  const text = (at: number, length: number): string =>
    header.toString('latin1', at, at + length).replace(/\0.*$/s, '');
  const checksum = Number.parseInt(text(CHECKSUM.at, CHECKSUM.length), 8);
  const size = Number.parseInt(text(124, 12), 8);
  if (checksum !== checksumOf(header) || !(size >= 0 && size <= LARGEST_FILE)) {
    throw BackupError.damaged('it is no archive that this program wrote');
  }
  return { name: text(0, 100), size };
}

/** The sum of the header's bytes, those of the checksum itself counted as spaces. */
function checksumOf(header: Buffer): number {
  const end = CHECKSUM.at + CHECKSUM.length;
  let sum = CHECKSUM.length * 0x20;
  header.forEach((byte, at) => {
    if (at < CHECKSUM.at || at >= end) sum += byte;
  });
  return sum;
}

function paddingOf(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK;
}

/** Bytes in pieces of the length that is asked for. */
class Blocks {
  readonly #source: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(bytes: AsyncIterable<Buffer>) {
    this.#source = bytes[Symbol.asyncIterator]();
  }

  async take(length: number): Promise<Buffer> {
    const pieces = [this.#rest];
    let have = this.#rest.length;
    while (have < length) {
      const next = await this.#source.next();
      if (next.done === true) throw BackupError.damaged('it ends too early');
      pieces.push(next.value);
      have += next.value.length;
    }
    const all = pieces.length === 1 ? this.#rest : Buffer.concat(pieces, have);
    this.#rest = all.subarray(length);
    return all.subarray(0, length);
  }

  /** To the end, where what is compressed is checked as a whole. */
  async drain(): Promise<void> {
    while ((await this.#source.next()).done !== true);
  }

  async close(): Promise<void> {
    await this.#source.return?.();
  }
}
