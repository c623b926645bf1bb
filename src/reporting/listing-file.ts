import { csvNumber, PLAIN_CSV, type CsvDialect } from '../domain/csv.js';
import { columnsFor, type Listing, type ListingColumn, type Value } from '../listing/listing.js';
import { exportChunks, type ExportFormat } from './export.js';

/** PostgreSQL's type of the columns of a listing that are not text. */
const TYPES: Readonly<Record<string, string>> = {
  id: 'bigint',
  count: 'bigint',
  number: 'bigint',
  milliseconds: 'bigint',
  percent: 'numeric(18,2)',
  money: 'numeric(14,2)',
  texts: 'text[]',
  moment: 'timestamp with time zone',
};

/** Writes rows of a listing as a file, in chunks. @param batches rows, in pages */
export async function* listingChunks<Row, Db>(
  listing: Pick<Listing<Row, Db>, 'columns'>,
  batches: AsyncIterable<readonly Row[]>,
  format: ExportFormat,
  dialect: CsvDialect = PLAIN_CSV,
): AsyncGenerator<string | Uint8Array, void, undefined> {
  const columns = columnsFor(listing, 'files');
  const exported = {
    columns: columns.map(({ name, type }) => ({ name, type: TYPES[type] ?? 'text' })),
    batches: textRows(columns, batches, dialect),
  };
  yield* exportChunks(exported, format, { raw: false, dialect });
}

async function* textRows<Row>(
  columns: readonly ListingColumn<Row>[],
  batches: AsyncIterable<readonly Row[]>,
  dialect: CsvDialect,
): AsyncGenerator<(string | null)[][], void, undefined> {
  for await (const rows of batches) {
    yield rows.map((row) =>
      columns.map(({ value, isNumber }) => {
        const text = textOf(value(row));
        return text !== null && isNumber?.(row) === true ? csvNumber(text, dialect) : text;
      }),
    );
  }
}

/** The value in PostgreSQL's text form. */
function textOf(value: Value): string | null {
  if (value instanceof Date) {
    return value
      .toISOString()
      .replace('T', ' ')
      .replace(/\.?0*Z$/, '+00');
  }
  if (typeof value === 'object' && value !== null) return `{${value.map(elementOf).join(',')}}`;
  return value === null ? null : String(value);
}

/** An element of an array, in quotes if PostgreSQL would quote it. */
function elementOf(text: string): string {
  return /^(?:null)?$|[\s"\\{},]/i.test(text) ? `"${text.replaceAll(/["\\]/g, '\\$&')}"` : text;
}
