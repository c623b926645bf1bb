import { isAscii, isUtf8 } from 'node:buffer';
import { open, type FileHandle } from 'node:fs/promises';
import { Readable, pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { errorCode } from '../domain/error-code.js';
import { FileError, TO_CSV, fileError, type FileProblems } from './types.js';
import type { Encoding } from './types.js';

const NO_FILE = ['there is no such file', 'Check the path.'] as const;
const NOT_READABLE = ['this user may not read it', 'Give the user read permission.'] as const;

const PROBLEMS: FileProblems = {
  ENOENT: NO_FILE,
  ENOTDIR: NO_FILE,
  EISDIR: ['is a folder, not a file', 'Name a file in it.'],
  EACCES: NOT_READABLE,
  EPERM: NOT_READABLE,
  ELOOP: ['its links form a loop', 'Name the file itself.'],
  EMFILE: ['too many files are open', 'Check fewer lists at once.'],
};

/** @throws FileError when the path can't be read */
export async function openSource(path: string): Promise<AsyncIterable<Uint8Array>> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, 'r');
    if ((await file.stat()).isDirectory()) {
      throw Object.assign(new Error('is a folder'), { code: 'EISDIR' });
    }
    return file.createReadStream({ highWaterMark: 64 * 1024 });
  } catch (error) {
    await file?.close();
    throw fileError(path, error, PROBLEMS, ['it can’t be read', 'Check the file and its disk.']);
  }
}

/** Bytes at the beginning that decide the format. */
export const HEAD_BYTES = 256 * 1024;

export interface Peeked {
  /** The first `HEAD_BYTES` or more, or all bytes if there are fewer. */
  readonly head: Buffer;
  /** True if `head` is all there is. */
  readonly whole: boolean;
  /** All bytes, from the beginning. Can be iterated once. Closes the source at its end. */
  readonly bytes: AsyncIterable<Uint8Array>;
  readonly close: () => Promise<void>;
}

/** Reads the beginning of a source. */
export async function peek(source: AsyncIterable<Uint8Array>): Promise<Peeked> {
  const iterator = source[Symbol.asyncIterator]();
  const close = async (): Promise<void> => {
    await iterator.return?.();
  };
  const parts: Uint8Array[] = [];
  let size = 0;
  let whole = false;
  while (size < HEAD_BYTES && !whole) {
    const next = await iterator.next();
    if (next.done === true) whole = true;
    else {
      parts.push(next.value);
      size += next.value.length;
    }
  }
  const head = Buffer.concat(parts);
  async function* bytes(): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      yield head;
      if (!whole) yield* { [Symbol.asyncIterator]: () => iterator };
    } finally {
      await close();
    }
  }
  return { head, whole, bytes: bytes(), close };
}

const MAX_UNPACKED_BYTES = 4 * 1024 ** 3;

export function isGzip(head: Buffer): boolean {
  return head[0] === 0x1f && head[1] === 0x8b;
}

/**
 * Decompresses gzip.
 * @param maxBytes limit of the content, so that a small file can't fill a disk or run for days
 * @throws FileError when the content is larger, or the file is broken
 */
export async function* gunzipped(
  source: AsyncIterable<Uint8Array>,
  maxBytes = MAX_UNPACKED_BYTES,
): AsyncGenerator<Uint8Array, void, undefined> {
  const gunzip = createGunzip({ chunkSize: 64 * 1024 });
  // `pipeline` requires a callback. Errors reach the loop below.
  pipeline(Readable.from(source), gunzip, () => undefined);
  let size = 0;
  try {
    for await (const bytes of gunzip as AsyncIterable<Buffer>) {
      size += bytes.length;
      if (size > maxBytes) {
        throw new FileError(
          `the compressed list expands to more than ${maxBytes} bytes`,
          'If that is correct, decompress it first and check the result.',
        );
      }
      yield bytes;
    }
  } catch (error) {
    const code = errorCode(error);
    if (!/^(?:Z_|ERR_BUFFER_TOO_LARGE)/.test(code)) throw error;
    throw new FileError(
      `the compressed list is ${code === 'Z_BUF_ERROR' ? 'cut off' : 'damaged'}`,
      'Copy or export it again. `gzip -t` checks it.',
      { cause: error },
    );
  } finally {
    gunzip.destroy();
  }
}

/** The characters 0x80 to 0x9F of Windows-1252. The five unassigned ones stay unchanged. */
const WINDOWS_1252 = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ';

interface EncodingFound {
  readonly encoding: Encoding;
  /** Length of the byte order mark in bytes. */
  readonly bomLength: number;
  readonly reason: string;
}

export function findEncoding({ head, whole }: Peeked): EncodingFound {
  if (head[0] === 0xef && head[1] === 0xbb && head[2] === 0xbf) return withBom('utf-8', 3);
  if (head[0] === 0xff && head[1] === 0xfe) return withBom('utf-16le', 2);
  if (head[0] === 0xfe && head[1] === 0xff) return withBom('utf-16be', 2);
  const utf16 = findUtf16(head);
  if (utf16 !== null) {
    const reason = `The encoding is ${utf16}: there is no byte order mark, but every second byte is zero.`;
    return { encoding: utf16, bomLength: 0, reason };
  }
  if (isUtf8(whole ? head : head.subarray(0, lastCharacterEnd(head)))) {
    const reason = 'The encoding is utf-8, since the bytes are valid utf-8.';
    return { encoding: 'utf-8', bomLength: 0, reason };
  }
  const reason = 'The encoding is probably windows-1252, since the bytes aren’t valid utf-8.';
  return { encoding: 'windows-1252', bomLength: 0, reason };
}

function withBom(encoding: Encoding, bomLength: number): EncodingFound {
  return { encoding, bomLength, reason: `The encoding is ${encoding}, by its byte order mark.` };
}

/** Recognizes UTF-16 of mostly Latin text, where every second byte is zero and hardly any other. */
function findUtf16(bytes: Buffer): 'utf-16le' | 'utf-16be' | null {
  let even = 0;
  let odd = 0;
  for (const [index, byte] of bytes.entries()) {
    if (byte !== 0) continue;
    if (index % 2 === 0) even++;
    else odd++;
  }
  const many = bytes.length * 0.3;
  const few = bytes.length * 0.02;
  if (odd > many && even <= few) return 'utf-16le';
  if (even > many && odd <= few) return 'utf-16be';
  return null;
}

/** The end of the last complete UTF-8 character. */
function lastCharacterEnd(bytes: Buffer): number {
  const end = bytes.length;
  for (let back = 1; back <= Math.min(3, end); back++) {
    const byte = bytes[end - back] ?? 0;
    if (byte < 0x80) return end;
    if (byte >= 0xc0) return (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) > back ? end - back : end;
  }
  return end;
}

/** Decodes bytes piece by piece; a character may span two pieces. */
type Decoder = (bytes: Uint8Array, isLast: boolean) => string;

/** @param notes receives a sentence for each tolerated fault */
export function decoderOf(encoding: Encoding, notes: string[]): Decoder {
  if (encoding === 'utf-8') return utf8Decoder(notes);
  if (encoding === 'windows-1252') return fromWindows1252;
  const decoder = new TextDecoder(encoding, { ignoreBOM: true });
  return (bytes, isLast) => decoder.decode(bytes, { stream: !isLast });
}

/**
 * Handles files whose first invalid UTF-8 comes late. If everything before it was ASCII, the rest is read as
 * Windows-1252. Otherwise invalid bytes become U+FFFD, which no code may contain.
 */
function utf8Decoder(notes: string[]): Decoder {
  let rest = Buffer.alloc(0);
  let onlyAscii = true;
  let isLatin = false;
  let isDamaged = false;
  return (piece, isLast) => {
    if (isLatin) return fromWindows1252(piece);
    const all = rest.length === 0 ? asBuffer(piece) : Buffer.concat([rest, piece]);
    const bytes = isLast ? all : all.subarray(0, lastCharacterEnd(all));
    rest = Buffer.from(all.subarray(bytes.length));
    if (onlyAscii && isAscii(bytes)) return bytes.toString('latin1');
    if (!isUtf8(bytes)) {
      if (onlyAscii) {
        isLatin = true;
        notes.push(
          'From the first byte that is not valid utf-8, the list is read as windows-1252.',
        );
        return fromWindows1252(all);
      }
      if (!isDamaged) notes.push('Some bytes are not valid utf-8: they are read as \uFFFD.');
      isDamaged = true;
    }
    onlyAscii = false;
    return bytes.toString('utf8');
  };
}

// In several supported versions, Node's TextDecoder reads this encoding as Latin-1.
function fromWindows1252(bytes: Uint8Array): string {
  return asBuffer(bytes)
    .toString('latin1')
    .replaceAll(/[\x80-\x9f]/g, (char) => WINDOWS_1252[char.charCodeAt(0) - 0x80] ?? char);
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const TO_XLSX = 'Save it in Excel as .xlsx or CSV (UTF-8), and check that file.';
const UNPACK = 'Unpack it and check the list inside.';

type FileKind = readonly [start: string, what: string, remedy: string];

/** Files that people mistake for a list, by their first bytes as Latin-1 text. */
const KINDS: readonly FileKind[] = [
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

/** @throws FileError that names the kind of a binary file */
export function refuseBinary(head: Buffer, encoding: Encoding): void {
  const start = head.toString('latin1', 0, 4096);
  const kind = start.startsWith(ZIP)
    ? zipKind(head)
    : start.startsWith('\xd0\xcf\x11\xe0')
      ? oldOfficeKind(head)
      : KINDS.find(([firstBytes]) => start.startsWith(firstBytes));
  // Text is refused only as a PDF: a code may begin with the other characters too.
  if (kind !== undefined && (kind[0] === '%PDF-' || !isMostlyText(head))) {
    throw new FileError(`this is ${kind[1]}, not a list of codes`, kind[2]);
  }
  if (/^(?:\xff\xfe\0\0|\0\0\xfe\xff)/.test(start)) {
    throw new FileError('the text is encoded as UTF-32', 'Save it as UTF-8.');
  }
  if (!encoding.startsWith('utf-16') && !isMostlyText(head)) {
    throw new FileError(
      'this is binary data, not a list of codes',
      'Export the codes as CSV, JSON or text, one a line.',
    );
  }
}

const ZIP = 'PK\x03\x04';

/** Whether the bytes begin like an Excel workbook. */
export function isWorkbook(head: Buffer): boolean {
  const text = head.toString('latin1');
  return text.startsWith(ZIP) && /\[Content_Types\]\.xml|xl\//.test(text);
}

function zipKind(head: Buffer): FileKind {
  if (isWorkbook(head)) return [ZIP, 'an Excel workbook', 'Leave --input-format out.'];
  const text = head.toString('latin1');
  if (text.includes('opendocument.spreadsheet')) return [ZIP, 'an OpenDocument table', TO_CSV];
  return [ZIP, 'a ZIP archive', UNPACK];
}

/** Excel stores workbooks with a password in a file of the old kind. */
function oldOfficeKind(head: Buffer): FileKind {
  const hasPassword = head.includes(Buffer.from('EncryptedPackage', 'utf16le'));
  return hasPassword
    ? ['', 'an Excel workbook with a password', `Remove the password. ${TO_XLSX}`]
    : ['', 'an Excel workbook of the old kind (.xls), or one with a password', TO_XLSX];
}

/** Up to one control character in fifty is damage to single lines, which are reported. More is binary. */
function isMostlyText(head: Buffer): boolean {
  let controls = 0;
  for (const byte of head) {
    if (byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0c && byte !== 0x0d) controls++;
  }
  return controls * 50 <= head.length;
}
