import {
  csvHead,
  csvLine,
  csvNumber,
  escapeFormula,
  isAmount,
  PLAIN_CSV,
  uniqueNames,
  type CsvDialect,
} from '../domain/csv.js';
import type { WorkbookColumn } from './write-workbook.js';

export const RESULT_FORMATS = ['csv', 'json', 'ndjson', 'xlsx'] as const;
export type ResultFormat = (typeof RESULT_FORMATS)[number];

export const RESULT_COLUMNS = [
  'verdict',
  'license_type',
  'item_id',
  'item_name',
  'price',
  'currency',
  'purchased_at',
  'supported_until',
  'support',
  'checked_at',
  'proof',
] as const;

/** The values of these columns. An unknown one is null: an empty cell, `null` in JSON. */
export type Result = Readonly<Record<(typeof RESULT_COLUMNS)[number], string | number | null>>;

export interface ResultRow {
  /** The record's own cells; those missing at the end are empty. */
  readonly columns: readonly string[];
  readonly result: Result;
}

const ROWS_AT_ONCE = 500;

const KINDS: Partial<Record<(typeof RESULT_COLUMNS)[number], WorkbookColumn['kind']>> = {
  price: 'number',
  purchased_at: 'moment',
  supported_until: 'moment',
  checked_at: 'moment',
};

/**
 * A result in any format, in chunks: in a workbook with prices as numbers, times as dates, all else as text.
 * @param dialect for CSV
 */
export async function* resultChunks(
  format: ResultFormat,
  columns: readonly string[],
  rows: AsyncIterable<ResultRow>,
  dialect: CsvDialect = PLAIN_CSV,
): AsyncGenerator<string | Uint8Array, void, undefined> {
  if (format !== 'xlsx') {
    yield* resultText(format, columns, rows, dialect);
    return;
  }
  // Only workbooks need the library for them.
  const { workbookChunks } = await import('./write-workbook.js');
  const own = uniqueNames(columns);
  const names = uniqueNames(RESULT_COLUMNS, own);
  const found = RESULT_COLUMNS.map((column, at) => {
    return { name: names[at] ?? column, kind: KINDS[column] ?? ('text' as const) };
  });
  async function* cells(): AsyncGenerator<readonly Cell[], void, undefined> {
    for await (const { columns: given, result } of rows) {
      yield [...own.map((_, at) => given[at] ?? ''), ...RESULT_COLUMNS.map((n) => result[n])];
    }
  }
  yield* workbookChunks(
    [...own.map((name) => ({ name, kind: 'text' as const })), ...found],
    cells(),
  );
}

/**
 * A result as text, in pieces: the columns of the list, then `RESULT_COLUMNS`; a second `verdict` becomes
 * `verdict_2`. In CSV, what a spreadsheet would run as a formula gets an apostrophe, which `readCodes`
 * takes off again; numbers stay as they are. Only prices of `RESULT_COLUMNS` get decimal commas.
 */
export async function* resultText(
  format: Exclude<ResultFormat, 'xlsx'>,
  columns: readonly string[],
  rows: Iterable<ResultRow> | AsyncIterable<ResultRow>,
  dialect: CsvDialect = PLAIN_CSV,
): AsyncGenerator<string, void, undefined> {
  const own = uniqueNames(columns);
  const names = [...own, ...uniqueNames(RESULT_COLUMNS, own)];
  const isCsv = format === 'csv';
  const [open, between, close] = format === 'json' ? ['[\n', ',\n', '\n]\n'] : ['', '', ''];
  let text = isCsv ? csvHead(names.map(safeCell), dialect) : open;
  let written = 0;
  for await (const { columns: given, result } of rows) {
    if (given.length > own.length) {
      throw new RangeError(`a row has ${given.length} cells for ${own.length} columns`);
    }
    const kept = own.map((_, at) => given[at] ?? '');
    const cells = [...kept, ...RESULT_COLUMNS.map((name) => result[name])];
    if (written > 0) text += between;
    if (isCsv) {
      const found = RESULT_COLUMNS.map((name) =>
        KINDS[name] === 'number' ? csvNumber(String(result[name] ?? ''), dialect) : result[name],
      );
      text += csvLine([...kept, ...found].map(safeCell), dialect.delimiter);
    } else text += jsonObject(names, cells) + (format === 'json' ? '' : '\n');
    if (++written % ROWS_AT_ONCE > 0) continue;
    yield text;
    text = '';
  }
  yield text + close;
}

type Cell = string | number | null;

function safeCell(value: Cell): string | null {
  // The list does not distinguish an empty cell from none.
  if (value === null || value === '') return null;
  const text = String(value).toWellFormed();
  return isAmount(text) ? text : escapeFormula(text);
}

/** Not made from an object: that would put names like `7` first and treat `__proto__` specially. */
function jsonObject(names: readonly string[], cells: readonly Cell[]): string {
  const members = names.map((name, at) => `${JSON.stringify(name)}:${JSON.stringify(cells[at])}`);
  return `{${members.join(',')}}`;
}
