/** A group of rows: how many there are, and the sum of their hashes. */
export interface Sum {
  readonly rows: number;
  /** Decimal digits. */
  readonly sum: string;
}
/** By bucket, or by the number in the key. */
export type Sums = ReadonlyMap<number, Sum>;

/** The column with a row's bucket. */
export const BUCKET = '_bucket';
/** The bucket of rows of an earlier version, which had no hashes. */
export const UNKNOWN_BUCKET = -1;

/** Rows with one of these values in a column. */
export interface Group {
  readonly column: string;
  readonly values: readonly number[];
  /** The group has at most this many rows, on either side. */
  readonly rows: number;
}

/** The rows that a delivery writes and removes, so that the target equals the source. */
export type Plan = 'same' | 'all' | Group;

/** One side of a comparison. */
export interface Side {
  /** Sums by bucket; within these buckets: by the number in the key. */
  sums(within: readonly number[] | null): Promise<Sums>;
}

/** More rows than this are not compared by their number: 50 MB of memory. */
const COMPARED_ROWS = 120_000;
/** Longer lists of numbers make statements that servers refuse. */
const LISTED_NUMBERS = 10_000;

/**
 * Finds the rows that differ: first by bucket, then by the number in their key.
 * @param number the column with that number; null: views that are only written whole
 */
export async function compare(source: Side, target: Side, number: string | null): Promise<Plan> {
  const [wanted, found] = await Promise.all([source.sums(null), target.sums(null)]);
  const buckets = differing(BUCKET, wanted, found);
  if (buckets.values.length === 0) return 'same';
  if (number === null || found.size === 0 || found.has(UNKNOWN_BUCKET)) return 'all';
  if (buckets.rows > COMPARED_ROWS) return buckets;
  const { values } = buckets;
  const [ours, theirs] = await Promise.all([source.sums(values), target.sums(values)]);
  const numbers = differing(number, ours, theirs);
  const { length } = numbers.values;
  return length === 0 || length > LISTED_NUMBERS ? buckets : numbers;
}

/** The rows of groups whose sums differ. */
function differing(column: string, source: Sums, target: Sums): Group {
  const values = [...new Set([...source.keys(), ...target.keys()])].filter((value) => {
    const [one, other] = [source.get(value), target.get(value)];
    return one?.rows !== other?.rows || one?.sum !== other?.sum;
  });
  const rows = values.reduce(
    (sum, value) => sum + Math.max(source.get(value)?.rows ?? 0, target.get(value)?.rows ?? 0),
    0,
  );
  return { column, values, rows };
}

/** Who fills a table, by the target's own record. */
export interface Owner {
  readonly token: string;
  /** Start of 1970 until a delivery is complete: rows may lack values of a column that was added since. */
  readonly deliveredAt: Date;
}
