import {
  conditionOf,
  type FilterValues,
  type Listing,
  type ListingFilter,
  type ListingPage,
} from './listing.js';

/** Sends SQL. */
interface Sends {
  readonly pool: {
    query(text: string, values: readonly unknown[]): Promise<{ readonly rows: readonly object[] }>;
  };
}

/** A table whose rows are numbered. */
interface NumberedTable<Row> {
  readonly table: string;
  /** The column of the number. */
  readonly key: string;
  /** SQL of the columns to read. */
  readonly columns: string;
  /** SQL that every row fulfils. */
  readonly always?: string;
  readonly filters: readonly ListingFilter[];
  readonly rowOf: (row: never) => Row;
}

/** Reads and counts the rows of a table, newest first. */
export function newestFirst<Row>({
  table,
  key,
  columns,
  always = 'true',
  filters,
  rowOf,
}: NumberedTable<Row>) {
  const matching = (values: FilterValues, parameters: unknown[]): string =>
    `${table} WHERE ${always} AND ${conditionOf(filters, values, parameters)}`;
  return {
    async read({ pool }: Sends, values: FilterValues, { from, limit }: ListingPage) {
      const parameters: unknown[] = [limit, from];
      // Not in the order of the key for one seller: that could pass hundreds of thousands of others' rows.
      const order = values['seller'] === undefined ? key : `${key} + 0`;
      const { rows } = await pool.query(
        `SELECT ${columns} FROM ${table} WHERE ${key} IN (
           SELECT ${key} FROM ${matching(values, parameters)} AND ($2::bigint IS NULL OR ${key} < $2)
            ORDER BY ${order} DESC LIMIT $1) ORDER BY ${key} DESC`,
        parameters,
      );
      return rows.map((row) => rowOf(row as never));
    },
    async count({ pool }: Sends, values: FilterValues, most: number) {
      const parameters: unknown[] = [most];
      const { rows } = await pool.query(
        `SELECT count(*)::int AS rows FROM (SELECT FROM ${matching(values, parameters)} LIMIT $1) c`,
        parameters,
      );
      return (rows[0] as { readonly rows: number }).rows;
    },
  };
}

/** Lists rows that are few, so that all are read for each page. @param readRows all, in their order */
export function fewRows<Row, Source>(
  filters: readonly ListingFilter[],
  readRows: (source: Source) => Promise<readonly Row[]>,
): Pick<Listing<Row, Source>, 'filters' | 'areFew' | 'read' | 'count' | 'next'> {
  const matching = async (source: Source, values: FilterValues): Promise<readonly Row[]> => {
    const rows = await readRows(source);
    return rows.filter((row) =>
      filters.every(({ name, matches }) => {
        const value = values[name];
        return value === undefined || (matches?.(row as never, value) ?? true);
      }),
    );
  };
  return {
    filters,
    areFew: true,
    next: (_, end) => end,
    async read(source, values, { from, limit }) {
      const start = Number(from ?? 0n);
      return (await matching(source, values)).slice(start, start + limit);
    },
    async count(source, values, most) {
      return Math.min(most, (await matching(source, values)).length);
    },
  };
}

/** The filter by a state or another word of a fixed set, in the column of its name. */
export function wordFilter(name: string, about: string, choices: readonly string[]): ListingFilter {
  return {
    name,
    about,
    type: 'choice',
    choices,
    where: (value, parameter) => `${name}::text = ${parameter(value)}`,
  };
}

/** A row with the names of its columns in camel case. */
export function camelCased(row: object): never {
  const entries = Object.entries(row).map(([name, value]) => [
    name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
    value as unknown,
  ]);
  return Object.fromEntries(entries) as never;
}
