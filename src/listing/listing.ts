/** How a value is shown. Each face (terminal, page, file) formats it in its own way. */
export type ValueType =
  /** Number of the row, by which its own page is found. */
  'id' | 'seller' | 'state' | 'word' | 'count' | 'moment' | 'milliseconds' | 'sentence';

export interface ListingColumn<Row> {
  /** The column's name in files and at the terminal; pages show it with a capital letter. */
  readonly name: string;
  readonly type: ValueType;
  readonly value: (row: Row) => string | number | bigint | Date | null;
}

export interface ListingFilter {
  readonly name: string;
  /** Completes "only …". */
  readonly about: string;
  readonly choices: readonly string[];
}

export interface ListingPage {
  /** Only rows with smaller numbers; null: the newest. */
  readonly before: bigint | null;
  readonly limit: number;
}

/** What filters a listing: by seller, and by the listing's own filters. */
export type FilterValues = Readonly<Record<string, string | undefined>> & {
  readonly seller?: string;
};

/**
 * A list that people see at the terminal, on a page and in a file, newest first. It is described once;
 * `cli/listing.ts` prints it and `dashboard/listing.tsx` serves it.
 */
export interface Listing<Row, Db> {
  /** In the plural, as in the command and the path of the page. */
  readonly name: string;
  /** One sentence. */
  readonly about: string;
  /** Said when there is no row at all. Commands stand in backticks. */
  readonly none: string;
  readonly columns: readonly ListingColumn<Row>[];
  readonly filters: readonly ListingFilter[];
  /** The number by which pages continue. */
  readonly numberOf: (row: Row) => bigint;
  readonly read: (db: Db, filters: FilterValues, page: ListingPage) => Promise<Row[]>;
}

/** A colour that says how good or bad something is. */
export type Tone = 'good' | 'warn' | 'bad' | 'busy' | 'quiet';

const TONES: Readonly<Record<Tone, readonly string[]>> = {
  good: ['succeeded', 'valid', 'finished', 'live', 'current', 'ok'],
  warn: ['held', 'unproven', 'missing', 'stale', 'paused', 'never'],
  bad: ['failed', 'failing', 'parked', 'invalid', 'denied', 'removed', 'interrupted'],
  busy: ['running', 'waiting'],
  quiet: [],
};

export function toneOf(state: string): Tone {
  const tones = Object.keys(TONES) as Tone[];
  return tones.find((tone) => TONES[tone].includes(state)) ?? 'quiet';
}
