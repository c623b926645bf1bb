import { csvLine, guarded, isNumberText, uniqueNames, type CsvForm } from '../domain/csv.js';

export const RESULT_FORMATS = ['csv', 'json', 'ndjson'] as const;
export type ResultFormat = (typeof RESULT_FORMATS)[number];

/** Columns that a result adds to those of the list, in this order. */
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

export type ResultColumn = (typeof RESULT_COLUMNS)[number];

/** One line of a result. An unknown value is null: an empty cell, `null` in JSON. */
export interface ResultRow {
  /** The record's own cells; those missing at the end are empty. */
  readonly columns: readonly string[];
  readonly result: Readonly<Record<ResultColumn, string | number | null>>;
}

/** For CSV only. */
export interface ResultOptions extends CsvForm {
  /** Begin with a byte order mark, without which Excel reads UTF-8 wrongly. */
  readonly bom?: boolean;
}

/** Writes a result as text, in pieces and bounded memory. */
export interface ResultWriter {
  /** Names of all columns of the result, each once. */
  readonly columns: readonly string[];
  text(
    rows: Iterable<ResultRow> | AsyncIterable<ResultRow>,
  ): AsyncGenerator<string, void, undefined>;
}

const ROWS_AT_ONCE = 500;

/**
 * A writer of results: the list's own columns in their order, then `RESULT_COLUMNS`. If the list has a
 * column of the same name, as a result that is checked again does, the new one becomes `verdict_2`.
 *
 * In CSV, text that a spreadsheet would run as a formula gets an apostrophe in front, also codes that
 * begin with `-`; plain numbers, negative ones too, stay as they are. `readCodes` removes the apostrophe
 * again.
 * @param columns names of the list's own columns
 */
export function resultWriter(
  format: ResultFormat,
  columns: readonly string[],
  options: ResultOptions = {},
): ResultWriter {
  const own = uniqueNames(columns);
  const names = [...own, ...uniqueNames(RESULT_COLUMNS, own)];
  return {
    columns: names,
    text: (rows) =>
      format === 'csv' ? csvText(names, rows, options) : jsonText(format, names, rows),
  };
}

function cellsOf(row: ResultRow, width: number): (string | number | null)[] {
  const own = width - RESULT_COLUMNS.length;
  if (row.columns.length > own) {
    throw new RangeError(`a row has ${row.columns.length} cells for ${own} columns`);
  }
  return [
    ...row.columns,
    ...Array.from({ length: own - row.columns.length }, () => ''),
    ...RESULT_COLUMNS.map((name) => row.result[name]),
  ];
}

async function* csvText(
  names: readonly string[],
  rows: Iterable<ResultRow> | AsyncIterable<ResultRow>,
  options: ResultOptions,
): AsyncGenerator<string, void, undefined> {
  const line = (cells: readonly (string | number | null)[]): string =>
    csvLine(cells.map(safeCell), options);
  yield (options.bom === true ? '\uFEFF' : '') + line(names);
  for await (const batch of inBatches(rows)) {
    yield batch.map((row) => line(cellsOf(row, names.length))).join('');
  }
}

function safeCell(value: string | number | null): string | null {
  // The list does not distinguish an empty cell from none.
  if (value === null || value === '') return null;
  const text = String(value).toWellFormed();
  return isNumberText(text) ? text : guarded(text);
}

async function* jsonText(
  format: 'json' | 'ndjson',
  names: readonly string[],
  rows: Iterable<ResultRow> | AsyncIterable<ResultRow>,
): AsyncGenerator<string, void, undefined> {
  const value = (row: ResultRow): string => {
    const cells = cellsOf(row, names.length);
    // Not from an object: that would put names like `7` first and treat `__proto__` specially.
    const members = names.map((name, at) => `${JSON.stringify(name)}:${JSON.stringify(cells[at])}`);
    return `{${members.join(',')}}`;
  };
  const isArray = format === 'json';
  if (isArray) yield '[';
  let isFirst = true;
  for await (const batch of inBatches(rows)) {
    const text = batch.map(value).join(isArray ? ',\n' : '\n');
    const before = isArray ? (isFirst ? '\n' : ',\n') : '';
    yield isArray ? before + text : `${text}\n`;
    isFirst = false;
  }
  if (isArray) yield '\n]\n';
}

async function* inBatches(
  rows: Iterable<ResultRow> | AsyncIterable<ResultRow>,
): AsyncGenerator<ResultRow[], void, undefined> {
  let batch: ResultRow[] = [];
  for await (const row of rows) {
    batch.push(row);
    if (batch.length < ROWS_AT_ONCE) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
