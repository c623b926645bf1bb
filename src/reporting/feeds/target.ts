import type { ExportColumn } from '../exports.js';

/** The part of a view that a feed delivers. */
export interface ViewShape {
  readonly view: string;
  /** Without `_deleted`. */
  readonly columns: readonly ExportColumn[];
  /** The key columns; null for views that are replaced as a whole. */
  readonly key: readonly string[] | null;
  /** Columns that reports filter by. Each gets an index when the table is created. */
  readonly indexed: readonly string[];
  /** Deleted rows stay, with `_deleted` set to true. */
  readonly isMarked: boolean;
  /** The feed has only rows of these sellers; null for all. */
  readonly sellers: readonly string[] | null;
}

/** What was delivered of a view. It is stored in the target and changes in the same transaction as the rows. */
export interface Delivered {
  /** Changes when the store is restored from a backup. */
  readonly epoch: string;
  /** In the format of `cursorText`; null for views that are replaced as a whole. */
  readonly cursor: string | null;
  /** Hash of the view's columns and the choice of rows, or `INCOMPLETE` if rows lack values. */
  readonly shape: string;
  /** Digest of all rows of a view that is replaced as a whole; null for other views. */
  readonly digest: string | null;
  readonly rows: number;
  readonly deliveredAt: Date;
}

/** What a delivery records; the target adds rows and time. */
export type NewlyDelivered = Omit<Delivered, 'rows' | 'deliveredAt'>;

/**
 * The progress of a full load. Its rows are in a staging place that readers do not use. They may come from
 * different moments, but none is older than `cursor`: the changes since then are applied at the end of the load.
 */
export interface Loading {
  readonly id: string;
  readonly epoch: string;
  /** The cursor at the start of the load; null for views that are replaced as a whole. */
  readonly cursor: string | null;
  readonly shape: string;
  /** Key of the last staged row, as text; null if there is none. */
  readonly after: readonly string[] | null;
  readonly rows: number;
}

/** The state of a view in a target. */
export interface Position {
  /** Null if it was never delivered. */
  readonly delivered: Delivered | null;
  /** A load that is running or was interrupted; null if there is none. */
  readonly loading: Loading | null;
  /** Differs after each write to the view. */
  readonly token: string;
}

/** Chunks of complete lines in COPY’s text format, with values formatted by `valueSql`. */
export type Lines = AsyncIterable<Buffer>;

/** The report of `feed check`. */
export interface Description {
  /** Server and version. */
  readonly server: string;
  /** How far the server's clock is ahead of ours (ms); null for targets without a server. */
  readonly clockMs: number | null;
  /** For each view, what a delivery would do to its table, or why it can't. */
  readonly views: readonly {
    readonly view: string;
    readonly plan: string;
    readonly fits: boolean;
  }[];
}

/**
 * The destination of a feed. Each method writes atomically, and only if the target is still at `position`, so
 * two processes may deliver at the same time.
 */
export interface Target {
  /** A load records its progress after this many bytes of lines. */
  readonly partBytes: number;
  /** PostgreSQL's SQL that formats a value for this target. */
  readonly valueSql: (column: ExportColumn, value: string) => string;
  /** Writes nothing. @throws {TargetError} */
  describe(shapes: readonly ViewShape[]): Promise<Description>;
  /** @throws {TargetError} */
  position(view: string): Promise<Position>;
  /**
   * Adds columns that the view's table lacks, and then marks what was delivered as `INCOMPLETE`.
   * @returns false if there is no table yet
   * @throws {TargetConflictError} if the table does not fit; only this view is affected
   */
  ensureTable(shape: ViewShape): Promise<boolean>;
  /** Starts a load. It replaces a running one. @throws {MovedError} @throws {TargetError} */
  beginLoad(shape: ViewShape, position: Position, loading: Loading): Promise<Position>;
  /**
   * Adds rows to the running load. Readers do not see them yet.
   * @param after returns the key of the last row; called after all lines were read
   * @throws {MovedError} @throws {TargetError}
   */
  loadPart(
    shape: ViewShape,
    position: Position,
    lines: Lines,
    after: () => readonly string[] | null,
  ): Promise<Position>;
  /**
   * Ends the running load: applies the changes to its rows and makes them visible as the view's rows.
   * @param changes lines with `_deleted` as their last value
   * @param next called after all changes were read
   * @throws {MovedError} @throws {TargetConflictError} @throws {TargetError}
   */
  publish(
    shape: ViewShape,
    position: Position,
    changes: Lines,
    next: () => NewlyDelivered,
  ): Promise<void>;
  /**
   * Applies changes to the view's rows, and discards a running load.
   * @param changes lines with `_deleted` as their last value
   * @param next called after all changes were read
   * @returns the number of changes
   * @throws {MovedError} @throws {TargetConflictError} @throws {TargetError}
   */
  apply(
    shape: ViewShape,
    position: Position,
    changes: Lines,
    next: () => NewlyDelivered,
  ): Promise<number>;
  /** Deletes the view's position, so that the next delivery loads all rows. @throws {TargetError} */
  reset(view: string): Promise<void>;
  close(): Promise<void>;
}

/** A target is unreachable or refuses. The message holds no password. */
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

/** A table in the target does not fit the view. */
export class TargetConflictError extends TargetError {
  override readonly name = 'TargetConflictError';
}

/** The view’s state is not as expected: another process has delivered it, or the view or the store changed. */
export class MovedError extends Error {
  override readonly name = 'MovedError';
}

/** The shape of rows that lack values, because a column was added or had another type. */
export const INCOMPLETE = '';
/** Name of the column that is true for deleted rows. */
export const DELETED = '_deleted';
/** Name of the table with the position of each view. */
export const CURSORS = '_seller_mirror_feeds';
