import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'libsql';
import { createConnection } from 'mysql2/promise';
import { Secret } from '../../../src/domain/secret.js';
import { kindOf } from '../../../src/reporting/values.js';
import { openTarget } from '../../../src/reporting/feeds/open.js';
import { CURSORS, DELETED, INCOMPLETE, type Target } from '../../../src/reporting/feeds/target.js';
import type { ExportColumn, Exports } from '../../../src/reporting/exports.js';
import { textsOf } from '../../../src/db/read-only.js';
import { startMariaDb } from '../../support/mariadb.js';
import { createTestDatabase } from '../../support/postgres.js';
import { DbClient } from '../../../src/db/connection.js';
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.js';

/** Name of the feed in the tests. */
export const FEED = 'test';

type Row = Readonly<Record<string, unknown>>;

/** The feed's target, as JSON for another process. */
export type Place =
  | { readonly kind: 'postgres'; readonly url: string; readonly schema: string }
  | { readonly kind: 'mysql'; readonly url: string }
  | { readonly kind: 'sqlite'; readonly path: string };

/** A view in the target. */
export interface StoredView {
  /** Epoch and cursor recorded in the target; null if the view was never delivered. */
  readonly at: string | null;
  /** True if the target has recorded that rows lack values. */
  readonly isIncomplete: boolean;
  /** The view's columns that the table has. */
  readonly columns: ReadonlySet<string>;
  /** Rows that are not marked as deleted; null if there is no table. */
  readonly rows: readonly Row[] | null;
  readonly marked: readonly Row[];
}

/** A database as the target of a feed, with direct access for tests. */
export interface FeedDatabase {
  readonly name: string;
  readonly place: Place;
  /** The proxy between the feed and the server; null without a server. */
  readonly link: TcpProxy | null;
  open(signal: AbortSignal): Promise<Target>;
  /** Reads all views in one snapshot, with values formatted by `canonical`. */
  read(views: readonly ViewColumns[]): Promise<ReadonlyMap<string, StoredView>>;
  query(sql: string): Promise<readonly Row[]>;
  exec(sql: string): Promise<unknown>;
  /** Returns the quoted name of a table. */
  readonly table: (view: string) => string;
  close(): Promise<void>;
}

export interface ViewColumns {
  readonly view: string;
  readonly columns: readonly ExportColumn[];
}

/** Opens empty databases of PostgreSQL, MariaDB and SQLite. */
export async function openDatabases(): Promise<FeedDatabase[]> {
  return Promise.all([openPostgres(), openMariaDb(), openSqlite()]);
}

async function openPostgres(): Promise<FeedDatabase> {
  const database = await createTestDatabase({ empty: true });
  const client = new DbClient(database.url);
  await client.connect();
  await client.query(`SET search_path = shop; SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'`);
  const url = new URL(database.url);
  const link = await startProxy({ host: url.hostname, port: Number(url.port || 5432) });
  url.hostname = link.host;
  url.port = String(link.port);
  return feedDatabase('PostgreSQL', { kind: 'postgres', url: url.href, schema: 'shop' }, link, {
    begin: 'BEGIN ISOLATION LEVEL REPEATABLE READ',
    text: (name) => `"${name}"::text AS "${name}"`,
    table: (view) => `shop."${view}"`,
    columns: `SELECT column_name AS name FROM information_schema.columns
               WHERE table_schema = 'shop' AND table_name = `,
    query: async (sql) => (await client.query<Record<string, unknown>>(sql)).rows,
    async close() {
      await link.close();
      await client.end();
      await database.drop();
    },
  });
}

async function openMariaDb(): Promise<FeedDatabase> {
  const server = await startMariaDb();
  const url = new URL(await server.database());
  const socketPath = url.searchParams.get('socketPath') ?? '';
  const database = url.pathname.slice(1);
  const client = await createConnection({ socketPath, user: 'root', database });
  await client.query(`SET time_zone = '+00:00'`);
  const link = await startProxy({ path: socketPath });
  const place = {
    kind: 'mysql',
    url: `mysql://root@${link.host}:${link.port}/${database}`,
  } as const;
  return feedDatabase('MariaDB', place, link, {
    begin: 'START TRANSACTION WITH CONSISTENT SNAPSHOT',
    text: (name) => `CAST(\`${name}\` AS CHAR) AS \`${name}\``,
    table: (view) => `\`${view}\``,
    columns: `SELECT column_name AS name FROM information_schema.columns
               WHERE table_schema = '${database}' AND table_name = `,
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

async function openSqlite(): Promise<FeedDatabase> {
  const folder = await mkdtemp(join(tmpdir(), 'smlite-'));
  const path = join(folder, 'reports.db');
  const database = new Database(path);
  database.exec('PRAGMA busy_timeout = 15000');
  return feedDatabase('SQLite', { kind: 'sqlite', path }, null, {
    begin: 'BEGIN',
    text: (name) => `CAST("${name}" AS TEXT) AS "${name}"`,
    table: (view) => `"${view}"`,
    columns: 'SELECT name FROM pragma_table_info(',
    query(sql) {
      if (sql.startsWith('SELECT')) return Promise.resolve(database.prepare(sql).all() as Row[]);
      database.exec(sql);
      return Promise.resolve([]);
    },
    async close() {
      database.close();
      await rm(folder, { recursive: true });
    },
  });
}

interface DatabaseAccess {
  readonly begin: string;
  readonly text: (column: string) => string;
  readonly table: (view: string) => string;
  /** Selects the names of a table's columns. The table's name in quotes is appended. */
  readonly columns: string;
  readonly query: (sql: string) => Promise<readonly Row[]>;
  readonly close: () => Promise<void>;
}

function feedDatabase(
  name: string,
  place: Place,
  link: TcpProxy | null,
  access: DatabaseAccess,
): FeedDatabase {
  const { query, table, text } = access;
  const columnsOf = async (view: string): Promise<ReadonlySet<unknown>> => {
    const end = access.columns.endsWith('(') ? ')' : '';
    const found = await query(`${access.columns}'${view}'${end}`);
    return new Set(found.map((row) => row['name']));
  };
  const read = async ({
    view,
    columns,
  }: ViewColumns): Promise<Pick<StoredView, 'columns' | 'rows' | 'marked'>> => {
    const existing = await columnsOf(view);
    const own = columns.filter((column) => existing.has(column.name));
    const names = new Set(own.map(({ name }) => name));
    if (existing.size === 0) return { columns: names, rows: null, marked: [] };
    const flag = existing.has(DELETED) ? [{ name: DELETED, type: 'boolean' }] : [];
    const list = [...own, ...flag].map((column) => text(column.name));
    const found = await query(`SELECT ${list.join(', ')} FROM ${table(view)}`);
    const rows = found.map((row) => ({
      isMarked: /^(?:true|1)$/.test(String(row[DELETED])),
      values: Object.fromEntries(own.map((one) => [one.name, canonical(one, row[one.name])])),
    }));
    return {
      columns: names,
      rows: rows.filter(({ isMarked }) => !isMarked).map(({ values }) => values),
      marked: rows.filter(({ isMarked }) => isMarked).map(({ values }) => values),
    };
  };
  return {
    name,
    place,
    link,
    table,
    query,
    exec: query,
    close: access.close,
    open: (signal) => openTarget(configOf(place), signal),
    async read(views) {
      await query(access.begin);
      try {
        const hasCursors = (await columnsOf(CURSORS)).size > 0;
        const cursors = hasCursors
          ? await query(`SELECT view_name, epoch, cursor_text, shape FROM ${table(CURSORS)}`)
          : [];
        const stored = new Map<string, StoredView>();
        for (const one of views) {
          const row = cursors.find(({ view_name: view }) => view === one.view);
          const found = await read(one);
          const isDelivered = row !== undefined && row['epoch'] !== null;
          const at = isDelivered ? positionOf(row['epoch'], row['cursor_text']) : null;
          const isIncomplete = row?.['shape'] === INCOMPLETE;
          stored.set(one.view, { at, isIncomplete, ...found });
        }
        return stored;
      } finally {
        await query('COMMIT');
      }
    },
  };
}

/** Reads a view's rows from the store, with values formatted by `canonical`. */
export function readView(exports: Exports, view: string) {
  const request = { view, since: null, deletions: false, sellerIds: null, counted: false };
  return exports.read(request, async ({ columns, batches, cursor }) => {
    const rows: StoredView['marked'][number][] = [];
    for await (const batch of batches) {
      for (const row of batch) {
        const values = columns.map((one, n) => [one.name, canonical(one, row[n])] as const);
        rows.push(Object.fromEntries(values));
      }
    }
    return { columns, rows, cursor };
  });
}

/** The feed's configuration. */
function configOf(place: Place): Parameters<typeof openTarget>[0] {
  const target = place.kind === 'sqlite' ? place : { ...place, url: new Secret(place.url) };
  const rest = {
    views: [],
    sellers: null,
    cron: null,
    timeZone: 'UTC',
    deletes: 'delete',
  } as const;
  return { name: FEED, place: '', target, ...rest };
}

/** Epoch and sequence number of a cursor, without the time that some cursors have. */
export function positionOf(epoch: unknown, cursor: unknown): string {
  return `${String(epoch)} ${String(cursor).replace(/@.*/, '')}`;
}

/** Formats a value in the same way for all databases, which write zeros, blanks and booleans differently. */
export function canonical(column: ExportColumn, value: unknown): string | null {
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
