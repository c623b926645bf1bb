import type { ViewColumn } from '../views.js';
import type { Lines, Target } from './target.js';

/** A parameter of a statement. */
export type SqlValue = string | number | bigint | null;

/** A connection to an SQL database. */
export interface SqlConnection {
  /** Runs a statement with `?` as placeholders. @throws {UserError} */
  query(sql: string, values?: readonly SqlValue[]): Promise<Readonly<Record<string, unknown>>[]>;
  /** @returns the number of rows that the statement found @throws {UserError} */
  update(sql: string, values?: readonly SqlValue[]): Promise<number>;
  /**
   * Loads lines into a table, with a checksum if the dialect has one.
   * @param columns of the view; hash and bucket follow
   * @returns the number of rows
   * @throws {UserError}
   */
  bulk(table: string, columns: readonly ViewColumn[], lines: Lines): Promise<number>;
  close(): Promise<void>;
}

/** An existing table, or a view, of the target. */
export interface FoundTable {
  /** False for a view, which takes no rows. */
  readonly isTable: boolean;
  /** Type of each column, by its name in lower case. */
  readonly columns: ReadonlyMap<string, string>;
  /** The columns of each unique index. */
  readonly unique: readonly (readonly string[])[];
}

/** The differences between databases. */
export interface Dialect {
  /** Its name and version. */
  readonly server: string;
  readonly begin: string;
  readonly quote: (name: string) => string;
  /** The table's name with its schema, quoted. */
  readonly tableName: (name: string) => string;
  readonly valueSql: Target['valueSql'];
  /** The type of a column. Key columns need a type that can be indexed. */
  readonly typeOf: (column: ViewColumn, isKey?: boolean) => string;
  /** How a column's type compares with the wanted one: `narrow` if `widen` can change it. */
  readonly fit: (found: string, wanted: string) => 'fits' | 'narrow' | 'other';
  /** SQL that widens a column; null if types have no width. */
  readonly widen: ((table: string, column: string, type: string) => string) | null;
  /** Appended to CREATE TABLE. */
  readonly tableOptions: string;
  /** SQL of a moment that is compared with a column. @param iso in UTC, with microseconds */
  readonly momentSql: (iso: string) => string;
  /** SQL of a column of moments in the form of `momentSql`. */
  readonly comparable: (column: string) => string;
  /** SQL of a value as text. */
  readonly textOf: (column: string) => string;
  /** Whether rows have a checksum, since their text here is not the same as in the store, which `_hash` is of. */
  readonly hasCheck: boolean;
  /** SQL of a condition that is true for rows `t` that were edited by hand. */
  readonly editedSql: (table: string, columns: readonly ViewColumn[]) => string | Promise<string>;
  /** SQL that updates rows of `into t` from the row of `from s` with the same key. */
  readonly updateSql: (update: Update) => string;
  /** Creates the schema of the tables, unless it exists. */
  readonly createSchema: () => Promise<void>;
  /** For a table that only shows whether tables can be created: empty where ROLLBACK removes it. */
  readonly temporary: '' | 'TEMPORARY';
  /** Null if there is no such table. */
  readonly table: (name: string) => Promise<FoundTable | null>;
  /** Runs `work`, which changes tables, while no other process does. */
  readonly withLock: <T>(work: () => Promise<T>) => Promise<T>;
}

export interface Update {
  /** Quoted, as `from` is. */
  readonly into: string;
  readonly from: string;
  /** Condition on `t` and `s`. */
  readonly on: string;
  readonly where: string;
  /** Column of `t`, quoted, and SQL of its new value. */
  readonly set: readonly (readonly [column: string, value: string])[];
}

/** `UPDATE … FROM`, of PostgreSQL and SQLite. */
export function updateFrom({ into, from, on, where, set }: Update): string {
  const sets = set.map(([column, value]) => `${column} = ${value}`);
  return `UPDATE ${into} AS t SET ${sets.join(', ')} FROM ${from} AS s WHERE ${on} AND ${where}`;
}

const WIDTHS = ['tinyint', 'smallint', 'int', 'bigint'];

/** Compares the types of a server, as its catalog and this program write them. */
export function typeFit(found: string, wanted: string): 'fits' | 'narrow' | 'other' {
  if (found === wanted) return 'fits';
  const [one, other] = [WIDTHS.indexOf(found), WIDTHS.indexOf(wanted)];
  if (one >= 0 && other >= 0) return one > other ? 'fits' : 'narrow';
  const [digits, scale] = decimalOf(found);
  const [wantedDigits, wantedScale] = decimalOf(wanted);
  if (digits === undefined || wantedDigits === undefined) return 'other';
  if (scale >= wantedScale && digits - scale >= wantedDigits - wantedScale) return 'fits';
  return scale <= wantedScale && digits - scale <= wantedDigits - wantedScale ? 'narrow' : 'other';
}

function decimalOf(type: string): [digits: number | undefined, scale: number] {
  const [, digits, scale] = /^(?:numeric|decimal)\((\d+),(\d+)\)$/.exec(type) ?? [];
  return [digits === undefined ? undefined : Number(digits), Number(scale)];
}
