import { IntakeError } from './error.js';
import type { Encoding } from './types.js';

const TO_CSV = 'Save it as CSV (UTF-8) and check that file.';
const UNPACK = 'Unpack it and check the list inside.';

/** First bytes of what people mistake for a list, as Latin-1 text. */
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
 * Refuses what is no text, and says what it is.
 * @throws IntakeError
 */
export function refuseBinary(head: Buffer, encoding: Encoding): void {
  const start = head.toString('latin1', 0, 4096);
  const kind = start.startsWith('PK\x03\x04')
    ? zipKind(head)
    : KINDS.find(([s]) => start.startsWith(s));
  // A code may begin like one of them; only a PDF may be mostly text.
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

/** One control character in fifty is damage to single lines, which are reported; more is no text. */
function isMostlyText(head: Buffer): boolean {
  let controls = 0;
  for (const byte of head) {
    if (byte < 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0c && byte !== 0x0d) controls++;
  }
  return controls * 50 <= head.length;
}
