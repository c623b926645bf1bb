import { entriesOf, readText } from '../../../src/codes/lists/parse.js';
import type { Entry, List, ListOptions } from '../../../src/codes/lists/types.js';
import { cellMasker } from '../../../src/domain/redact.js';
import { UserError } from '../../../src/domain/user-error.js';

type Written = string | Uint8Array;
type Options = Partial<ListOptions>;

/** Reads a text as `readList` does, without its thread. */
export function parsed(bytes: Buffer, { name, keys = [], format, column }: ListOptions): List {
  const mask = cellMasker(keys);
  const reading = readText(bytes, { name, mask, format, column: column && mask(column) });
  const entries: Entry[] = [];
  const all = entriesOf(reading, mask);
  let next = all.next();
  for (; next.done !== true; next = all.next()) entries.push(next.value);
  return { name, layout: reading.layout, entries, ...next.value, workbook: null };
}

/** Reads a list. */
export function readAll(list: Written, options: Options = {}) {
  const bytes = Buffer.from(list as string);
  const { entries, layout, ...counts } = parsed(bytes, { name: 'stdin', ...options });
  return { layout, rows: entries, tally: { rows: entries.length, ...counts } };
}

/** The code of each row, or `line N: …` for a rejected one. */
export function codesOf(list: Written, options: Options = {}): string[] {
  const { rows } = readAll(list, options);
  return rows.map((entry) =>
    'code' in entry ? entry.code : `line ${entry.line}: ${entry.rejected}`,
  );
}

/** Problem and remedy of the error that reading the list throws. */
export function refusal(list: Written, options: Options = {}): string {
  try {
    readAll(list, options);
  } catch (error) {
    if (error instanceof UserError) return `${error.message} → ${error.remedy}`;
    throw error;
  }
  return 'was read';
}

/** A text in big-endian UTF-16. */
export function utf16be(text: string): Buffer {
  return Buffer.from(text, 'utf16le').swap16();
}

/** A code in the usual format. */
export function code(n: number): string {
  return `7f3d9a1c-52be-4e08-9a67-${String(n).padStart(12, '0')}`;
}
