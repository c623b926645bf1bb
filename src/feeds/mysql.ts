import type { ExportColumn } from '../store/exports.js';
import { textsOf } from '../store/read-only.js';
import {
  connectionError,
  kindIn,
  sqlTarget,
  type Dialect,
  type SqlConnection,
  type SqlValue,
  type ValueReader,
} from './sql-target.js';
import type { Target, TargetError } from './target.js';

const CONNECT_MS = 15_000;
/** Values of one INSERT; the server's limit on its bytes is at least 1 MB, usually 16. */
const MOST_BYTES = 512 * 1024;

/**
 * Opens a MySQL 8 or MariaDB 10.6, or newer, as the target of a feed. The tables are in the database that
 * the address names.
 * @throws {TargetError} when it can't be reached
 */
export async function mysqlTarget(url: URL, feed: string): Promise<Target> {
  const { createConnection } = await import('mysql2/promise');
  const place = `${url.hostname}${url.port === '' ? '' : `:${url.port}`}`;
  const failed = (error: unknown): TargetError => connectionError(error, `MySQL at ${place}`);
  const database = decodeURIComponent(url.pathname.slice(1));
  const socketPath = url.searchParams.get('socketPath');
  const client = await createConnection({
    ...(socketPath === null
      ? { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || 3306) }
      : { socketPath }),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database,
    charset: 'utf8mb4',
    timezone: 'Z',
    connectTimeout: CONNECT_MS,
    ...(url.searchParams.get('ssl') === 'true' ? { ssl: {} } : {}),
  }).catch((error: unknown) => {
    throw failed(error);
  });
  // Without a listener the loss of the connection would end the process.
  client.on('error', () => undefined);
  const run = async (sql: string, values: readonly SqlValue[]): Promise<unknown> => {
    try {
      const [rows] = await client.query({ sql, rowsAsArray: false }, [...values]);
      return rows;
    } catch (error) {
      throw failed(error);
    }
  };
  const connection: SqlConnection = {
    async query(sql, values = []) {
      const rows = await run(sql, values);
      return Array.isArray(rows) ? (rows as Record<string, unknown>[]) : [];
    },
    async insert(table, columns, batches) {
      const readers = columns.map(readerOf);
      const names = columns.map(({ name }) => quoted(name)).join(', ');
      let [rows, bytes, values] = [0, 0, [] as SqlValue[][]];
      const flush = async (): Promise<void> => {
        if (values.length === 0) return;
        const sql = `INSERT INTO ${table} (${names}) VALUES ?`;
        try {
          await client.query(sql, [values]);
        } catch (error) {
          throw failed(error);
        }
        [bytes, values] = [0, []];
      };
      for await (const batch of batches) {
        for (const row of batch) {
          values.push(row.map((text, n) => (text === null ? null : (readers[n]?.(text) ?? null))));
          bytes += row.reduce((sum, text) => sum + (text?.length ?? 4), 0);
          rows += 1;
          if (bytes >= MOST_BYTES) await flush();
        }
      }
      await flush();
      return rows;
    },
    close: () => client.end().catch(() => client.destroy()),
  };
  try {
    // Strict: a value that does not fit is an error, never cut. ANSI_QUOTES is not assumed.
    await connection.query(
      `SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE', time_zone = '+00:00'`,
    );
    const [row] = await connection.query('SELECT version() AS version');
    const version = String(row?.['version']);
    const name = /mariadb/i.test(version) ? 'MariaDB' : 'MySQL';
    const dialect = dialectOf(connection, database, `${name} ${version}`);
    return sqlTarget(connection, dialect, feed);
  } catch (error) {
    await connection.close();
    throw failed(error);
  }
}

function quoted(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``;
}

/** Longest text of a key: 191 characters of four bytes fit into every index. */
const KEY_TEXT = 'varchar(191)';

function typeOf(column: ExportColumn, isKey: boolean): string {
  const kind = kindIn(column);
  switch (kind.kind) {
    case 'boolean':
      return 'tinyint(1)';
    case 'integer':
      return kind.bits === 32 ? 'int' : 'bigint';
    case 'decimal':
      return `decimal(${Math.min(65, kind.precision)},${Math.min(30, kind.scale)})`;
    case 'number':
      return 'decimal(65,20)';
    case 'float':
      return 'double';
    case 'date':
      return 'date';
    case 'moment':
      return 'datetime(6)';
    case 'json':
    case 'texts':
      return 'json';
    case 'text':
      return isKey ? KEY_TEXT : 'longtext';
  }
}

function readerOf(column: ExportColumn): ValueReader {
  switch (kindIn(column).kind) {
    case 'boolean':
      return (text) => (text === 't' ? 1 : 0);
    case 'moment':
      // The session is in UTC. Years that DATETIME can't hold, and infinity, are null.
      return (text) => /^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)\+00$/.exec(text)?.[1] ?? null;
    case 'date':
      return (text) => (/^\d{4}-\d\d-\d\d$/.test(text) ? text : null);
    case 'texts':
      return (text) => JSON.stringify(textsOf(text));
    default:
      return (text) => text;
  }
}

function dialectOf(connection: SqlConnection, database: string, version: string): Dialect {
  return {
    version,
    quote: quoted,
    begin: 'START TRANSACTION',
    forUpdate: ' FOR UPDATE',
    fits: (found, wanted) => familyOf(found) === familyOf(wanted),
    trueValue: '1',
    falseValue: '0',
    typeOf: (column, isKey) =>
      kindIn(column).kind === 'text'
        ? // Names that differ only in case, or in blanks at their end, are different.
          `${typeOf(column, isKey)} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin`
        : typeOf(column, isKey),
    tableName: quoted,
    temporary: (table, columns) => `CREATE TEMPORARY TABLE ${table} (${columns}) ENGINE = InnoDB`,
    insertIgnore: (into, values) => `INSERT IGNORE INTO ${into} VALUES (${values})`,
    overwrite: (key, others) => {
      const [first = ''] = key;
      const set = others.length === 0 ? [first] : others;
      return `ON DUPLICATE KEY UPDATE ${set.map((name) => `${quoted(name)} = VALUES(${quoted(name)})`).join(', ')}`;
    },
    async columnsOf(table) {
      const rows = await connection.query(
        `SELECT column_name AS name, column_type AS type
           FROM information_schema.columns WHERE table_schema = ? AND table_name = ?`,
        [database, table],
      );
      return new Map(rows.map((row) => [String(row['name']), String(row['type'])]));
    },
  };
}

/** A type without what servers add to it or leave out: widths, collations; MariaDB's JSON is LONGTEXT. */
function familyOf(type: string): string {
  const name = type.toLowerCase().replace(/ .*$/s, '');
  if (name === 'json') return 'longtext';
  return name
    .replace(/^(tinyint|smallint|int|bigint)\(\d+\)$/, '$1')
    .replace(/^varchar\(\d+\)$/, 'varchar');
}
