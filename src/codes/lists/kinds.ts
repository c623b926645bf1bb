import { FileError } from '../../listing/file-error.js';
import { TO_CSV, type Encoding } from './types.js';

/** Bytes at the beginning that tell what a file is. */
const HEAD_BYTES = 256 * 1024;

const TO_XLSX = 'Save it in Excel as .xlsx or CSV (UTF-8), and check that file.';

type FileKind = readonly [what: string, remedy: string];

/** @throws FileError that names the kind of a binary file */
export function refuseBinary(bytes: Buffer, encoding: Encoding): void {
  const head = bytes.subarray(0, HEAD_BYTES);
  const start = head.toString('latin1', 0, 8);
  const isBinary = !encoding.startsWith('utf-16') && !isMostlyText(head);
  // A PDF may be text at its beginning. A code may begin like an archive.
  if (!isBinary && !start.startsWith('%PDF-')) return;
  const [what, remedy] = binaryKind(start, head);
  throw new FileError(`this is ${what}, not a list of codes`, remedy);
}

function binaryKind(start: string, head: Buffer): FileKind {
  if (start.startsWith('%PDF-')) return ['a PDF document', 'Export the codes as CSV or text.'];
  if (start.startsWith(ZIP)) return zipKind(head);
  if (start.startsWith('\xd0\xcf\x11\xe0')) return oldOfficeKind(head);
  return ['binary data', 'Unpack it, or export the codes as CSV, JSON or text, one a line.'];
}

const ZIP = 'PK\x03\x04';

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
