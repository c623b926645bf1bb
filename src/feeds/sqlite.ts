import { createRequire } from 'node:module';
import type { ExportColumn } from '../store/exports.js';
import { textsOf } from '../store/read-only.js';
import { isoMoment } from '../export/values.js';
import {
  kindIn,
  sqlTarget,
  type Dialect,
  type SqlConnection,
  type SqlValue,
  type ValueReader,
} from './sql-target.js';
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

/** How long a statement waits for another writer (ms). */
const BUSY_MS = 15_000;
/** Rows between two looks at the rest of the process: SQLite works synchronously. */
const ROWS_AT_ONCE = 500;

/**
 * Opens a SQLite file as the target of a feed; it is made when it is not there. Node 22.13 and newer have
 * SQLite; older ones need the package `libsql`.
 * @throws {TargetError} when the file can't be opened
 */
export async function sqliteTarget(path: string, feed: string): Promise<Target> {
  const failed = (error: unknown): TargetError => {
    if (error instanceof TargetError) return error;
    const words = error instanceof Error ? error.message : 'failed';
    return new TargetError(
      `SQLite file ${path}: ${words}`,
      'mend it there; the feed goes on by itself',
    );
  };
  const attempt = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      throw failed(error);
    }
  };
  const open = driver();
  const database = attempt(() => open(path));
  const connection: SqlConnection = {
    query: (sql, values = []) =>
      Promise.resolve(
        attempt(() => {
          if (/^(?:SELECT|PRAGMA)/i.test(sql)) {
            return database.prepare(sql).all(...values) as Record<string, unknown>[];
          }
          if (values.length === 0) database.exec(sql);
          else database.prepare(sql).run(...values);
          return [];
        }),
      ),
    async insert(table, columns, batches) {
      const readers = columns.map(readerOf);
      const statement = attempt(() =>
        database.prepare(
          `INSERT INTO ${table} (${columns.map(({ name }) => quoted(name)).join(', ')})
           VALUES (${columns.map(() => '?').join(', ')})`,
        ),
      );
      let rows = 0;
      // One transaction for all: it is on a temporary table, which nobody else sees.
      attempt(() => database.exec('BEGIN'));
      for await (const batch of batches) {
        attempt(() => {
          for (const row of batch) {
            const values = row.map((text, n) =>
              text === null ? null : (readers[n]?.(text) ?? null),
            );
            statement.run(...values);
          }
        });
        rows += batch.length;
        if (rows % ROWS_AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      attempt(() => database.exec('COMMIT'));
      return rows;
    },
    close: () => Promise.resolve(database.close()),
  };
  attempt(() => database.exec(`PRAGMA busy_timeout = ${BUSY_MS}; PRAGMA foreign_keys = ON`));
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
  const kind = kindIn(column);
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

function readerOf(column: ExportColumn): ValueReader {
  switch (kindIn(column).kind) {
    case 'boolean':
      return (text) => (text === 't' ? 1 : 0);
    case 'integer':
      return BigInt;
    case 'float':
      return Number;
    case 'moment':
      return isoMoment;
    case 'texts':
      return (text) => JSON.stringify(textsOf(text));
    default:
      return (text) => text;
  }
}

function dialectOf(connection: SqlConnection, version: string): Dialect {
  return {
    version,
    quote: quoted,
    // Others may read meanwhile; one that writes waits.
    begin: 'BEGIN IMMEDIATE',
    forUpdate: '',
    trueValue: '1',
    falseValue: '0',
    typeOf,
    fits: (found, wanted) => found.toUpperCase() === wanted.toUpperCase(),
    tableName: quoted,
    temporary: (table, columns) => `CREATE TEMPORARY TABLE ${table} (${columns})`,
    insertIgnore: (into, values) => `INSERT OR IGNORE INTO ${into} VALUES (${values})`,
    overwrite: (key, others) =>
      `ON CONFLICT (${key.map(quoted).join(', ')}) DO ${
        others.length === 0
          ? 'NOTHING'
          : `UPDATE SET ${others.map((name) => `${quoted(name)} = excluded.${quoted(name)}`).join(', ')}`
      }`,
    async columnsOf(table) {
      const rows = await connection.query('SELECT name, type FROM pragma_table_info(?)', [table]);
      return new Map(rows.map((row) => [String(row['name']), String(row['type'])]));
    },
  };
}
