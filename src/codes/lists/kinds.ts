import { FileError } from '../../listing/file-error.js';
import { TO_CSV, type Encoding } from './types.js';

/** Bytes at the beginning that tell what a file is. */
const HEAD_BYTES = 256 * 1024;

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
export function refuseBinary(bytes: Buffer, encoding: Encoding): void {
  const head = bytes.subarray(0, HEAD_BYTES);
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
export function isWorkbook(bytes: Buffer): boolean {
  const text = bytes.toString('latin1', 0, HEAD_BYTES);
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
