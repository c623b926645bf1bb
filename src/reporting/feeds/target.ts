import type { Content, HistoryLimit, ViewColumn } from '../views.js';
import type { KeyRow, Owner, Sums } from './plan.js';

/** What a feed delivers of a view, and how. */
export interface Shape extends Content {
  /** Columns that reports filter by. Each gets an index after the first load of its table. */
  readonly indexed: readonly string[];
}

/** Chunks of whole lines in COPY's text format: the values, hash and bucket. */
export type Lines = AsyncIterable<Buffer>;

/** What a target has for a view. */
export interface Found {
  /** What the next delivery does to the table first, such as `would create the table`; null: nothing. */
  readonly plan: string | null;
  /** False if there is no table, or one without the columns of a feed: there is nothing to compare. */
  readonly isReady: boolean;
  /** Whether it has no row at all. */
  readonly isEmpty: boolean;
  /** Who fills it, by the target's own record. */
  readonly owners: readonly Owner[];
}

/** The rows of a target that are compared. */
export interface Scope {
  /** Rows of these sellers; null: of all. */
  readonly sellers: readonly string[] | null;
  readonly limits: readonly HistoryLimit[];
  /** Whether to look for rows that were edited by hand: their stored hash counts for nothing. */
  readonly isFull: boolean;
}

/** Rows to write. */
export interface Changes {
  /** Rows that the view lacks; `unlisted`: all compared rows of the table that are not among `lines`. */
  readonly remove: readonly KeyRow[] | 'unlisted';
  /** Passes the rows to write to `consume`. Called at most once. */
  readonly lines: <T>(consume: (lines: Lines) => Promise<T>) => Promise<T>;
}

/** A change of the token, in the same transaction as the rows. */
export interface TokenStep {
  readonly from: string;
  readonly to: string;
}

export interface Description {
  /** Server and version. */
  readonly server: string;
  /** How far the server's clock is ahead of ours (ms); null without a clock. */
  readonly clockMs: number | null;
  /** Whether the user may create tables, which every delivery needs. */
  readonly canCreate: boolean;
}

/** The destination of a feed. */
export interface Target {
  /** Views are compared and written whole, as if they had no key. */
  readonly isWhole: boolean;
  /** PostgreSQL's SQL that formats a value for this target. */
  readonly valueSql: (column: ViewColumn, value: string) => string;
  /** Writes nothing. @throws {TargetError} if nobody could write there */
  describe(): Promise<Description>;
  /** Writes nothing. @throws {ViewProblem} if the table does not fit the view */
  find(shape: Shape): Promise<Found>;
  /** Does what `found` plans: creates the table, or adds and widens columns. @throws {ViewProblem} */
  prepare(shape: Shape, found: Found): Promise<void>;
  /** Makes this store the owner, in place of the owners with tokens in `replaced`. @throws {ViewProblem} */
  own(shape: Shape, token: string, replaced: readonly string[]): Promise<void>;
  /** Number of rows and sum of hashes, in each bucket. */
  sums(shape: Shape, scope: Scope): Promise<Sums>;
  /** Keys and hashes of the rows of some buckets. */
  keys(shape: Shape, scope: Scope, buckets: readonly number[]): Promise<readonly KeyRow[]>;
  /**
   * Writes the changes of a view, and its token, in one transaction.
   * @param changes null: there are none
   * @throws {ViewProblem} if another store has delivered since, or the table refuses a row
   */
  write(shape: Shape, scope: Scope, changes: Changes | null, token: TokenStep): Promise<number>;
  /** Removes what earlier versions left, once all views are delivered. */
  tidy(): Promise<void>;
  close(): Promise<void>;
}

/** A target is unreachable or refuses all work. The message holds no password. */
export class TargetError extends Error {
  override readonly name: string = 'TargetError';

  constructor(
    message: string,
    /** What to do about it, in one sentence. */
    readonly remedy: string,
  ) {
    super(message);
  }
}

/** One view can't be delivered; others can. */
export class ViewProblem extends TargetError {
  override readonly name = 'ViewProblem';
}

/** The columns that each delivered row carries besides its values. */
export const HASH = '_hash';
export const BUCKET = '_bucket';
export const CHECK = '_check';
/** The table that says which store fills which tables. */
export const OWNERS = '_seller_mirror';
