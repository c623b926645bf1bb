import { parseList } from '../../../src/codes/lists/parse-list.js';
import type { List, ListOptions } from '../../../src/codes/lists/types.js';
import { UserError } from '../../../src/domain/user-error.js';

type Written = string | Uint8Array;
type Options = Partial<ListOptions>;

/** Reads a list as `readList` does, without its thread. */
export async function parsed(bytes: Buffer, options: ListOptions): Promise<List> {
  const { layout, workbook, entries, end } = await parseList(bytes, options);
  const all = [...entries];
  const kept = workbook === null ? null : { ...workbook, bytes };
  return { name: options.name, layout, entries: all, ...end(), workbook: kept };
}

/** Reads a list. */
export async function readAll(list: Written, options: Options = {}) {
  const bytes = Buffer.from(list as string);
  const { entries, layout, ...counts } = await parsed(bytes, { name: 'stdin', ...options });
  return { layout, rows: entries, tally: { rows: entries.length, ...counts } };
}

/** The code of each row, or `line N: …` for a rejected one. */
export async function codesOf(list: Written, options: Options = {}): Promise<string[]> {
  const { rows } = await readAll(list, options);
  return rows.map((entry) =>
    'code' in entry ? entry.code : `line ${entry.line}: ${entry.rejected}`,
  );
}

/** Problem and remedy of the error that reading the list throws. */
export async function refusal(list: Written, options: Options = {}): Promise<string> {
  try {
    await readAll(list, options);
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
