/** A group of rows by their key: how many there are, and the sum of their hashes. */
export interface Sum {
  readonly rows: number;
  /** Decimal digits. */
  readonly sum: string;
}
/** By bucket. */
export type Sums = ReadonlyMap<number, Sum>;

export interface KeyRow {
  /** PostgreSQL's text of the key's values, as the side writes it that was asked. */
  readonly key: readonly string[];
  readonly bucket: number;
  /** Decimal digits. */
  readonly hash: string;
}

/** The bucket of rows of an earlier version, which had no hashes. */
export const UNKNOWN_BUCKET = -1;

/** What makes the target equal to the source. */
export type Plan =
  | { readonly kind: 'same' }
  /** Write all rows, and remove those that the source lacks. */
  | { readonly kind: 'all' }
  | {
      readonly kind: 'rows';
      /** Keys as the source writes them. */
      readonly write: readonly KeyRow[];
      /** Keys as the target writes them. */
      readonly remove: readonly KeyRow[];
    };

/** One side of a comparison. */
export interface Side {
  sums(): Promise<Sums>;
  keys(buckets: readonly number[]): Promise<readonly KeyRow[]>;
}

/** Rows of the two sides whose keys are read at once: 30 MB of memory. */
const GROUP_ROWS = 100_000;
/** More different rows than this are not listed by key: all rows are written. */
const MAX_LISTED = 100_000;

/**
 * Finds what makes the target equal to the source: sums first, then the keys and hashes of buckets that differ.
 * @param hasKey false for views that are only written whole
 */
export async function compare(source: Side, target: Side, hasKey: boolean): Promise<Plan> {
  const [wanted, found] = await Promise.all([source.sums(), target.sums()]);
  const buckets = differing(wanted, found);
  if (buckets.length === 0) return { kind: 'same' };
  if (!hasKey || found.size === 0 || found.has(UNKNOWN_BUCKET)) return { kind: 'all' };
  const write: KeyRow[] = [];
  const remove: KeyRow[] = [];
  for (const group of grouped(buckets, wanted, found)) {
    const [ours, theirs] = await Promise.all([source.keys(group), target.keys(group)]);
    const rows = compareRows(ours, theirs);
    // Not by spread arguments: there may be more than a call can take.
    for (const row of rows.write) write.push(row);
    for (const row of rows.remove) remove.push(row);
    if (write.length + remove.length > MAX_LISTED) return { kind: 'all' };
  }
  return { kind: 'rows', write, remove };
}

/** The buckets whose sums differ, in order. */
export function differing(source: Sums, target: Sums): number[] {
  const buckets = new Set([...source.keys(), ...target.keys()]);
  return [...buckets]
    .filter((bucket) => {
      const [one, other] = [source.get(bucket), target.get(bucket)];
      return one?.rows !== other?.rows || one?.sum !== other?.sum;
    })
    .toSorted((a, b) => a - b);
}

/** Buckets in groups of about `GROUP_ROWS` rows. */
function* grouped(buckets: readonly number[], source: Sums, target: Sums): Generator<number[]> {
  let group: number[] = [];
  let rows = 0;
  for (const bucket of buckets) {
    group.push(bucket);
    rows += Math.max(source.get(bucket)?.rows ?? 0, target.get(bucket)?.rows ?? 0);
    if (rows < GROUP_ROWS) continue;
    yield group;
    [group, rows] = [[], 0];
  }
  if (group.length > 0) yield group;
}

/** The rows to write and to remove. A row in another bucket than its key's is written again. */
export function compareRows(source: readonly KeyRow[], target: readonly KeyRow[]) {
  const left = new Map(target.map((row) => [keyText(row), row]));
  const write = source.filter((row) => {
    const text = keyText(row);
    const found = left.get(text);
    left.delete(text);
    return found?.hash !== row.hash || found.bucket !== row.bucket;
  });
  return { write, remove: [...left.values()] };
}

/** The same text on both sides: databases write moments in several ways. */
function keyText({ key }: KeyRow): string {
  return JSON.stringify(key.map((text) => (MOMENT.test(text) ? plainMoment(text) : text)));
}

const MOMENT = /^\d{4,}-\d\d-\d\d[T ]\d\d:\d\d:\d\d/;

function plainMoment(text: string): string {
  const plain = text.replace('T', ' ').replace(/(?:Z|\+00)$/, '');
  return plain.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
}

/** Who fills a table, by the target's own record. */
export interface Owner {
  readonly token: string;
  /** Null: all sellers. */
  readonly sellers: readonly string[] | null;
  /** Start of 1970 until a delivery is complete: rows may lack values of a column that was added since. */
  readonly deliveredAt: Date;
}

/** What the owners that a target records mean for this store. */
export type Ownership =
  | { readonly kind: 'ours'; readonly owner: Owner }
  | { readonly kind: 'free' }
  /** Another store, or a later state of this one; after those also this feed, of a part of its sellers. */
  | { readonly kind: 'taken'; readonly owners: readonly Owner[] };

/** The tokens that this store has confirmed or proposed. */
export interface Tokens {
  readonly ofFeed: ReadonlySet<string>;
  /** Of other feeds, or of this one under an earlier name. */
  readonly ofOthers: ReadonlySet<string>;
}

/**
 * No two feeds of a store have the same sellers in one table. So an owner with some of ours is this feed under an
 * earlier name, and one with others is another feed, which goes on.
 * @param sellers of the feed; null: all
 */
export function ownership(
  owners: readonly Owner[],
  { ofFeed, ofOthers }: Tokens,
  sellers: readonly string[] | null,
): Ownership {
  const ours = owners.filter((one) => overlap(one.sellers, sellers));
  const owner =
    owners.find(({ token }) => ofFeed.has(token)) ?? ours.find(({ token }) => ofOthers.has(token));
  const others = ours.filter((one) => one !== owner);
  if (others.length > 0) {
    return { kind: 'taken', owners: owner === undefined ? others : [...others, owner] };
  }
  return owner === undefined ? { kind: 'free' } : { kind: 'ours', owner };
}

function overlap(one: readonly string[] | null, other: readonly string[] | null): boolean {
  return one === null || other === null || one.some((seller) => other.includes(seller));
}

/** No token of ours. */
export const NO_TOKENS: Tokens = { ofFeed: new Set(), ofOthers: new Set() };

/** The sellers of either; null: all. */
export function union(one: readonly string[] | null, other: readonly string[] | null) {
  return one === null || other === null ? null : [...new Set([...one, ...other])];
}
