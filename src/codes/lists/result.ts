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
import { VERDICT_TONES, type WorkbookColumn } from '../../listing/workbook-column.js';

export const RESULT_FORMATS = ['csv', 'json', 'ndjson', 'xlsx'] as const;
export type ResultFormat = (typeof RESULT_FORMATS)[number];

const ROWS_PER_CHUNK = 500;

export const RESULT_COLUMNS = [
  'verdict',
  'reason',
  'license_type',
  'item_id',
  'item_name',
  'price',
  'currency',
  'purchased_at',
  'supported_until',
  'support',
  'downloaded',
  'checked_at',
  'listed',
  'proof',
  'evidence',
] as const;

/** The values of these columns. Null: unknown, written as an empty cell or as `null` in JSON. */
export type Result = Readonly<Record<(typeof RESULT_COLUMNS)[number], string | number | null>>;

export interface ResultRow {
  /** The record's own cells. Missing ones at the end are empty. */
  readonly columns: readonly string[];
  readonly result: Result;
}

/** How workbooks show these columns; default: as text. Widths are in characters. */
const SHOWN: Partial<Record<keyof Result, Omit<WorkbookColumn, 'name'>>> = {
  verdict: { kind: 'text', width: 16, tones: VERDICT_TONES },
  reason: { kind: 'text', width: 50 },
  license_type: { kind: 'text', width: 14 },
  item_id: { kind: 'text', width: 12 },
  item_name: { kind: 'text', width: 32 },
  price: { kind: 'number' },
  currency: { kind: 'text', width: 10 },
  purchased_at: { kind: 'moment' },
  supported_until: { kind: 'moment' },
  support: { kind: 'text', width: 10 },
  downloaded: { kind: 'text', width: 12 },
  checked_at: { kind: 'moment' },
  listed: { kind: 'number', width: 8 },
  proof: { kind: 'text', width: 14 },
  evidence: { kind: 'text', width: 70 },
};

/** The columns that a result adds to a workbook. */
export const ADDED_COLUMNS: readonly WorkbookColumn[] = RESULT_COLUMNS.map((name) => ({
  kind: 'text',
  ...SHOWN[name],
  name,
}));

type Rows = Iterable<ResultRow> | AsyncIterable<ResultRow>;
type Cell = string | number | null;

/**
 * A result in any format, in pieces: the columns of the list, then `RESULT_COLUMNS`. A second `verdict` becomes
 * `verdict_2`. In a workbook prices are numbers, times are dates, and all else is text. In CSV, formulas get an
 * apostrophe, which `readList` removes again.
 * @param dialect for CSV. Only prices in `RESULT_COLUMNS` get its decimal comma.
 */
export async function* resultPieces(
  format: ResultFormat,
  columns: readonly string[],
  rows: Rows,
  dialect: CsvDialect = PLAIN_CSV,
): AsyncGenerator<string | Uint8Array, void, undefined> {
  const listNames = uniqueNames(columns);
  const resultNames = uniqueNames(RESULT_COLUMNS, listNames);
  if (format === 'xlsx') {
    yield* sheetPieces(listNames, resultNames, rows);
    return;
  }
  const names = [...listNames, ...resultNames];
  const priceIndex = listNames.length + RESULT_COLUMNS.indexOf('price');
  const csvCell = (cell: Cell, index: number): string | null =>
    safeCell(index === priceIndex ? csvNumber(String(cell ?? ''), dialect) : cell);
  const [open, between, close] = format === 'json' ? ['[\n', ',\n', '\n]\n'] : ['', '', ''];
  let text = format === 'csv' ? csvHead(names.map(safeCell), dialect) : open;
  let written = 0;
  for await (const row of rows) {
    const cells = cellsOf(row, listNames.length);
    if (written > 0) text += between;
    if (format === 'csv') text += csvLine(cells.map(csvCell), dialect.delimiter);
    else text += jsonObject(names, cells) + (format === 'json' ? '' : '\n');
    if (++written % ROWS_PER_CHUNK > 0) continue;
    yield text;
    text = '';
  }
  yield text + close;
}

async function* sheetPieces(
  listNames: readonly string[],
  resultNames: readonly string[],
  rows: Rows,
): AsyncGenerator<Uint8Array, void, undefined> {
  // Loaded on demand: only workbooks need its library.
  const { workbookChunks } = await import('../../listing/write-workbook.js');
  const columns = [
    ...listNames.map((name) => ({ name, kind: 'text' as const })),
    ...ADDED_COLUMNS.map((column, at) => ({ ...column, name: resultNames[at] ?? column.name })),
  ];
  async function* cells(): AsyncGenerator<readonly Cell[], void, undefined> {
    for await (const row of rows) yield cellsOf(row, listNames.length);
  }
  yield* workbookChunks(columns, cells());
}

/** @param width number of columns of the list */
function cellsOf({ columns, result }: ResultRow, width: number): readonly Cell[] {
  if (columns.length > width) {
    throw new RangeError(`a row has ${columns.length} cells for ${width} columns`);
  }
  const missing = Array.from({ length: width - columns.length }, () => '');
  return [...columns, ...missing, ...RESULT_COLUMNS.map((name) => result[name])];
}

/** A cell that no spreadsheet runs as a formula. */
function safeCell(value: Cell): string | null {
  // A list doesn't distinguish an empty cell from a missing one.
  if (value === null || value === '') return null;
  const text = String(value).toWellFormed();
  return isAmount(text) ? text : escapeFormula(text);
}

/** Not via an object, which would sort names like `7` first and treat `__proto__` specially. */
function jsonObject(names: readonly string[], cells: readonly Cell[]): string {
  const members = names.map((name, at) => `${JSON.stringify(name)}:${JSON.stringify(cells[at])}`);
  return `{${members.join(',')}}`;
}
