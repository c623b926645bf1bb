import type { ExportColumn } from '../store/exports.js';
import type { TextRow } from '../store/text-cursor.js';

/** What is delivered of a view. */
export interface ViewShape {
  readonly view: string;
  /** Without `_deleted`. */
  readonly columns: readonly ExportColumn[];
  /** Columns that tell rows apart; null for views that are replaced whole. */
  readonly key: readonly string[] | null;
}

/** How far a target is with a view. It is kept in the target, and moves together with the rows. */
export interface Delivered {
  /** Which life of the store the rows come from. */
  readonly epoch: string;
  /** As `cursorText` writes it; null for views that are replaced whole. */
  readonly cursor: string | null;
  /** Changes with the view's columns. */
  readonly shape: string;
  /** SHA-256 of all rows of a view that is replaced whole; null for others. */
  readonly digest: string | null;
  readonly rows: number;
  readonly deliveredAt: Date;
}

/** Rows for a target, and how far it is once it has them. */
export interface Delivery {
  readonly shape: ViewShape;
  /** `all`: rows that are not among these go. `changes`: rows by their key, gone ones marked `_deleted`. */
  readonly kind: 'all' | 'changes';
  /** Rows in PostgreSQL's text form; for `changes` with `_deleted` as the last value. */
  readonly batches: AsyncIterable<readonly TextRow[]>;
  /** Only rows of these sellers are the feed's; null: all. */
  readonly sellers: readonly string[] | null;
  /** `mark`: rows that are gone stay, with `_deleted` true. */
  readonly deletes: 'delete' | 'mark';
  /** What the target must still say when the rows are committed. */
  readonly from: Delivered | null;
  /** What it says afterwards; read when all rows were. */
  readonly next: () => Omit<Delivered, 'rows' | 'deliveredAt'>;
}

/**
 * Where a feed goes. A delivery happens whole or not at all, in one transaction with the cursor: readers
 * never see a part of it, and whatever is cut off is delivered again.
 */
export interface Target {
  /** Server and version for people, after trying what a delivery needs. Writes nothing. @throws {TargetError} */
  check(): Promise<string>;
  /** @returns null when the view was never delivered. @throws {TargetError} */
  delivered(view: string): Promise<Delivered | null>;
  /**
   * @returns the number of rows that came
   * @throws {TargetMovedError} when somebody else delivered meanwhile
   * @throws {TargetConflictError} when the table there does not fit; only this view is affected
   * @throws {TargetError} when it can't be reached or refuses
   */
  deliver(delivery: Delivery): Promise<number>;
  /** Forgets how far the view is, so that it is delivered whole the next time. @throws {TargetError} */
  forget(view: string): Promise<void>;
  close(): Promise<void>;
}

/** A target can't be reached, or refuses. The message holds no password. */
export class TargetError extends Error {
  override readonly name: string = 'TargetError';

  constructor(
    message: string,
    /** One sentence: what to do about it. */
    readonly remedy: string,
  ) {
    super(message);
  }
}

/** A table of the target does not fit the view. */
export class TargetConflictError extends TargetError {
  override readonly name = 'TargetConflictError';
}

/** Another process has delivered since this one began. */
export class TargetMovedError extends Error {
  override readonly name = 'TargetMovedError';
}

/** Name of the column that is true for rows that are gone. */
export const DELETED = '_deleted';
/** Name of the table that says how far the target is. */
export const CURSORS = '_seller_mirror_feeds';
