/** Reads lists: how a text is written, and the code of each record, whatever its format. Pure. */

import { unescapeFormula } from '../../domain/csv.js';
import { MASK } from '../../domain/secret.js';
import { quoted } from '../../listing/file-error.js';
import { readCell } from '../../marketplace/code.js';
import { readCsv, readLines, splitOf, type Split } from './csv.js';
import { isShortenedNumber, plainName, SHORTENED_NUMBER } from './kinds.js';
import { isBlank, isEmpty, planTable } from './table.js';
import { decode, isWorkbook, refuseBinary } from './text.js';
import {
  assertCells,
  masked,
  refused,
  wrongFile,
  type Entry,
  type Format,
  type Layout,
  type List,
  type ListOptions,
  type Mask,
  type Reading,
  type Row,
} from './types.js';

/**
 * Finds out how a list is written: an Excel workbook, or a text.
 * @param mask of the keys
 * @throws UserError when it is not a list of codes, it is too large, or the column of codes is unclear
 */
export async function readingOf(
  {
    bytes: { buffer, byteOffset, length },
    name,
    format,
    column,
    sheet,
    keys = [],
  }: Omit<ListOptions, 'signal'> & { readonly bytes: Uint8Array },
  mask: Mask,
): Promise<Reading> {
  const bytes = Buffer.from(buffer, byteOffset, length);
  const options = { name, format, column: column === undefined ? column : mask(column), mask };
  if (isWorkbook(bytes) && (format === undefined || format === 'xlsx')) {
    // Loaded on demand: only workbooks need its libraries.
    return (await import('./xlsx.js')).readXlsx(bytes, { ...options, sheet, keys });
  }
  if (sheet === undefined) return readText(bytes, options);
  throw refused(
    'there is no sheet in a list that is no Excel workbook',
    'Leave --sheet out, or name an Excel workbook (.xlsx).',
  );
}

interface TextOptions {
  readonly name: string;
  readonly format: Format | undefined;
  readonly column: string | undefined;
  readonly mask: Mask;
}

/**
 * Finds out how a text is written.
 * @throws UserError when it is not a list of codes, it is too large, or the column of codes is unclear; also while its rows
 *   are read
 */
export function readText(bytes: Buffer, options: TextOptions): Reading {
  const { name, format: requested, mask } = options;
  const { text, encoding, bom, reason, notes } = decode(bytes);
  refuseBinary(bytes, encoding);
  if (text.trim() === '') throw wrongFile('the list is empty');
  const split = splitOf(text);
  const { format, reason: formatReason } = findFormat(text, name, requested, split);
  const table = format === 'csv' ? readCsv(text, split) : readLines(text);
  const rows = masked(table.rows, mask);
  const only = format === 'csv' ? {} : { onlyName: 'code' };
  const { start, ...plan } = planTable(rows, { column: options.column, ...only });
  const reasons = [formatReason, reason, table.reason, ...plan.reasons];
  const { delimiter } = table;
  return {
    layout: { ...plan, format, encoding, bom, delimiter, reasons },
    start,
    rows,
    notes: () => [...notes, ...table.notes()],
    workbook: null,
  };
}

type TextFormat = Exclude<Format, 'xlsx'>;

/** The requested format, or that of the content, or that of the name. Excel saves tables as `.txt`. */
function findFormat(
  text: string,
  name: string,
  requested: Format | undefined,
  split: Split,
): { readonly format: TextFormat; readonly reason: string } {
  if (requested === 'xlsx')
    throw refused('this is not an Excel workbook', 'Leave --input-format out.');
  if (requested !== undefined) {
    return { format: requested, reason: `Read as ${requested}, as requested.` };
  }
  const start = text.slice(0, 4096);
  if (/^\s*<(?:!doctype|html|\?xml)/i.test(start)) {
    return { format: 'txt', reason: 'Read as txt, because it is a web page or XML.' };
  }
  const extension = /\.([a-z]+)$/i.exec(name)?.[1]?.toLowerCase() ?? '';
  const isJson = /^\s*(?:\[\s*["{[]|\{\s*["}])/.test(start);
  if (isJson || /^(?:nd)?json$|^jsonl(?:ines)?$/.test(extension)) {
    throw refused(
      'this is JSON, which is not read as a list',
      'Make text of it, one code a line: `jq -r ".[].code" list.json > codes.txt`.',
    );
  }
  if (['csv', 'tsv', 'tab', 'psv'].includes(extension)) {
    return { format: 'csv', reason: `Read as csv, because its name ends in ${quoted(extension)}.` };
  }
  return split.isFound
    ? { format: 'csv', reason: 'Read as csv, because its lines have several cells.' }
    : { format: 'txt', reason: 'Read as txt, because its lines have a single value.' };
}

/** What was skipped or tolerated in a list. */
type Tally = Pick<List, 'rejected' | 'blankLines' | 'notes'>;

/** Yields the entries of a list in its order. @returns what was skipped */
export function* entriesOf(
  { layout, start, rows, notes }: Reading,
  mask: Mask,
): Generator<Entry, Tally, undefined> {
  const header = layout.header ? plainName(layout.columns[layout.codeColumn] ?? '') : null;
  let [rejected, blankLines, repeated, index, cells] = [0, 0, 0, 0, 0];
  for (const row of rows) {
    assertCells((cells += row.cells.length));
    const isHeader = index++ < start;
    if (isBlank(row)) blankLines++;
    else if (isHeader) continue;
    // As in joined exports.
    else if (header !== null && plainName(row.cells[layout.codeColumn] ?? '') === header)
      repeated++;
    else {
      const entry = entryOf(row, layout, mask);
      if ('rejected' in entry) rejected++;
      yield entry;
    }
  }
  const more = repeated > 0 ? [repeatedNote(repeated)] : [];
  return { rejected, blankLines, notes: [...notes(), ...more] };
}

function repeatedNote(times: number): string {
  return times === 1
    ? 'The header is repeated once: that line is left out.'
    : `The header is repeated ${times} times: these lines are left out.`;
}

/** Reads the code of a row. */
function entryOf(row: Row, layout: Layout, mask: Mask): Entry {
  const { line } = row;
  const { codeColumn, format } = layout;
  const isCsv = format === 'csv';
  const cells = isCsv ? row.cells.map(unescapeFormula) : row.cells;
  const columns = fitToWidth(cells, layout);
  const reject = (rejected: string): Entry => ({ line, rejected, columns });
  const fault = (isCsv ? widthFault(row, cells, layout) : null) ?? row.faults?.[codeColumn];
  if (fault !== undefined) return reject(fault);
  const cell = row.cells[codeColumn] ?? '';
  // An apostrophe does not guard a formula if another one ends the cell: `readCell` removes such quotes.
  const read = readCell(isCsv && !/'\s*$/.test(cell) ? unescapeFormula(cell) : cell);
  if (!('code' in read))
    return reject(read.reason === 'several-codes' ? read.fault : `the code ${read.fault}`);
  const { code } = read;
  // `readCell` removes quotes around a key, while the cell still has them.
  if (mask(code).includes(MASK)) {
    const hidden = columns.map((text, index) => (index === codeColumn ? MASK : text));
    return {
      line,
      rejected: 'the code is an API key or a look-up token, which is masked here',
      columns: hidden,
    };
  }
  return isShortenedNumber(code) ? reject(SHORTENED_NUMBER) : { line, code, columns };
}

function widthFault(
  { lastLine }: Row,
  cells: readonly string[],
  { columns, codeColumn }: Layout,
): string | null {
  const extent =
    lastLine === undefined ? '' : ` and extends to line ${lastLine}: is a quote left open?`;
  // An extra separator may have moved the code to another column.
  if (!isEmpty(cells.slice(columns.length)))
    return `has ${cells.length} cells instead of ${columns.length}${extent}`;
  return codeColumn < cells.length ? null : `ends before the column of codes${extent}`;
}

/** At most one cell a column: joins surplus cells into the last one, so that no text is lost. */
function fitToWidth(cells: readonly string[], { columns, delimiter }: Layout): readonly string[] {
  const width = columns.length;
  if (cells.length <= width) return cells;
  const end = isEmpty(cells.slice(width)) ? width : cells.length;
  return [...cells.slice(0, width - 1), cells.slice(width - 1, end).join(delimiter ?? ' ')];
}
