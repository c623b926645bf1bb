import { type QueryColumn, type QueryResult, textsOf } from '../db/read-only.js';
import type { CsvDialect } from '../domain/csv.js';
import { exportChunks } from '../reporting/export.js';
import { rowEncoder } from '../reporting/values.js';
import { checkDestination } from './out-file.js';
import { safeJson } from './output/formats.js';
import type { TableCell } from './output/table.js';
import { type FormatOptions, printRows, rowsDestination } from './rows.js';

/** Types of PostgreSQL that files have, as a query prints its columns. */
const EXPORTED_AS: Readonly<Record<QueryColumn['type'], string>> = {
  number: 'double precision',
  decimal: 'numeric',
  boolean: 'boolean',
  json: 'jsonb',
  texts: 'text[]',
  moment: 'timestamp with time zone',
  text: 'text',
};

/** Prints the rows of a query, or writes them to a file. */
export async function printQuery(
  { columns, batches }: QueryResult,
  options: FormatOptions,
  signal: AbortSignal,
): Promise<void> {
  const destination = rowsDestination(options);
  await checkDestination(destination);
  const exported = columns.map(({ name, type }) => ({ name, type: EXPORTED_AS[type] }));
  const shown = columns.map(({ name, type }, n) => ({
    header: name,
    value: (row: Row) => cellOf(row[n] ?? null, type),
    align: isNumeric(type) ? ('right' as const) : ('left' as const),
  }));
  const encode = rowEncoder(columns);
  const rows = {
    name: 'rows',
    batches,
    columns: () => shown,
    json: (row: Row) => safeJson(encode(row)),
    file: (all: QueryResult['batches'], format: 'csv' | 'parquet' | 'xlsx', dialect: CsvDialect) =>
      exportChunks({ columns: exported, batches: all }, format, { raw: false, dialect }),
    isCounted: true,
  };
  await printRows(rows, destination, options, signal);
}

type Row = readonly (string | null)[];

function isNumeric(type: QueryColumn['type']): boolean {
  return type === 'number' || type === 'decimal';
}

/** Converts a value of a query to a cell: integers become numbers, times lose fractions, lists get commas. */
function cellOf(text: string | null, type: QueryColumn['type']): TableCell {
  if (text === null) return null;
  if (isNumeric(type) && /^-?\d+$/.test(text)) return BigInt(text);
  if (type === 'texts') return (textsOf(text) as unknown[]).join(', ');
  if (type !== 'moment') return text;
  return text.replace(/(:\d\d)\.\d+/, '$1').replace(/\+00$/, 'Z');
}
