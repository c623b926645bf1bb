import { readCodes } from '../../src/intake/read-codes.js';
import {
  FileError,
  type IntakeOptions,
  type IntakeRow,
  type Plan,
  type Tally,
  type UncheckedRow,
} from '../../src/intake/types.js';

/** The bytes in pieces of the given sizes, which repeat. */
export async function* pieces(
  bytes: Uint8Array,
  sizes: readonly number[] = [bytes.length],
): AsyncGenerator<Uint8Array, void, undefined> {
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = Math.max(1, sizes[turn % sizes.length] ?? 1);
    yield bytes.subarray(at, at + size);
    at += size;
    await Promise.resolve();
  }
}

type List = string | Uint8Array;
type Options = Partial<IntakeOptions> & { readonly sizes?: readonly number[] };

/** Reads a list to its end. */
export async function readAll(list: List, { sizes, ...options }: Options = {}) {
  const bytes = typeof list === 'string' ? Buffer.from(list) : list;
  const intake = await readCodes(pieces(bytes, sizes), { name: 'stdin', ...options });
  const rows: IntakeRow[] = [];
  for await (const batch of intake.rows) rows.push(...batch);
  return { layout: intake.layout, tally: intake.tally, rows };
}

/** The rows and counts of a text that a plan's reader gets in pieces of this size, or its error. */
export function readInPieces(plan: Plan, text: string, size: number) {
  const tally: Tally = { rows: 0, rejected: 0, blankLines: 0, notes: [] };
  const read = plan.newReader(tally);
  const rows: UncheckedRow[] = [];
  try {
    for (let at = 0; at < text.length; at += size)
      rows.push(...read(text.slice(at, at + size), false));
    rows.push(...read('', true));
  } catch (error) {
    return { error: String(error) };
  }
  return { rows, tally };
}

/** The code of each row, or `line N: …` for a rejected one. */
export async function codesOf(list: List, options: Options = {}): Promise<string[]> {
  const { rows } = await readAll(list, options);
  return rows.map((row) => ('code' in row ? row.code : `line ${row.line}: ${row.rejected}`));
}

/** Problem and remedy of the error that reading the list throws. */
export async function refusal(list: List, options: Options = {}): Promise<string> {
  try {
    await readAll(list, options);
  } catch (error) {
    if (error instanceof FileError) return `${error.message} → ${error.remedy}`;
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
