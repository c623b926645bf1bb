import type { ExportColumn } from '../store/exports.js';
import { DELETED, type Lines, type Target } from './target.js';

/** A value as a driver takes it. */
export type SqlValue = string | number | bigint | null;

/** A connection to a database that speaks SQL. */
export interface SqlConnection {
  /** Runs a statement; `?` stands for a value. @throws {TargetError} */
  query(sql: string, values?: readonly SqlValue[]): Promise<Readonly<Record<string, unknown>>[]>;
  /** Runs an UPDATE. @returns the number of rows that its condition was true of @throws {TargetError} */
  update(sql: string, values: readonly SqlValue[]): Promise<number>;
  /** Puts lines into a table, as fast as it can. @returns the number of rows @throws {TargetError} */
  bulk(table: string, columns: readonly string[], lines: Lines): Promise<number>;
  close(): Promise<void>;
}

/** A column as it is in the target. */
export interface FoundColumn {
  readonly type: string;
  /** What else a column that is compared with it must have, such as its collation. */
  readonly rest?: string;
}

/** A table as it is in the target. */
export interface FoundTable {
  /** It is a table: a view of the target has columns too, but takes no rows. */
  readonly isTable: boolean;
  readonly columns: ReadonlyMap<string, FoundColumn>;
  /** The columns of each of its unique indexes. */
  readonly unique: readonly (readonly string[])[];
}

/** Rows that go into a table by their key. */
export interface Merge {
  /** Quoted, as `from` is. */
  readonly into: string;
  readonly from: string;
  readonly columns: readonly string[];
  readonly key: readonly string[];
  /** `from` has all rows: those that it lacks go. Otherwise those go that it has as `_deleted`. */
  readonly isWhole: boolean;
  /** Rows that go stay, marked. */
  readonly isMarked: boolean;
  /** SQL of the condition for rows of the feed's sellers. */
  readonly own: string;
}

/** In what databases differ. */
export interface Dialect {
  /** Server and version for people. */
  readonly server: () => Promise<string>;
  /** The server's own time (ms since 1970); null when it has no clock of its own. */
  readonly clock: () => Promise<number | null>;
  readonly begin: string;
  readonly quote: (name: string) => string;
  readonly valueSql: Target['valueSql'];
  /** The type of a column. Columns of a key need a type that can be indexed. @param found the one to compare with */
  readonly typeOf: (column: ExportColumn, isKey: boolean, found?: FoundColumn) => string;
  /** Null: there is no such table. */
  readonly table: (name: string) => Promise<FoundTable | null>;
  /** Names of the tables that begin like this. */
  readonly tablesLike: (beginning: string) => Promise<string[]>;
  /** A name that SQL can use for a table. */
  readonly tableName: (name: string) => string;
  /** Whether the user may make tables there, as far as the server tells. */
  readonly mayMakeTables: () => Promise<boolean>;
  /** Makes the place for tables, where a server has more than one. */
  readonly makePlace: () => Promise<void>;
  /** The end of a SELECT that keeps others from writing the row. */
  readonly forUpdate: string;
  /** The end of an INSERT that does nothing when the row is there. */
  readonly orIgnore: string;
  readonly merge: (merge: Merge) => readonly string[];
  /** Makes an index of a table unless there is one of this name. */
  readonly index: (name: string, table: string, column: string) => Promise<void>;
  /** Adds the primary key to a table that was filled without one; null: tables have it from the start. */
  readonly addKey: ((table: string, view: string, key: readonly string[]) => Promise<void>) | null;
  readonly rename: (from: string, to: string) => string;
  /**
   * Does work while no other session does any of this name. Null where statements that make or rename a table
   * are part of a transaction; elsewhere they end it.
   */
  readonly alone: (<T>(name: string, work: () => Promise<T>) => Promise<T>) | null;
  /** Whether a column of the target can take the view's values as they are. */
  readonly fits: (found: string, wanted: string) => boolean;
}

/** What PostgreSQL and SQLite have in common. */
export function standardSql(quote: Dialect['quote']) {
  return {
    quote,
    orIgnore: 'ON CONFLICT DO NOTHING',
    alone: null,
    merge: (merge: Merge) => standardMerge(quote, merge),
    rename: (from: string, to: string) => `ALTER TABLE ${from} RENAME TO ${quote(to)}`,
  } as const;
}

function standardMerge(quote: Dialect['quote'], merge: Merge): string[] {
  const { into, from, columns, key, isWhole, isMarked, own } = merge;
  const keys = key.map(quote).join(', ');
  const same = key.map((name) => `s.${quote(name)} = ${into}.${quote(name)}`).join(' AND ');
  const gone = isWhole
    ? `NOT EXISTS (SELECT 1 FROM ${from} s WHERE ${same})`
    : `(${keys}) IN (SELECT ${keys} FROM ${from} WHERE ${DELETED})`;
  const list = columns.map(quote).join(', ');
  const others = columns.filter((name) => !key.includes(name)).map(quote);
  const set = [...others, ...(isMarked ? [DELETED] : [])];
  const ofTable = set.map((name) => `t.${name}`).join(', ');
  const given = set.map((name) => `excluded.${name}`).join(', ');
  return [
    isMarked
      ? `UPDATE ${into} SET ${DELETED} = true WHERE ${gone} AND NOT ${DELETED}${own}`
      : `DELETE FROM ${into} WHERE ${gone}${own}`,
    `INSERT INTO ${into} AS t (${list}${isMarked ? `, ${DELETED}` : ''})
     SELECT ${list}${isMarked ? ', false' : ''} FROM ${from} s WHERE ${isWhole ? 'true' : `NOT s.${DELETED}`}
     ON CONFLICT (${keys}) DO UPDATE SET ${set.map((name) => `${name} = excluded.${name}`).join(', ')}
      WHERE (${ofTable}) IS DISTINCT FROM (${given})`,
  ];
}
