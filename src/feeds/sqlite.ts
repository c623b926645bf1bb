import { existsSync } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { kindOf } from '../export/values.js';
import type { ExportColumn } from '../store/exports.js';
import { rowsOf } from './lines.js';
import { connectionError } from './server-connection.js';
import { standardSql, type Dialect, type SqlConnection, type SqlValue } from './dialect.js';
import { sqlTarget } from './sql-target.js';
import { TargetError, type Target } from './target.js';

/** What `node:sqlite`, `libsql` and `better-sqlite3` have in common. */
interface Database {
  exec(sql: string): unknown;
  prepare(sql: string): Statement;
  close(): void;
}

interface Statement {
  run(...values: SqlValue[]): unknown;
  all(...values: SqlValue[]): unknown[];
}

/** How long a statement waits for another program that uses the file (ms), and how often it looks. */
const BUSY_MS = 30_000;
const LOOK_EVERY_MS = 50;

/**
 * Opens a SQLite file as the target of a feed; it is made when it is not there. Node 22.13 and newer have
 * SQLite; older ones need the package `libsql`.
 * @throws {TargetError} when the file can't be opened
 */
export async function sqliteTarget(path: string, feed: string): Promise<Target> {
  const attempt = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      throw connectionError(error, `SQLite file ${path}`);
    }
  };
  const open = driver();
  if (!existsSync(dirname(path))) {
    throw new TargetError(`SQLite file ${path}: its folder is not there`, 'make the folder');
  }
  const wasThere = existsSync(path);
  const database = attempt(() => open(path));
  /** SQLite itself would wait without letting the process do anything else. */
  const attemptWhileBusy = async <T>(work: () => T): Promise<T> => {
    for (const until = Date.now() + BUSY_MS; ; await pause(LOOK_EVERY_MS)) {
      try {
        return work();
      } catch (error) {
        const isBusy = error instanceof Error && /\blocked\b|SQLITE_BUSY/.test(error.message);
        if (!isBusy || Date.now() > until) throw connectionError(error, `SQLite file ${path}`);
      }
    }
  };
  const connection: SqlConnection = {
    query: (sql, values = []) =>
      attemptWhileBusy(() => {
        if (/^\s*(?:SELECT|PRAGMA)/i.test(sql)) {
          return database.prepare(sql).all(...values) as Record<string, unknown>[];
        }
        if (values.length === 0) database.exec(sql);
        else database.prepare(sql).run(...values);
        return [];
      }),
    async bulk(table, columns, lines) {
      const statement = attempt(() =>
        database.prepare(
          `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`,
        ),
      );
      let rows = 0;
      for await (const chunk of lines) {
        const some = rowsOf(chunk);
        attempt(() => {
          for (const row of some) statement.run(...row);
        });
        rows += some.length;
        await new Promise((resolve) => setImmediate(resolve));
      }
      return rows;
    },
    async close() {
      database.close();
      // A look into a file that is not there makes an empty one.
      if (!wasThere && (await stat(path).catch(() => null))?.size === 0) await rm(path);
    },
  };
  attempt(() => database.exec('PRAGMA busy_timeout = 0'));
  const [row] = await connection.query('SELECT sqlite_version() AS version');
  return sqlTarget(connection, dialectOf(connection, `SQLite ${String(row?.['version'])}`), feed);
}

type Driver = new (path: string) => Database;

/** The SQLite that there is: Node's own, or that of the package `libsql`. */
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
    throw new TargetError(
      'this Node has no SQLite',
      'use Node 22.13 or newer, or install the package libsql beside this one',
    );
  }
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** SQLite keeps whole numbers of 64 bits, and decimals of up to 15 digits, exactly; others stay text. */
function typeOf(column: ExportColumn): string {
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

/** Text that becomes a number where the column's type is one. */
function valueSql(column: ExportColumn, value: string): string {
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

function dialectOf(connection: SqlConnection, server: string): Dialect {
  return {
    ...standardSql(quoted),
    server,
    tableName: quoted,
    typeOf,
    valueSql,
    // Others may read meanwhile; one that writes waits.
    begin: 'BEGIN IMMEDIATE',
    forUpdate: '',
    addKey: null,
    clock: () => Promise.resolve(null),
    mayMakeTables: () => Promise.resolve(true),
    makePlace: () => Promise.resolve(),
    fits: (found, wanted) => found.toUpperCase() === wanted.toUpperCase(),
    async table(name) {
      const columns = await connection.query('SELECT name, type, pk FROM pragma_table_info(?)', [
        name,
      ]);
      if (columns.length === 0) return null;
      const indexes = await connection.query(
        `SELECT group_concat(c.name, char(10)) AS names
           FROM pragma_index_list(?) i, pragma_index_info(i.name) c
          WHERE i."unique" AND NOT i.partial GROUP BY i.name`,
        [name],
      );
      const primary = columns.filter(({ pk }) => Number(pk) > 0).map((row) => String(row['name']));
      return {
        columns: new Map(
          columns.map((row) => [String(row['name']).toLowerCase(), { type: String(row['type']) }]),
        ),
        unique: [primary, ...indexes.map((row) => String(row['names']).split('\n'))],
      };
    },
    async tablesLike(beginning) {
      const rows = await connection.query(
        `SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, ?) = ?`,
        [beginning.length, beginning],
      );
      return rows.map(({ name }) => String(name));
    },
    async index(name, table, column) {
      await connection.query(
        `CREATE INDEX IF NOT EXISTS ${quoted(name)} ON ${table} (${quoted(column)})`,
      );
    },
  };
}
