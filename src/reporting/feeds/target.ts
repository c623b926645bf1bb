import { UserError } from '../../domain/user-error.js';
import type { Content, ViewColumn } from '../views.js';
import type { Group, Owner, Sums } from './plan.js';

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

/** Rows to write. */
export interface Changes {
  /** The rows that are replaced: those that are not among `lines` are removed. */
  readonly replaced: 'all' | Group;
  /** Passes the rows to write to `consume`. Called at most once. */
  readonly lines: <T>(consume: (lines: Lines) => Promise<T>) => Promise<T>;
}

/** A change of the token, in the same transaction as the rows. */
export interface TokenStep {
  readonly from: string;
  readonly to: string;
}

/** The destination of a feed. */
export interface Target {
  /** Views are compared and written whole, as if they had no key. */
  readonly isWhole: boolean;
  /** PostgreSQL's SQL that formats a value for this target. */
  readonly valueSql: (column: ViewColumn, value: string) => string;
  /** Writes nothing. @returns server and version @throws {UserError} if this user can't write there */
  describe(): Promise<string>;
  /** Writes nothing. @throws {UserError} if the table does not fit the view */
  find(content: Content): Promise<Found>;
  /** Does what `found` plans: creates the table, or adds and widens columns. @throws {UserError} */
  prepare(content: Content, found: Found): Promise<void>;
  /** Makes this store the owner, in place of the owners in `replaced`. @throws {UserError} */
  own(view: string, token: string, replaced: readonly Owner[]): Promise<void>;
  /**
   * Number of rows and sum of hashes, by bucket; within these buckets: by the number in the key.
   * @param isFull whether to look for rows that were edited by hand: their stored hash counts for nothing
   */
  sums(content: Content, isFull: boolean, within: readonly number[] | null): Promise<Sums>;
  /**
   * Writes the changes of a view, and its token, in one transaction.
   * @param changes null: there are none
   * @returns the number of rows written and removed
   * @throws {UserError} if another store has delivered since, or the table refuses a row
   */
  write(content: Content, changes: Changes | null, token: TokenStep): Promise<number>;
  close(): Promise<void>;
}

/** Another store has taken a table over while this one delivered. */
export function takenProblem(view: string, feed: string): UserError {
  return new UserError(
    `another store has filled ${view} during this delivery`,
    `stop its feed, then \`seller-mirror feed take-over ${feed}\``,
    'VIEW',
  );
}

/** The columns that each delivered row carries besides its values. */
export const HASH = '_hash';
export const CHECK = '_check';
/** The table that says which store fills which tables. */
export const OWNERS = '_seller_mirror';
