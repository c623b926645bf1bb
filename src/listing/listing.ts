/** How a value is shown. Each face (terminal, page, file) formats it in its own way. */
export type ValueType =
  /** Number of the row, by which its own page is found. */
  | 'id'
  | 'seller'
  | 'state'
  | 'word'
  | 'count'
  | 'number'
  | 'percent'
  | 'moment'
  | 'milliseconds'
  /** In files a decimal number; in tables it has its currency behind it. */
  | 'money'
  /** Text from the marketplace or an upload: may be hostile. */
  | 'text'
  | 'texts'
  /** The same as `text`, of any length: at the terminal, below the row. */
  | 'long text'
  /** Text that may contain a purchase code: masked for viewers. */
  | 'secret'
  /** What the marketplace sent, as text: on pages, behind "Show". */
  | 'record'
  /** The address of a page of the web. */
  | 'web'
  /** Our own sentence, of any length. Commands stand in backticks. */
  | 'sentence';

export type Value = string | number | bigint | Date | readonly string[] | null;

export interface ListingColumn<Row> {
  /** The column's name in files and at the terminal; pages show it with a capital letter. */
  readonly name: string;
  readonly type: ValueType;
  readonly value: (row: Row) => Value;
  /** The path of the page about the value; null: none. */
  readonly link?: (row: Row) => string | null;
  /** Of a text column: true if the text in this row is a number, which follows the notation of a CSV file. */
  readonly isNumber?: (row: Row) => boolean;
  /** Absent: tables (at the terminal and on pages) and files. */
  readonly only?: 'tables' | 'files';
}

export interface ListingFilter {
  /** As in the option and in the query of the page. */
  readonly name: string;
  /** Completes "only …"; of an order, the whole help. */
  readonly about: string;
  /**
   * `since`: a day, from its start; `until`: a day, to its end. Both are read as ISO 8601 moments.
   * `flag`: `yes` or absent. `order`: the first choice if absent. `seller`: only where there are several.
   */
  readonly type: 'choice' | 'text' | 'number' | 'since' | 'until' | 'flag' | 'order' | 'seller';
  /** Of a choice and an order. */
  readonly choices?: readonly string[];
  /**
   * SQL that rows fulfil. Absent: `read` obeys the filter by itself.
   * @param parameter makes a value a parameter of the statement
   */
  readonly where?: (value: string, parameter: (value: unknown) => string) => string;
  /** In place of SQL, for rows that are read whole: whether a row fulfils it. */
  readonly matches?: (row: never, value: string) => boolean;
}

/** The filter by seller, of tables with the column `seller_id`. */
export const OF_SELLER: ListingFilter = {
  name: 'seller',
  about: 'rows of this seller',
  type: 'seller',
  where: (seller, parameter) => `seller_id = ${parameter(seller)}`,
};

/** SQL of all filters that are set. @param parameters of the statement; the values are appended */
export function conditionOf(
  filters: readonly ListingFilter[],
  values: FilterValues,
  parameters: unknown[],
): string {
  const conditions = filters.flatMap(({ name, where }) => {
    const value = values[name];
    if (value === undefined || where === undefined) return [];
    return [`(${where(value, (one) => `$${parameters.push(one)}`)})`];
  });
  return conditions.join(' AND ') || 'true';
}

export interface ListingPage {
  /** What `next` returned for the page before; null: the first page. */
  readonly from: bigint | null;
  readonly limit: number;
  /** A row of a table may stand for many; files have each. */
  readonly face: 'tables' | 'files';
}

/** The values of a listing's filters, by name. */
export type FilterValues = Readonly<Record<string, string | undefined>>;

/**
 * A list that people see at the terminal, on a page and in a file. It is described once;
 * `cli/listing.ts` prints it and `dashboard/listing.tsx` serves it. `Source` is what it is read from: mostly the store.
 */
export interface Listing<Row, Source> {
  /** In the plural, as in the command and the path of the page. */
  readonly name: string;
  /** One sentence. */
  readonly about: string;
  /** Said when there is no row at all. Commands stand in backticks. */
  readonly none: string;
  readonly columns: readonly ListingColumn<Row>[];
  readonly filters: readonly ListingFilter[];
  /** The rows are few, so that people see all at once. */
  readonly areFew?: boolean;
  readonly read: (
    source: Source,
    filters: FilterValues,
    page: ListingPage,
  ) => Promise<readonly Row[]>;
  /** Yields all rows that match, as they were at one moment. Absent: pages do, whose rows never change. */
  readonly readAll?: (
    source: Source,
    filters: FilterValues,
    size: number,
  ) => AsyncIterable<readonly Row[]>;
  /** How many rows match, each alone. @param most counting stops there */
  readonly count: (source: Source, filters: FilterValues, most: number) => Promise<number>;
  /** What JSON has of a row. Absent: all of it. */
  readonly json?: (row: Row) => object;
  /** Where the next page starts. @param last row of a page @param end rows up to and with it, from the first page on */
  readonly next: (last: Row, end: bigint) => bigint;
}

/** Yields all rows that match, in pages. @param size rows of a page */
export async function* pagesOf<Row, Source>(
  { read, readAll, next }: Listing<Row, Source>,
  source: Source,
  filters: FilterValues,
  {
    face,
    size,
    limit = Infinity,
  }: Omit<ListingPage, 'from' | 'limit'> & {
    readonly size: number;
    readonly limit?: number;
  },
): AsyncGenerator<readonly Row[], void, undefined> {
  if (readAll !== undefined) {
    let left = limit;
    for await (const rows of readAll(source, filters, Math.min(size, limit))) {
      yield rows.slice(0, left);
      left -= rows.length;
      if (left <= 0) return;
    }
    return;
  }
  let from: bigint | null = null;
  for (let end = 0; end < limit;) {
    const wanted = Math.min(size, limit - end);
    const rows: readonly Row[] = await read(source, filters, { from, limit: wanted, face });
    if (rows.length > 0) yield rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < wanted) return;
    end += rows.length;
    from = next(last, BigInt(end));
  }
}

/** The columns of tables, or of files. */
export function columnsFor<Row, Source>(
  { columns }: Pick<Listing<Row, Source>, 'columns'>,
  face: 'tables' | 'files',
): readonly ListingColumn<Row>[] {
  return columns.filter(({ only = face }) => only === face);
}

/** A colour that says how good or bad something is. */
export type Tone = 'good' | 'warn' | 'bad' | 'busy' | 'quiet';

const TONES: Readonly<Record<Tone, readonly string[]>> = {
  good: ['succeeded', 'valid', 'finished', 'live', 'current', 'alive'],
  warn: ['held', 'unproven', 'missing', 'stale', 'never'],
  bad: [
    'failed',
    'failing',
    'parked',
    'invalid',
    'no_longer_valid',
    'denied',
    'removed',
    'interrupted',
    'gone',
  ],
  busy: ['running', 'waiting'],
  quiet: [],
};

/** States whose word in the store says little to people. Files and `--json` keep the store's word. */
const WORDS: Readonly<Record<string, string>> = {
  held: 'removals held',
  never: 'never mirrored',
  parked: 'stopped',
  no_longer_valid: 'no longer valid',
};

/** The name of a list, a column or a filter, as people read it: `no longer valid`; `check` for `audit`. */
export function wordOf(name: string): string {
  return name.replaceAll(/[_-]/g, ' ').replace(/^audit/, 'check');
}

/** A state in words for people. */
export function stateWord(state: string): string {
  return Object.hasOwn(WORDS, state) ? (WORDS[state] ?? state) : state;
}

export function toneOf(state: string): Tone {
  const tones = Object.keys(TONES) as Tone[];
  return tones.find((tone) => TONES[tone].includes(state)) ?? 'quiet';
}
