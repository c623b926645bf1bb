import { entriesOf, readingOf, readText } from '../../../src/codes/lists/parse.js';
import type { Entry, List, ListOptions } from '../../../src/codes/lists/types.js';
import { cellMasker } from '../../../src/domain/redact.js';
import { UserError } from '../../../src/domain/user-error.js';

type Written = string | Uint8Array;
type Options = Partial<ListOptions>;

/** Reads a text as `readList` does, without its thread. */
export function parsed(bytes: Buffer, { name, keys = [], format, column }: ListOptions): List {
  const mask = cellMasker(keys);
  const reading = readText(bytes, { name, mask, format, column: column && mask(column) });
  return { name, layout: reading.layout, ...collected(entriesOf(reading, mask)), workbook: null };
}

function collected(all: ReturnType<typeof entriesOf>) {
  const entries: Entry[] = [];
  let next = all.next();
  for (; next.done !== true; next = all.next()) entries.push(next.value);
  return { entries, ...next.value };
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
    return wordsOf(error);
  }
  return 'was read';
}

/** Problem and remedy of an error. */
export function wordsOf(error: unknown): string {
  if (error instanceof UserError) return `${error.message} → ${error.remedy}`;
  throw error;
}

/** Reads any list, also a workbook. */
export async function readBook(book: Buffer, options: Options = {}) {
  const mask = cellMasker(options.keys ?? []);
  const reading = await readingOf({ bytes: book, name: 'list.xlsx', ...options }, mask);
  const { layout, workbook } = reading;
  return { layout, workbook, ...collected(entriesOf(reading, mask)) };
}

/** A text in big-endian UTF-16. */
export function utf16be(text: string): Buffer {
  return Buffer.from(text, 'utf16le').swap16();
}

/** A code in the usual format. */
export function code(n: number): string {
  return `7f3d9a1c-52be-4e08-9a67-${String(n).padStart(12, '0')}`;
}
