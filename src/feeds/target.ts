import type { ExportColumn } from '../store/exports.js';

/** What is delivered of a view. */
export interface ViewShape {
  readonly view: string;
  /** Without `_deleted`. */
  readonly columns: readonly ExportColumn[];
  /** Columns that tell rows apart; null for views that are replaced whole. */
  readonly key: readonly string[] | null;
  /** Columns by which people look for rows; each gets an index when the table is made. */
  readonly indexed: readonly string[];
  /** Rows that are gone stay, with `_deleted` true. */
  readonly isMarked: boolean;
  /** Only rows of these sellers are the feed's; null: all. */
  readonly sellers: readonly string[] | null;
}

/** How far a target is with a view. It is kept in the target, and moves together with the rows. */
export interface Delivered {
  /** Which life of the store the rows come from. */
  readonly epoch: string;
  /** As `cursorText` writes it; null for views that are replaced whole. */
  readonly cursor: string | null;
  /** Changes with the columns of the view and the choice of rows; `INCOMPLETE`: rows lack values. */
  readonly shape: string;
  /** SHA-256 of all rows of a view that is replaced whole; null for others. */
  readonly digest: string | null;
  readonly rows: number;
  readonly deliveredAt: Date;
}

/** What a delivery says of itself; the target adds the rest. */
export type NewlyDelivered = Omit<Delivered, 'rows' | 'deliveredAt'>;

/**
 * How far the load of a whole view is. Its rows are where readers do not see them. A row may be older or
 * newer than another, but none is older than `cursor`: what changed since then comes at the end of the load.
 */
export interface Loading {
  /** Tells loads apart. */
  readonly id: string;
  readonly epoch: string;
  /** Of the moment at which the load began; null for views that are replaced whole. */
  readonly cursor: string | null;
  readonly shape: string;
  /** Key of the last row that is there, as text; null: none is. */
  readonly after: readonly string[] | null;
  readonly rows: number;
}

/** Where a target is with a view. */
export interface Position {
  /** Null: it was never delivered. */
  readonly delivered: Delivered | null;
  /** The load under way, or interrupted; null: none is. */
  readonly loading: Loading | null;
  /** Changes with everything that is written for the view. */
  readonly token: string;
}

/** Lines of COPY’s text format, each whole, with the values as `valueSql` gives them. */
export type Lines = AsyncIterable<Buffer>;

/** What `feed check` tells. */
export interface Description {
  /** Server and version. */
  readonly server: string;
  /** How far the server's clock is ahead of this one (ms); null when it has none of its own. */
  readonly clockMs: number | null;
  /** What a delivery would do to the table of each view, or why it could not. */
  readonly views: readonly {
    readonly view: string;
    readonly plan: string;
    readonly fits: boolean;
  }[];
}

/**
 * Where a feed goes. What a method writes it writes whole or not at all, and only when the target is
 * still where `position` says: two processes that deliver at once do no harm.
 */
export interface Target {
  /** Bytes of lines after which a load notes how far it is. */
  readonly partBytes: number;
  /** SQL of PostgreSQL that writes a value as this target reads it. */
  readonly valueSql: (column: ExportColumn, value: string) => string;
  /** Writes nothing. @throws {TargetError} */
  describe(shapes: readonly ViewShape[]): Promise<Description>;
  /** @throws {TargetError} */
  cursor(view: string): Promise<Position>;
  /**
   * Adds columns that the view's table lacks; what was delivered is `INCOMPLETE` then.
   * @returns false when there is no table yet
   * @throws {TargetConflictError} when the table does not fit; only this view is affected
   */
  ensure(shape: ViewShape): Promise<boolean>;
  /** Begins a load, instead of one under way. @throws {MovedError} @throws {TargetError} */
  begin(shape: ViewShape, position: Position, loading: Loading): Promise<Position>;
  /**
   * Adds rows to the load under way. Readers do not see them.
   * @param after the key of the last row, once all are read
   * @throws {MovedError} @throws {TargetError}
   */
  load(
    shape: ViewShape,
    position: Position,
    lines: Lines,
    after: () => readonly string[] | null,
  ): Promise<Position>;
  /**
   * Ends the load under way: its rows, with the changes applied to them, become the view's.
   * @param changes have `_deleted` as their last value
   * @param next is called once all changes are read
   * @throws {MovedError} @throws {TargetConflictError} @throws {TargetError}
   */
  publish(
    shape: ViewShape,
    position: Position,
    changes: Lines,
    next: () => NewlyDelivered,
  ): Promise<void>;
  /**
   * Applies changes to the view's rows, and gives up a load that is under way.
   * @param changes have `_deleted` as their last value
   * @param next is called once all changes are read
   * @returns the number of changes
   * @throws {MovedError} @throws {TargetConflictError} @throws {TargetError}
   */
  apply(
    shape: ViewShape,
    position: Position,
    changes: Lines,
    next: () => NewlyDelivered,
  ): Promise<number>;
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

/** Another process has delivered since this one began, or the store is no longer the same. */
export class MovedError extends Error {
  override readonly name = 'MovedError';
}

/** Shape of what was delivered before columns of the table were added, or were found to be of another type. */
export const INCOMPLETE = '';
/** Name of the column that is true for rows that are gone. */
export const DELETED = '_deleted';
/** Name of the table that says how far the target is. */
export const CURSORS = '_seller_mirror_feeds';
