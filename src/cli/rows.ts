import { isExact, isoMoment } from '../export/values.js';
import { textsOf, type QueryAnswer, type QueryColumn } from '../store/read-only.js';
import { page, stdoutLook } from './console.js';
import type { TableOptions } from './options.js';
import { csv, safeJson } from './output/formats.js';
import {
  fits,
  RECORD_CHARACTERS,
  table,
  type TableCell,
  type TableColumn,
} from './output/table.js';
import { type Look, momentCell, plural } from './output/text.js';
import { writeAll } from './output/write.js';

export const FORMATS = ['table', 'csv', 'json', 'ndjson'] as const;
export type Format = (typeof FORMATS)[number];

/** Options of tables of rows. */
interface RowsOptions extends TableOptions {
  /** Short: the day, or the time if it was today; on a terminal only. */
  readonly moments?: 'whole' | 'short';
}

type Row = readonly (string | null)[];

/**
 * Writes the rows of an answer of any size to stdout, in bounded memory; a table through a pager.
 * @param vertical shows each field on a line of its own, uncut
 */
export async function writeRows(
  answer: QueryAnswer,
  format: Format,
  { vertical, pager, moments = 'whole' }: RowsOptions,
): Promise<void> {
  if (format === 'table') {
    await page(tableLines(answer, stdoutLook(), vertical, moments), { pager: pager ?? true });
  } else {
    await writeAll(process.stdout, linesOf(answer, format));
  }
}

function linesOf(answer: QueryAnswer, format: Exclude<Format, 'table'>): AsyncIterable<string> {
  switch (format) {
    case 'csv':
      return csvLines(answer);
    case 'json':
      return jsonLines(answer);
    case 'ndjson':
      return ndjsonLines(answer);
  }
}

function csvLines({ columns, rows }: QueryAnswer): AsyncIterable<string> {
  return csv(
    columns.map(({ name }) => name),
    rows,
    {
      numeric: columns.map(isNumeric),
      terminal: stdoutLook().columns !== null,
    },
  );
}

/** One array, one row on each line. */
async function* jsonLines({ columns, rows }: QueryAnswer): AsyncGenerator<string> {
  const encoder = new RowJson(columns);
  let before = '[\n  ';
  for await (const row of rows) {
    yield before + encoder.object(row);
    before = ',\n  ';
  }
  yield before.startsWith('[') ? '[]\n' : '\n]\n';
}

async function* ndjsonLines({ columns, rows }: QueryAnswer): AsyncGenerator<string> {
  const encoder = new RowJson(columns);
  for await (const row of rows) yield `${encoder.object(row)}\n`;
}

/** Rows after which a table gets a new header and new column widths. */
const PAGE_ROWS = 500;

async function* tableLines(
  { columns, rows }: QueryAnswer,
  look: Look,
  vertical: boolean | undefined,
  moments: 'whole' | 'short',
): AsyncGenerator<string> {
  if (columns.length === 0) return;
  const short = moments === 'short' && vertical !== true ? look : null;
  const shown = tableColumns(columns, short);
  let asRecords = vertical;
  let [lines, total, isCut]: [Row[], number, boolean] = [[], 0, false];
  const laidOut = (): string => {
    asRecords ??= !fits(lines, shown, look);
    isCut ||= asRecords && vertical !== true && lines.some((row) => row.some(isLong));
    const first = total - lines.length + 1;
    return table(lines, shown, look, { vertical: asRecords, isWhole: vertical === true, first });
  };
  for await (const row of rows) {
    lines.push(row);
    total++;
    if (lines.length < PAGE_ROWS) continue;
    yield laidOut();
    lines = [];
  }
  if (lines.length > 0 || total === 0) yield laidOut();
  // A pipe gets only the rows.
  if (look.columns === null) return;
  yield `(${plural(total, 'row')}${isCut ? '; --vertical shows long values whole' : ''})\n`;
}

function isLong(text: string | null): boolean {
  return text !== null && text.length > RECORD_CHARACTERS;
}

/** Makes table columns of a query's columns. @param short shortens moments for this look */
export function tableColumns(
  columns: readonly QueryColumn[],
  short: Look | null = null,
): TableColumn<Row>[] {
  return columns.map((column, index) => ({
    header: column.name,
    value: (row) => cellOf(row[index] ?? null, column.type, short),
    align: isNumeric(column) ? 'right' : 'left',
  }));
}

function isNumeric({ type }: Pick<QueryColumn, 'type'>): boolean {
  return type === 'number' || type === 'decimal';
}

/** Makes a cell of a value: whole numbers are never cut, moments have seconds, lists commas. */
export function cellOf(
  text: string | null,
  type: QueryColumn['type'],
  short: Look | null = null,
): TableCell {
  if (text === null) return null;
  if (isNumeric({ type }) && /^-?\d+$/.test(text)) return BigInt(text);
  if (type === 'texts') return (textsOf(text) as unknown[]).join(', ');
  if (type !== 'moment') return text;
  const at = short === null ? NaN : Date.parse(text);
  if (short !== null && !Number.isNaN(at)) return momentCell(new Date(at), new Date(), short);
  return text.replace(/(:\d\d)\.\d+/, '$1').replace(/\+00$/, 'Z');
}

/**
 * Writes rows of a query as JSON objects, one line each. Decimals are text with all their digits,
 * since money is no double; other numbers are numbers where every reader gets their exact value, else
 * text. Columns of one name get `_2`, `_3` and so on.
 */
export class RowJson {
  readonly #columns: readonly QueryColumn[];
  readonly #names: readonly string[];

  constructor(columns: readonly QueryColumn[]) {
    this.#columns = columns;
    this.#names = distinct(columns.map(({ name }) => name)).map((name) => JSON.stringify(name));
  }

  object(row: readonly (string | null)[]): string {
    const members = this.#columns.map(
      ({ type }, index) => `${this.#names[index]}:${valueOf(row[index] ?? null, type)}`,
    );
    return safeJson(`{${members.join(',')}}`);
  }
}

function valueOf(text: string | null, type: QueryColumn['type']): string {
  if (text === null) return 'null';
  switch (type) {
    case 'boolean':
      return text === 't' ? 'true' : 'false';
    case 'number':
      return isExact(text) ? text : JSON.stringify(text);
    case 'json':
      // As it is, since reading it would round its numbers. Within its texts line ends are escaped.
      return text.replaceAll(/[\t\r\n]/g, ' ');
    case 'texts':
      return JSON.stringify(textsOf(text));
    case 'moment':
      return JSON.stringify(isoMoment(text));
    case 'decimal':
    case 'text':
      return JSON.stringify(text);
  }
}

function distinct(names: readonly string[]): string[] {
  const taken = new Set<string>();
  return names.map((name) => {
    let free = name;
    for (let number = 2; taken.has(free); number++) free = `${name}_${number}`;
    taken.add(free);
    return free;
  });
}
