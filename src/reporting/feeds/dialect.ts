import type { ExportColumn } from '../exports.js';
import { DELETED, type Lines, type Target } from './target.js';

/** A parameter of a statement. */
export type SqlValue = string | number | bigint | null;

/** A connection to an SQL database. */
export interface SqlConnection {
  /** Runs a statement with `?` as placeholders. @throws {TargetError} */
  query(sql: string, values?: readonly SqlValue[]): Promise<Readonly<Record<string, unknown>>[]>;
  /** Runs an UPDATE. @returns the number of matching rows @throws {TargetError} */
  update(sql: string, values: readonly SqlValue[]): Promise<number>;
  /** Bulk-loads lines into a table. @returns the number of rows @throws {TargetError} */
  bulk(table: string, columns: readonly string[], lines: Lines): Promise<number>;
  close(): Promise<void>;
}

/** An existing column of the target. */
export interface FoundColumn {
  readonly type: string;
  /** The collation that a column compared with it needs. */
  readonly collation?: string;
}

/** An existing table, or a view, of the target. */
export interface FoundTable {
  /** False for a view, which takes no rows. */
  readonly isTable: boolean;
  readonly columns: ReadonlyMap<string, FoundColumn>;
  /** The columns of each unique index. */
  readonly unique: readonly (readonly string[])[];
}

/** Merges staged rows into a table by their key. */
export interface Merge {
  /** Quoted, as `from` is. */
  readonly into: string;
  readonly from: string;
  readonly columns: readonly string[];
  readonly key: readonly string[];
  /** True if `from` has all rows: rows that it lacks are deleted. Otherwise its `_deleted` rows are. */
  readonly isComplete: boolean;
  /** Marks rows with `_deleted` instead of deleting them. */
  readonly isMarked: boolean;
  /** An SQL condition that limits deletions to the feed's sellers. */
  readonly ownRows: string;
}

/** The differences between databases. */
export interface Dialect {
  /** Name and version of the server. */
  readonly server: () => Promise<string>;
  /** The server's time (ms since 1970); null without a server. */
  readonly clock: () => Promise<number | null>;
  readonly begin: string;
  readonly quote: (name: string) => string;
  readonly valueSql: Target['valueSql'];
  /** The type of a column. Key columns need a type that can be indexed. @param found the column it is compared with */
  readonly typeOf: (column: ExportColumn, isKey: boolean, found?: FoundColumn) => string;
  /** Null if there is no such table. */
  readonly table: (name: string) => Promise<FoundTable | null>;
  readonly tablesWithPrefix: (prefix: string) => Promise<string[]>;
  /** The quoted name of a table. */
  readonly tableName: (name: string) => string;
  /** Whether the user may create tables, as far as the server reports. */
  readonly canCreateTables: () => Promise<boolean>;
  /** Creates the schema of the tables, if the database has schemas. */
  readonly createSchema: () => Promise<void>;
  /** The suffix of a SELECT that locks the row. */
  readonly forUpdate: string;
  /** The suffix of an INSERT that does nothing if the row exists. */
  readonly orIgnore: string;
  readonly merge: (merge: Merge) => readonly string[];
  /** Creates an index, unless one with this name exists. */
  readonly createIndex: (name: string, table: string, column: string) => Promise<void>;
  /** Adds the primary key after a table was filled; null if tables are created with their key. */
  readonly addPrimaryKey:
    ((table: string, view: string, key: readonly string[]) => Promise<void>) | null;
  readonly rename: (from: string, to: string) => string;
  /**
   * Runs `work` while holding a lock of the server. Null for databases with transactional DDL; elsewhere
   * a statement that creates or renames a table commits the transaction.
   */
  readonly withLock: (<T>(name: string, work: () => Promise<T>) => Promise<T>) | null;
  /** Whether a column of type `found` holds all values of type `wanted`. */
  readonly fits: (found: string, wanted: string) => boolean;
}

/** What PostgreSQL and SQLite have in common. */
export function standardSql(quote: Dialect['quote']) {
  return {
    quote,
    orIgnore: 'ON CONFLICT DO NOTHING',
    withLock: null,
    merge: (merge: Merge) => standardMerge(quote, merge),
    rename: (from: string, to: string) => `ALTER TABLE ${from} RENAME TO ${quote(to)}`,
  } as const;
}

function standardMerge(quote: Dialect['quote'], merge: Merge): string[] {
  const { into, from, columns, key, isComplete, isMarked, ownRows } = merge;
  const keys = key.map(quote).join(', ');
  const same = key.map((name) => `s.${quote(name)} = ${into}.${quote(name)}`).join(' AND ');
  const deleted = isComplete
    ? `NOT EXISTS (SELECT 1 FROM ${from} s WHERE ${same})`
    : `(${keys}) IN (SELECT ${keys} FROM ${from} WHERE ${DELETED})`;
  const list = columns.map(quote).join(', ');
  const others = columns.filter((name) => !key.includes(name)).map(quote);
  const set = [...others, ...(isMarked ? [DELETED] : [])];
  const ofTable = set.map((name) => `t.${name}`).join(', ');
  const excluded = set.map((name) => `excluded.${name}`).join(', ');
  return [
    isMarked
      ? `UPDATE ${into} SET ${DELETED} = true WHERE ${deleted} AND NOT ${DELETED}${ownRows}`
      : `DELETE FROM ${into} WHERE ${deleted}${ownRows}`,
    `INSERT INTO ${into} AS t (${list}${isMarked ? `, ${DELETED}` : ''})
     SELECT ${list}${isMarked ? ', false' : ''} FROM ${from} s WHERE ${isComplete ? 'true' : `NOT s.${DELETED}`}
     ON CONFLICT (${keys}) DO UPDATE SET ${set.map((name) => `${name} = excluded.${name}`).join(', ')}
      WHERE (${ofTable}) IS DISTINCT FROM (${excluded})`,
  ];
}
