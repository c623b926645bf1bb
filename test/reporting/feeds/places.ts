import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'libsql';
import { createConnection } from 'mysql2/promise';
import { DbClient } from '../../../src/db/connection.js';
import { textsOf } from '../../../src/db/read-only.js';
import { kindOf } from '../../../src/reporting/values.js';
import { startMariaDb } from '../../support/mariadb.js';
import { createTestDatabase } from '../../support/postgres.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';

export type Row = Readonly<Record<string, unknown>>;

export interface Column {
  readonly name: string;
  readonly type: string;
}

/** A database as the target of a feed, with direct access for tests. */
export interface Place {
  readonly name: string;
  /** Members of the feed in FEEDS_FILE. */
  readonly target: Readonly<Record<string, string>>;
  /** The proxy between the feed and the server; null without a server. */
  readonly link: TcpProxy | null;
  query(sql: string): Promise<readonly Row[]>;
  /** Returns the quoted name of a table. */
  readonly table: (name: string) => string;
  /** The rows that a feed delivered, one text each, sorted. */
  rows(view: string, columns: readonly Column[]): Promise<string[]>;
  /** Drops all tables. */
  clear(): Promise<void>;
  close(): Promise<void>;
}

interface Access extends Pick<Place, 'name' | 'target' | 'link' | 'query' | 'table' | 'close'> {
  readonly text: (column: string) => string;
  /** Selects the names of all tables. */
  readonly tables: string;
}

function placeOf(access: Access): Place {
  const { query, table, text, tables } = access;
  return {
    ...access,
    async rows(view, columns) {
      const list = columns.map(({ name }) => text(name)).join(', ');
      const found = await query(`SELECT ${list} FROM ${table(view)} WHERE _hash IS NOT NULL`);
      return textsOfRows(found, columns);
    },
    async clear() {
      for (const row of await query(tables)) {
        await query(`DROP TABLE IF EXISTS ${table(String(Object.values(row)[0]))}`);
      }
    },
  };
}

export async function openPostgres(): Promise<Place> {
  const database = await createTestDatabase({ empty: true });
  const client = new DbClient(database.url);
  await client.connect();
  await client.query(`SET search_path = shop`);
  const url = new URL(database.url);
  const link = await startProxy({ host: url.hostname, port: Number(url.port || 5432) });
  url.hostname = link.host;
  url.port = String(link.port);
  return placeOf({
    name: 'PostgreSQL',
    target: { target: url.href, schema: 'shop' },
    link,
    text: (name) => `"${name}"::text AS "${name}"`,
    table: (name) => `shop."${name}"`,
    tables: `SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('shop') AND relkind = 'r'`,
    query: async (sql) => (await client.query<Record<string, unknown>>(sql)).rows,
    async close() {
      await link.close();
      await client.end();
      await database.drop();
    },
  });
}

/** @param options of the server @param variables that new sessions start with */
export async function openMariaDb(options?: readonly string[], variables = ''): Promise<Place> {
  const server = await startMariaDb(options);
  const url = new URL(await server.database());
  const socketPath = url.searchParams.get('socketPath') ?? '';
  const database = url.pathname.slice(1);
  const client = await createConnection({ socketPath, user: 'root', database, charset: 'utf8mb4' });
  await client.query(`SET NAMES utf8mb4`);
  await client.query(`SET time_zone = '+00:00', autocommit = 1, sql_safe_updates = 0`);
  for (const one of variables === '' ? [] : variables.split(', '))
    await client.query(`SET GLOBAL ${one}`);
  const link = await startProxy({ path: socketPath });
  return placeOf({
    name: 'MariaDB',
    target: { target: `mysql://root@${link.host}:${link.port}/${database}` },
    link,
    text: (name) => `CAST(\`${name}\` AS CHAR CHARACTER SET utf8mb4) AS \`${name}\``,
    table: (name) => `\`${name}\``,
    tables: `SELECT table_name FROM information_schema.tables WHERE table_schema = '${database}'`,
    async query(sql) {
      const [rows] = await client.query(sql);
      return Array.isArray(rows) ? (rows as Row[]) : [];
    },
    async close() {
      await link.close();
      await client.end();
      await server.close();
    },
  });
}

export async function openSqlite(): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), 'smlite-'));
  const path = join(folder, 'reports.db');
  const database = new Database(path);
  database.exec('PRAGMA busy_timeout = 15000');
  return placeOf({
    name: 'SQLite',
    target: { target: `sqlite:${path}` },
    link: null,
    text: (name) => `CAST("${name}" AS TEXT) AS "${name}"`,
    table: (name) => `"${name}"`,
    tables: `SELECT name FROM sqlite_master WHERE type = 'table'`,
    // oxlint-disable-next-line typescript/require-await -- its errors reject, as those of servers do
    async query(sql) {
      if (sql.startsWith('SELECT')) return database.prepare(sql).all() as Row[];
      database.exec(sql);
      return [];
    },
    async close() {
      database.close();
      await rm(folder, { recursive: true });
    },
  });
}

/** Rows as texts that are the same for all databases, sorted. */
export function textsOfRows(rows: readonly Row[], columns: readonly Column[]): string[] {
  return rows
    .map((row) => JSON.stringify(columns.map((column) => canonical(column, row[column.name]))))
    .sort();
}

/** Formats a value in the same way for all databases, which write zeros, blanks and booleans differently. */
function canonical(column: Column, value: unknown): string | null {
  if (value === null || value === undefined) return null;
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  switch (kindOf(column).kind) {
    case 'boolean':
      return /^(?:t|true|1)$/.test(text) ? 'true' : 'false';
    case 'decimal':
    case 'number':
      return text.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
    case 'float':
      return String(Number(text));
    case 'moment':
      return text
        .replace('T', ' ')
        .replace(/(?:Z|\+00)$/, '')
        .replace(/(\.\d*?)0+$/, '$1')
        .replace(/\.$/, '');
    case 'json':
      return JSON.stringify(JSON.parse(text));
    case 'texts':
      return text.startsWith('[')
        ? JSON.stringify(JSON.parse(text))
        : JSON.stringify(textsOf(text));
    default:
      return text;
  }
}
