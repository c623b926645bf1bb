import { UserError } from '../../domain/user-error.js';
import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { kindOf } from '../values.js';
import type { ViewColumn } from '../views.js';
import { rowsOf } from './lines.js';
import { connectionError } from './server-connection.js';
import { updateFrom, type Dialect, type SqlConnection, type SqlValue } from './dialect.js';
import { sqlTarget } from './sql-target.js';
import { BUCKET } from './plan.js';
import { CHECK, HASH, type Target } from './target.js';

/** The common interface of `node:sqlite`, `libsql` and `better-sqlite3`. */
interface Database {
  exec(sql: string): unknown;
  prepare(sql: string): Statement;
  close(): void;
}

interface Statement {
  run(...values: SqlValue[]): { readonly changes: number | bigint };
  all(...values: SqlValue[]): unknown[];
}

/** How long a statement waits for another program that has locked the file (ms). */
const BUSY_TIMEOUT_MS = 30_000;
const BUSY_RETRY_MS = 50;
/** Rows whose checksums are compared at once; then others have their turn. */
const CHECKED_ROWS = 2_000;

/**
 * Opens a SQLite file as the target of a feed, and creates it if needed. Node 22.13 and newer have SQLite
 * built in; older ones need the package `libsql`.
 * @throws {UserError} if the file can't be opened
 */
export function sqliteTarget(path: string, feed: string): Target {
  const attempt = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      throw fileError(error, path);
    }
  };
  const open = (loaded ??= driver());
  if (!existsSync(dirname(path))) {
    throw new UserError(
      `SQLite file ${path}: its folder does not exist`,
      'create the folder',
      'TARGET',
    );
  }
  const wasThere = existsSync(path);
  const database = attempt(() => open(path));
  /** Retries while the file is locked. SQLite's own wait would block the process. */
  const retryWhileBusy = async <T>(work: () => T): Promise<T> => {
    for (const until = performance.now() + BUSY_TIMEOUT_MS; ; await pause(BUSY_RETRY_MS)) {
      try {
        return work();
      } catch (error) {
        const isBusy = error instanceof Error && /\blocked\b|SQLITE_BUSY/.test(error.message);
        if (!isBusy || performance.now() > until) throw fileError(error, path);
      }
    }
  };
  const connection: SqlConnection = {
    query: (sql, values = []) =>
      retryWhileBusy(() => {
        if (/^\s*(?:SELECT|PRAGMA)/i.test(sql)) {
          return database.prepare(sql).all(...values) as Record<string, unknown>[];
        }
        if (values.length === 0) database.exec(sql);
        else database.prepare(sql).run(...values);
        return [];
      }),
    update: (sql, values = []) =>
      retryWhileBusy(() => Number(database.prepare(sql).run(...values).changes)),
    async bulk(table, columns, lines) {
      const names = [...columns.map(({ name }) => quoted(name)), HASH, BUCKET, CHECK];
      const statement = attempt(() =>
        database.prepare(
          `INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`,
        ),
      );
      const checkOf = checksum(columns);
      let rows = 0;
      for await (const chunk of lines) {
        const some = rowsOf(chunk);
        attempt(() => {
          for (const row of some) statement.run(...row, checkOf(row));
        });
        rows += some.length;
        await new Promise((resolve) => setImmediate(resolve));
      }
      return rows;
    },
    async close() {
      database.close();
      // Opening a file that does not exist creates an empty one.
      if (!wasThere && (await stat(path).catch(() => null))?.size === 0) await rm(path);
    },
  };
  // By default libsql sorts an index in memory: 70 MB for a million rows.
  attempt(() => database.exec('PRAGMA busy_timeout = 0; PRAGMA temp_store = FILE'));
  const [row] = attempt(() => database.prepare('SELECT sqlite_version() AS version').all());
  const { version } = Object(row) as { version?: string };
  /** Lists rows that were edited in a temporary table. */
  const editedSql = async (table: string, columns: readonly ViewColumn[]): Promise<string> => {
    const edited = quoted(`_seller_mirror_edited_${table}`);
    await connection.query(
      `DROP TABLE IF EXISTS temp.${edited}; CREATE TEMP TABLE ${edited} (id INTEGER PRIMARY KEY)`,
    );
    const values = columns.map((column) => storedValue(column));
    const checkOf = checksum(columns);
    const insert = database.prepare(`INSERT INTO ${edited} VALUES (?)`);
    const read = database.prepare(
      `SELECT ${values.join(', ')}, ${CHECK} AS _check, rowid AS _id FROM ${table}
        WHERE ${HASH} IS NOT NULL AND rowid > ? ORDER BY rowid LIMIT ${CHECKED_ROWS}`,
    );
    for (
      let last: SqlValue = Number.MIN_SAFE_INTEGER, count = CHECKED_ROWS;
      count === CHECKED_ROWS;
    ) {
      const rows = (await retryWhileBusy(() => read.all(last))) as Record<string, SqlValue>[];
      for (const row of rows) {
        if (Number(row['_check']) !== checkOf(Object.values(row))) insert.run(row['_id'] ?? null);
        last = row['_id'] ?? null;
      }
      count = rows.length;
      await new Promise((resolve) => setImmediate(resolve));
    }
    return `t.rowid IN (SELECT id FROM ${edited})`;
  };
  return sqlTarget(connection, dialectOf(connection, `SQLite ${String(version)}`, editedSql), feed);
}

/** SQL of a stored value, as `checksum` expects it. */
function storedValue(column: ViewColumn): string {
  const name = quoted(column.name);
  // The driver would round large integers.
  return kindOf(column).kind === 'integer' ? `CAST(${name} AS TEXT) AS ${name}` : name;
}

/**
 * Returns a function that computes 40 bits of the md5 of a row's values as SQLite stores them. It ignores values after
 * those of the columns.
 */
function checksum(columns: readonly ViewColumn[]): (row: readonly SqlValue[]) => number {
  const isNumber = columns.map((column) => /^(?:DECIMAL|REAL|BOOLEAN)/.test(typeOf(column)));
  return (row) => {
    let text = '';
    for (const [n, isOne] of isNumber.entries()) {
      const value = row[n] ?? null;
      const own = value === null ? '' : isOne ? String(Number(value)) : String(value);
      text += value === null ? '-' : `${own.length} ${own},`;
    }
    return parseInt(hash('md5', text).slice(0, 10), 16);
  };
}

/** What is wrong with a file, and what to do about it. Errors are known by their text: each driver has its own codes. */
const FAULTS: readonly (readonly [RegExp, problem: string, remedy: string])[] = [
  [
    /unable to open/i,
    'it can’t be opened',
    'make the file and its folder readable and writable for this user',
  ],
  [
    /\blocked\b/,
    `another program has kept it locked for ${BUSY_TIMEOUT_MS / 1000} s`,
    'close that program; the feed continues by itself',
  ],
  [/read-?only/i, 'it is read-only', 'make the file and its folder writable for this user'],
  [
    /is not a database/i,
    'it is not a database',
    'name another file in the feed’s target, or delete this one',
  ],
];

function fileError(error: unknown, path: string): UserError {
  const words = error instanceof Error ? error.message : '';
  const what = `SQLite file ${path}`;
  const [, problem, remedy] = FAULTS.find(([pattern]) => pattern.test(words)) ?? [];
  if (problem === undefined || remedy === undefined) return connectionError(named(error), what);
  return new UserError(`${what}: ${problem}`, remedy, 'TARGET');
}

/** Node's own SQLite has one code for all errors, which says only in `errcode` what went wrong. */
function named(error: unknown): unknown {
  if (!(error instanceof Error) || !('errcode' in error)) return error;
  const code = ERRORS_OF_FILE[Number(error.errcode) & 0xff] ?? 'SQLITE_ERROR';
  return Object.assign(new Error(error.message), { code });
}

/** SQLite's errors that concern the whole file. */
const ERRORS_OF_FILE: Readonly<Record<number, string>> = {
  8: 'SQLITE_READONLY',
  10: 'SQLITE_IOERR',
  11: 'SQLITE_CORRUPT',
  13: 'SQLITE_FULL',
  14: 'SQLITE_CANTOPEN',
  26: 'SQLITE_NOTADB',
};

type Driver = new (path: string) => Database;

/** The driver, once it was loaded. */
let loaded: ((path: string) => Database) | null = null;

/** Loads Node's own SQLite or, without it, the package `libsql`. */
function driver(): (path: string) => Database {
  const builtin = process.getBuiltinModule('node:sqlite' as 'node:fs') as unknown;
  if (builtin !== undefined) {
    const { DatabaseSync } = builtin as { DatabaseSync: Driver };
    return (path) => new DatabaseSync(path);
  }
  try {
    const LibSql = createRequire(import.meta.url)('libsql') as Driver;
    return (path) => new LibSql(path);
  } catch {
    throw new UserError(
      'this Node has no SQLite',
      'use Node 22.13 or newer, or install the package libsql as well',
      'TARGET',
    );
  }
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** SQLite stores 64-bit integers and decimals of up to 15 digits exactly. Other numbers stay text. */
function typeOf(column: ViewColumn): string {
  const kind = kindOf(column);
  switch (kind.kind) {
    case 'boolean':
      return 'BOOLEAN';
    case 'integer':
      return 'INTEGER';
    case 'decimal':
      return kind.precision <= 15 ? `DECIMAL(${kind.precision},${kind.scale})` : 'TEXT';
    case 'float':
      return 'REAL';
    default:
      return 'TEXT';
  }
}

/** Formats a value as text; SQLite converts it to a number if the column's type is numeric. */
function valueSql(column: ViewColumn, value: string): string {
  switch (kindOf(column).kind) {
    case 'boolean':
      return `${value}::int`;
    case 'moment':
      return `CASE WHEN isfinite(${value}) THEN replace((${value} AT TIME ZONE 'UTC')::text, ' ', 'T') || 'Z'
                   ELSE ${value}::text END`;
    case 'texts':
      return `to_json(${value})::text`;
    default:
      return value;
  }
}

function dialectOf(
  connection: SqlConnection,
  server: string,
  editedSql: Dialect['editedSql'],
): Dialect {
  return {
    quote: quoted,
    server,
    tableName: quoted,
    typeOf,
    valueSql,
    // Other programs can still read; writers wait.
    begin: 'BEGIN IMMEDIATE',
    tableOptions: '',
    fit: (found, wanted) => (nameOf(found) === nameOf(wanted) ? 'fits' : 'other'),
    widen: null,
    momentSql: (iso) => `'${iso.replace('Z', '')}'`,
    // Without Z, whole seconds come before their fractions.
    comparable: (column) => `rtrim(${column}, 'Z')`,
    textOf: (column) => `CAST(${column} AS TEXT)`,
    hasCheck: true,
    editedSql,
    updateSql: updateFrom,
    // Each statement locks the file; a second CREATE fails, and the feed tries again.
    withLock: (work) => work(),
    temporary: '',
    createSchema: () => Promise.resolve(),
    async table(name) {
      const columns = await connection.query(
        `SELECT c.name, c.type, c.pk, m.type AS kind FROM sqlite_master m, pragma_table_info(m.name) c
          WHERE m.name = ? COLLATE NOCASE`,
        [name],
      );
      if (columns.length === 0) return null;
      const indexes = await connection.query(
        `SELECT group_concat(c.name, char(10)) AS names
           FROM pragma_index_list(?) i, pragma_index_info(i.name) c
          WHERE i."unique" AND NOT i.partial GROUP BY i.name`,
        [name],
      );
      const primary = columns.filter(({ pk }) => Number(pk) > 0).map((row) => String(row['name']));
      return {
        isTable: columns[0]?.['kind'] === 'table',
        columns: new Map(
          columns.map((row) => [String(row['name']).toLowerCase(), String(row['type'])]),
        ),
        unique: [primary, ...indexes.map((row) => String(row['names']).split('\n'))],
      };
    },
  };
}

/** A declared type without its width, which SQLite ignores. */
function nameOf(type: string): string {
  return type.toUpperCase().replace(/\(.*$/s, '').trim();
}
