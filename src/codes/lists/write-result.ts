import {
  csvHead,
  csvLine,
  csvNumber,
  escapeFormula,
  isAmount,
  PLAIN_CSV,
  uniqueNames,
  type CsvDialect,
} from '../../domain/csv.js';
import type { WorkbookColumn } from '../../listing/workbook-column.js';

export const RESULT_FORMATS = ['csv', 'json', 'ndjson', 'xlsx'] as const;
export type ResultFormat = (typeof RESULT_FORMATS)[number];

type Cell = string | number | null;

/** A line of a result. */
export interface ResultRow {
  /** Of the list. */
  readonly line: number;
  /** The record's own cells. Missing ones at the end are empty. */
  readonly columns: readonly string[];
  /** The cells of the added columns. Null: unknown. */
  readonly values: readonly Cell[];
}

const ROWS_PER_CHUNK = 500;

/**
 * A result in any format, in pieces: the columns of the list, then the added ones. A second `verdict` becomes `verdict_2`.
 * In a workbook prices are numbers, times are dates, and all else is text. In CSV, formulas get an apostrophe, which
 * reading the list removes again.
 * @param names of the list's own columns
 * @param dialect for CSV. Only added numbers get its decimal comma.
 */
export async function* resultPieces(
  format: ResultFormat,
  names: readonly string[],
  added: readonly WorkbookColumn[],
  rows: AsyncIterable<ResultRow>,
  dialect: CsvDialect = PLAIN_CSV,
): AsyncGenerator<string | Uint8Array, void, undefined> {
  const own = uniqueNames(names);
  const addedNames = uniqueNames(
    added.map(({ name }) => name),
    own,
  );
  const columns: readonly WorkbookColumn[] = [
    ...own.map((name) => ({ name, kind: 'text' as const })),
    ...added.map((column, at) => ({ ...column, name: addedNames[at] ?? column.name })),
  ];
  if (format === 'xlsx') {
    // Loaded on demand: only workbooks need its library.
    const { workbookChunks } = await import('../../listing/write-workbook.js');
    yield* workbookChunks(columns, cellsOf(rows, own.length));
    return;
  }
  const [open, between, close] = format === 'json' ? ['[\n', ',\n', '\n]\n'] : ['', '', ''];
  const csvCell = (cell: Cell, at: number): string | null =>
    safeCell(columns[at]?.kind === 'number' ? csvNumber(String(cell ?? ''), dialect) : cell);
  const lineOf = (cells: readonly Cell[]): string =>
    format === 'csv'
      ? csvLine(cells.map(csvCell), dialect.delimiter)
      : jsonObject(columns, cells) + (format === 'json' ? '' : '\n');
  let text =
    format === 'csv'
      ? csvHead(
          columns.map(({ name }) => safeCell(name)),
          dialect,
        )
      : open;
  let written = 0;
  for await (const cells of cellsOf(rows, own.length)) {
    text += (written > 0 ? between : '') + lineOf(cells);
    if (++written % ROWS_PER_CHUNK > 0) continue;
    yield text;
    text = '';
  }
  yield text + close;
}

/** @param width number of columns of the list */
async function* cellsOf(
  rows: AsyncIterable<ResultRow>,
  width: number,
): AsyncGenerator<readonly Cell[], void, undefined> {
  for await (const { columns, values } of rows) {
    const missing = Array.from({ length: Math.max(0, width - columns.length) }, () => '');
    yield [...columns.slice(0, width), ...missing, ...values];
  }
}

/** A cell that no spreadsheet runs as a formula. */
function safeCell(value: Cell): string | null {
  // A list doesn't distinguish an empty cell from a missing one.
  if (value === null || value === '') return null;
  const text = String(value).toWellFormed();
  return isAmount(text) ? text : escapeFormula(text);
}

/** Not via an object, which would sort names like `7` first and treat `__proto__` specially. */
function jsonObject(columns: readonly WorkbookColumn[], cells: readonly Cell[]): string {
  const members = columns.map(
    ({ name }, at) => `${JSON.stringify(name)}:${JSON.stringify(cells[at])}`,
  );
  return `{${members.join(',')}}`;
}
