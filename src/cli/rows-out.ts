import type { QueryAnswer, QueryColumn } from '../store/read-only.js';
import { stdoutLook } from './console.js';
import { csv, plural, table, type Look, type TableCell } from './output/index.js';
import { RowJson } from './row-json.js';

export const FORMATS = ['table', 'csv', 'json', 'ndjson'] as const;
export type Format = (typeof FORMATS)[number];

type Row = readonly (string | null)[];

/** An answer as lines of text, in bounded memory whatever its size. */
export function linesOf(answer: QueryAnswer, format: Format): AsyncIterable<string> {
  switch (format) {
    case 'csv':
      return csvLines(answer);
    case 'json':
      return jsonLines(answer);
    case 'ndjson':
      return ndjsonLines(answer);
    case 'table':
      return tableLines(answer, stdoutLook());
  }
}

function csvLines({ columns, rows }: QueryAnswer): AsyncIterable<string> {
  return csv(
    columns.map(({ name }) => name),
    rows,
    {
      numeric: columns.map(({ type }) => type === 'number'),
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

/** A table is laid out anew, header and all, for so many rows. */
const PAGE_ROWS = 500;

async function* tableLines({ columns, rows }: QueryAnswer, look: Look): AsyncGenerator<string> {
  if (columns.length === 0) return;
  let page: Row[] = [];
  let total = 0;
  for await (const row of rows) {
    page.push(row);
    total++;
    if (page.length < PAGE_ROWS) continue;
    yield pageOf(page, columns, look);
    page = [];
  }
  if (page.length > 0 || total === 0) yield pageOf(page, columns, look);
  // For people; a pipe gets the rows and nothing else.
  if (look.columns !== null) yield `(${plural(total, 'row')})\n`;
}

function pageOf(page: readonly Row[], columns: readonly QueryColumn[], look: Look): string {
  return table(
    page,
    columns.map(({ name, type }, index) => ({
      header: name,
      value: (row: Row) => cellOf(row[index] ?? null, type),
      align: type === 'number' ? ('right' as const) : ('left' as const),
    })),
    look,
  );
}

/** Whole numbers as such: the table never cuts them. */
function cellOf(text: string | null, type: QueryColumn['type']): TableCell {
  return text !== null && type === 'number' && /^-?\d+$/.test(text) ? BigInt(text) : text;
}
