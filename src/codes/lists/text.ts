import { isAscii, isUtf8 } from 'node:buffer';
import { refused, TO_CSV, type Encoding } from './types.js';

/** Bytes at the beginning that tell what a file is. */
const HEAD_BYTES = 256 * 1024;

const TO_XLSX = 'Save it in Excel as .xlsx or CSV (UTF-8), and check that file.';

type FileKind = readonly [what: string, remedy: string];

/** @throws UserError that names the kind of a file that is no text */
export function refuseBinary(bytes: Buffer, encoding: Encoding): void {
  const head = bytes.subarray(0, HEAD_BYTES);
  const start = head.toString('latin1', 0, 8);
  const isBinary = !encoding.startsWith('utf-16') && !isMostlyText(head);
  // A PDF may be text at its beginning. A code may begin like an archive.
  if (!isBinary && ![PDF, GZIP].some((sign) => start.startsWith(sign))) return;
  const [what, remedy] = binaryKind(start, head);
  throw refused(`this is ${what}, not a list of codes`, remedy);
}

function binaryKind(start: string, head: Buffer): FileKind {
  if (start.startsWith(GZIP)) return ['a file compressed with gzip', 'Unpack it with `gunzip`.'];
  if (start.startsWith(PDF)) return ['a PDF document', 'Export the codes as CSV or text.'];
  if (start.startsWith(ZIP)) return zipKind(head);
  if (start.startsWith('\xd0\xcf\x11\xe0')) return oldOfficeKind(head);
  return ['binary data', 'Export the codes as Excel, CSV or text, one a line.'];
}

const ZIP = 'PK\x03\x04';
const GZIP = '\x1f\x8b';
const PDF = '%PDF-';

/** Whether the bytes begin like an Excel workbook. */
export function isWorkbook(bytes: Buffer): boolean {
  const text = bytes.toString('latin1', 0, HEAD_BYTES);
  return text.startsWith(ZIP) && /\[Content_Types\]\.xml|xl\//.test(text);
}

function zipKind(head: Buffer): FileKind {
  if (isWorkbook(head)) return ['an Excel workbook', 'Leave --input-format out.'];
  const text = head.toString('latin1');
  if (text.includes('opendocument.spreadsheet')) return ['an OpenDocument table', TO_CSV];
  return ['a ZIP archive', 'Unpack it and check the list inside.'];
}

/** Excel stores workbooks with a password in a file of the old kind. */
function oldOfficeKind(head: Buffer): FileKind {
  const hasPassword = head.includes(Buffer.from('EncryptedPackage', 'utf16le'));
  return hasPassword
    ? ['an Excel workbook with a password', `Remove the password. ${TO_XLSX}`]
    : ['an Excel workbook of the old kind (.xls), or one with a password', TO_XLSX];
}

/** Up to one control character in fifty is damage to single lines, which are reported. More is binary. */
function isMostlyText(head: Buffer): boolean {
  let controls = 0;
  for (const byte of head) {
    if (byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0c && byte !== 0x0d) controls++;
  }
  return controls * 50 <= head.length;
}

/** The characters 0x80 to 0x9F of Windows-1252. The five unassigned ones stay unchanged. */
const WINDOWS_1252 = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ';

export interface Decoded {
  readonly text: string;
  readonly encoding: Encoding;
  readonly bom: boolean;
  readonly reason: string;
  readonly notes: readonly string[];
}

/** Decodes a text in UTF-8, UTF-16 or Windows-1252, without its byte order mark. */
export function decode(bytes: Buffer): Decoded {
  const { encoding, bomLength, reason } = findEncoding(bytes);
  const content = bytes.subarray(bomLength);
  const found = { encoding, bom: bomLength > 0, reason, notes: [] };
  if (encoding.startsWith('utf-16')) {
    return { ...found, text: new TextDecoder(encoding, { ignoreBOM: true }).decode(content) };
  }
  if (isAscii(content)) return { ...found, text: content.toString('latin1') };
  const text = content.toString('utf8');
  if (isUtf8(content)) return { ...found, text };
  if (bomLength === 0 && isMostlyDamaged(text)) {
    return {
      ...found,
      text: fromWindows1252(content),
      encoding: 'windows-1252',
      reason: 'The encoding is probably windows-1252, since the bytes aren’t valid utf-8.',
    };
  }
  return { ...found, text, notes: ['Some bytes are not valid utf-8: they are read as \uFFFD.'] };
}

interface EncodingFound {
  readonly encoding: Encoding;
  /** Length of the byte order mark in bytes. */
  readonly bomLength: number;
  readonly reason: string;
}

const MARKS: readonly (readonly [mark: string, Encoding])[] = [
  ['\xef\xbb\xbf', 'utf-8'],
  ['\xff\xfe', 'utf-16le'],
  ['\xfe\xff', 'utf-16be'],
];

function findEncoding(bytes: Buffer): EncodingFound {
  const start = bytes.toString('latin1', 0, 3);
  const [mark = '', encoding = 'utf-8'] = MARKS.find(([one]) => start.startsWith(one)) ?? [];
  const why = mark === '' ? 'since the bytes are valid utf-8' : 'by its byte order mark';
  return { encoding, bomLength: mark.length, reason: `The encoding is ${encoding}, ${why}.` };
}

/** True if at least half of the characters beyond ASCII are bytes that were not valid UTF-8. */
function isMostlyDamaged(text: string): boolean {
  let [foreign, damaged] = [0, 0];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x80) continue;
    foreign++;
    if (code === 0xfffd) damaged++;
  }
  return damaged * 2 >= foreign;
}

/** The code unit of each byte. */
const UNITS = Uint16Array.from({ length: 256 }, (_, byte) =>
  byte >= 0x80 && byte <= 0x9f ? WINDOWS_1252.charCodeAt(byte - 0x80) : byte,
);

// In several supported versions, Node's TextDecoder reads this encoding as Latin-1.
function fromWindows1252(bytes: Buffer): string {
  let text = '';
  for (let start = 0; start < bytes.length; start += PIECE_BYTES) {
    const units = new Uint16Array(Math.min(PIECE_BYTES, bytes.length - start));
    for (let at = 0; at < units.length; at++) units[at] = UNITS[bytes[start + at] ?? 0] ?? 0;
    text += Buffer.from(units.buffer).toString('utf16le');
  }
  return text;
}

const PIECE_BYTES = 1024 * 1024;
