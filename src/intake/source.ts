import { isAscii, isUtf8 } from 'node:buffer';
import { open } from 'node:fs/promises';
import { Readable, pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { IntakeError, errorCode, shown } from './types.js';
import type { Encoding } from './types.js';

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
 * The bytes of a file or named pipe, read on demand. The file is closed at its end and when the reader
 * stops.
 * @throws IntakeError when the path can't be read
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

/** The beginning of a source. */
interface Head {
  readonly bytes: Buffer;
  /** It is the whole source. */
  readonly whole: boolean;
}

/** A source whose beginning can be read and will still be part of `read`. */
export class Peekable {
  readonly #source: AsyncIterator<Uint8Array>;
  #parts: Uint8Array[] = [];
  #size = 0;
  #ended = false;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** At least `size` bytes from the beginning, or all there are. */
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

  /** All bytes, from the beginning. */
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

  /** Closes the source. */
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
 * @param maxBytes largest size of the content in bytes, so that a small file can't fill a disk or run for days
 * @throws IntakeError when it unpacks to more, or is broken
 */
export async function* unpacked(
  source: Peekable,
  maxBytes = MAX_UNPACKED_BYTES,
): AsyncGenerator<Uint8Array, void, undefined> {
  const gunzip = createGunzip({ chunkSize: 64 * 1024 });
  // Errors reach the loop below; the callback is only there because it must be.
  pipeline(Readable.from(source.read()), gunzip, () => undefined);
  let size = 0;
  try {
    for await (const bytes of gunzip as AsyncIterable<Buffer>) {
      size += bytes.length;
      if (size > maxBytes) {
        throw new IntakeError(
          `the compressed list unpacks to more than ${maxBytes} bytes`,
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

/** The characters 0x80 to 0x9F of Windows-1252; its five unassigned bytes stay as they are. */
const WINDOWS_1252 = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ';

interface EncodingFound {
  readonly encoding: Encoding;
  /** Bytes of the byte order mark. */
  readonly mark: number;
  readonly reason: string;
}

/** Finds the encoding of a text from its byte order mark or its beginning. */
export function findEncoding({ bytes, whole }: Head): EncodingFound {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return marked('utf-8', 3);
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return marked('utf-16le', 2);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return marked('utf-16be', 2);
  const wide = findWide(bytes);
  if (wide !== null) {
    return {
      encoding: wide,
      mark: 0,
      reason: `The encoding is ${wide}: without a byte order mark, but every second byte is zero.`,
    };
  }
  const sound = isUtf8(whole ? bytes : bytes.subarray(0, soundEnd(bytes)));
  return sound
    ? { encoding: 'utf-8', mark: 0, reason: 'The encoding is utf-8, in which its bytes are valid.' }
    : {
        encoding: 'windows-1252',
        mark: 0,
        reason: "The encoding is taken for windows-1252, since the bytes aren't valid utf-8.",
      };
}

function marked(encoding: Encoding, mark: number): EncodingFound {
  return { encoding, mark, reason: `The encoding is ${encoding}, by its byte order mark.` };
}

/** Recognizes UTF-16 of mostly Latin text: zeros in every second byte and hardly any elsewhere. */
function findWide(bytes: Buffer): 'utf-16le' | 'utf-16be' | null {
  const zeros = [0, 0];
  bytes.forEach((byte, index) => {
    if (byte === 0) zeros[index % 2] = (zeros[index % 2] ?? 0) + 1;
  });
  const [even = 0, odd = 0] = zeros;
  const many = bytes.length * 0.3;
  const few = bytes.length * 0.02;
  if (odd > many && even <= few) return 'utf-16le';
  if (even > many && odd <= few) return 'utf-16be';
  return null;
}

/** The end of the last complete UTF-8 character. */
function soundEnd(bytes: Buffer): number {
  const end = bytes.length;
  for (let back = 1; back <= Math.min(3, end); back++) {
    const byte = bytes[end - back] ?? 0;
    if (byte < 0x80) return end;
    if (byte >= 0xc0) return (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) > back ? end - back : end;
  }
  return end;
}

/** Decodes bytes piece by piece; a character may span two pieces. */
export interface Decoder {
  decode(bytes: Uint8Array): string;
  /** The rest of the text. */
  end(): string;
  /** Faults that were tolerated, as sentences. */
  readonly notes: readonly string[];
}

/** A decoder for text whose byte order mark was removed. */
export function decoderOf(encoding: Encoding): Decoder {
  if (encoding === 'utf-8') return new Utf8Decoder();
  if (encoding === 'windows-1252') {
    return { decode: (bytes) => fromWindows1252(asBuffer(bytes)), end: () => '', notes: [] };
  }
  const decoder = new TextDecoder(encoding, { ignoreBOM: true });
  return {
    decode: (bytes) => decoder.decode(bytes, { stream: true }),
    end: () => decoder.decode(),
    notes: [],
  };
}

/**
 * Decodes UTF-8. A file may turn out to be something else after a million lines. If all text before
 * was ASCII, the rest is read as Windows-1252 and no row was misread. Otherwise the file mixes
 * encodings: characters that can't be read become U+FFFD, which no code may contain.
 */
class Utf8Decoder implements Decoder {
  readonly notes: string[] = [];
  #rest: Buffer = Buffer.alloc(0);
  #onlyAscii = true;
  #latin = false;
  #damaged = false;

  decode(bytes: Uint8Array): string {
    if (this.#latin) return fromWindows1252(asBuffer(bytes));
    const all = this.#rest.length === 0 ? asBuffer(bytes) : Buffer.concat([this.#rest, bytes]);
    const end = soundEnd(all);
    this.#rest = Buffer.from(all.subarray(end));
    return this.#text(all.subarray(0, end), all);
  }

  end(): string {
    const rest = this.#rest;
    this.#rest = Buffer.alloc(0);
    return this.#text(rest, rest);
  }

  /** @param all `bytes` with the beginning of an incomplete character at the end */
  #text(bytes: Buffer, all: Buffer): string {
    if (this.#onlyAscii && isAscii(bytes)) return bytes.toString('latin1');
    if (!isUtf8(bytes)) {
      if (this.#onlyAscii) {
        this.#latin = true;
        this.#rest = Buffer.alloc(0);
        this.notes.push('From the first byte that is not utf-8, the list is windows-1252.');
        return fromWindows1252(all);
      }
      if (!this.#damaged)
        this.notes.push('Some characters are not valid utf-8: they read as \uFFFD.');
      this.#damaged = true;
    }
    this.#onlyAscii = false;
    return bytes.toString('utf8');
  }
}

// Node's TextDecoder reads this encoding as Latin-1 in several of the supported versions.
function fromWindows1252(bytes: Buffer): string {
  return bytes
    .toString('latin1')
    .replaceAll(/[\x80-\x9f]/g, (char) => WINDOWS_1252[char.charCodeAt(0) - 0x80] ?? char);
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const TO_CSV = 'Save it as CSV (UTF-8) and check that file.';
const UNPACK = 'Unpack it and check the list inside.';

/** First bytes, as Latin-1 text, of files that people mistake for a list. */
const KINDS: readonly (readonly [start: string, what: string, remedy: string])[] = [
  ['\xd0\xcf\x11\xe0', 'an Excel workbook of the old kind', TO_CSV],
  ['7z\xbc\xaf', 'a 7z archive', UNPACK],
  ['Rar!', 'a RAR archive', UNPACK],
  ['BZh', 'compressed with bzip2', UNPACK],
  ['\xfd7zXZ', 'compressed with xz', UNPACK],
  ['\x28\xb5\x2f\xfd', 'compressed with zstd', UNPACK],
  ['\x1f\x8b', 'compressed twice', UNPACK],
  ['%PDF-', 'a PDF document', 'Export the codes as CSV or text.'],
  ['SQLite format 3\0', 'an SQLite database', 'Export the table as CSV.'],
  ['PAR1', 'a Parquet file', 'Export it as CSV.'],
];

/**
 * Refuses binary files and says what they are.
 * @throws IntakeError
 */
export function refuseBinary(head: Buffer, encoding: Encoding): void {
  const start = head.toString('latin1', 0, 4096);
  const kind = start.startsWith('PK\x03\x04')
    ? zipKind(head)
    : KINDS.find(([s]) => start.startsWith(s));
  // A code may begin with the same characters, and among these files only a PDF may be mostly text.
  if (kind !== undefined && (kind[0] === '%PDF-' || !isMostlyText(head))) {
    throw new IntakeError(`this is ${kind[1]}, not a list of codes`, kind[2]);
  }
  if (/^(?:\xff\xfe\0\0|\0\0\xfe\xff)/.test(start)) {
    throw new IntakeError('the text is encoded as UTF-32', 'Save it as UTF-8.');
  }
  if (!encoding.startsWith('utf-16') && !isMostlyText(head)) {
    throw new IntakeError(
      'this is binary data, not a list of codes',
      'Export the codes as CSV, JSON or text, one a line.',
    );
  }
}

function zipKind(head: Buffer): readonly [string, string, string] {
  const text = head.toString('latin1');
  if (/\[Content_Types\]\.xml|xl\//.test(text)) return ['PK', 'an Excel workbook', TO_CSV];
  if (text.includes('opendocument.spreadsheet')) return ['PK', 'an OpenDocument table', TO_CSV];
  return ['PK', 'a ZIP archive', UNPACK];
}

/** Up to one control character in fifty is damage to single lines, which are reported; more is binary. */
function isMostlyText(head: Buffer): boolean {
  let controls = 0;
  for (const byte of head) {
    if (byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0c && byte !== 0x0d) controls++;
  }
  return controls * 50 <= head.length;
}
