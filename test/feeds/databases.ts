import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'libsql';
import { createConnection } from 'mysql2/promise';
import { Client } from 'pg';
import { Secret } from '../../src/domain/secret.js';
import { kindOf } from '../../src/export/values.js';
import { openTarget } from '../../src/feeds/open.js';
import { CURSORS, DELETED, INCOMPLETE, type Target } from '../../src/feeds/target.js';
import type { ExportColumn, Exports } from '../../src/store/exports.js';
import { textsOf } from '../../src/store/read-only.js';
import { startMariaDb } from '../support/mariadb.js';
import { createTestDatabase } from '../support/postgres.js';
import { startProxy, type TcpProxy } from '../support/tcp-proxy.js';

/** Name of the feed in the tests. */
export const FEED = 'test';

type Row = Readonly<Record<string, unknown>>;

/** Where the feed goes, as JSON for a process of its own. */
export type Place =
  | { readonly kind: 'postgres'; readonly url: string; readonly schema: string }
  | { readonly kind: 'mysql'; readonly url: string }
  | { readonly kind: 'sqlite'; readonly path: string };

/** A view as the target has it. */
export interface Kept {
  /** Epoch and cursor that the target tells; null: it was never delivered. */
  readonly at: string | null;
  /** The target knows that rows lack values. */
  readonly isIncomplete: boolean;
  /** Names of the view's columns that the table has. */
  readonly columns: ReadonlySet<string>;
  /** Rows that are not marked as gone, by column; null: there is no such table. */
  readonly rows: readonly Row[] | null;
  readonly marked: readonly Row[];
}

/** A database that takes a feed, and what a test sees of it and does to it. */
export interface FeedDatabase {
  readonly name: string;
  readonly place: Place;
  /** Between the feed and the server; null where there is no server. */
  readonly link: TcpProxy | null;
  open(signal: AbortSignal): Promise<Target>;
  /** All views at one moment. Values are in the form of `canonical`. */
  read(views: readonly ViewColumns[]): Promise<ReadonlyMap<string, Kept>>;
  query(sql: string): Promise<readonly Row[]>;
  exec(sql: string): Promise<unknown>;
  /** A table's name as `exec` takes it. */
  readonly table: (view: string) => string;
  close(): Promise<void>;
}

export interface ViewColumns {
  readonly view: string;
  readonly columns: readonly ExportColumn[];
}

/** PostgreSQL, MariaDB and SQLite, each empty. */
export async function openDatabases(): Promise<FeedDatabase[]> {
  return Promise.all([openPostgres(), openMariaDb(), openSqlite()]);
}

async function openPostgres(): Promise<FeedDatabase> {
  const database = await createTestDatabase({ empty: true });
  const client = new Client(database.url);
  await client.connect();
  await client.query(`SET search_path = shop; SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'`);
  const url = new URL(database.url);
  const link = await startProxy({ host: url.hostname, port: Number(url.port || 5432) });
  url.hostname = link.host;
  url.port = String(link.port);
  return database_('PostgreSQL', { kind: 'postgres', url: url.href, schema: 'shop' }, link, {
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
  return database_('MariaDB', place, link, {
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
  return database_('SQLite', { kind: 'sqlite', path }, null, {
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

interface Means {
  readonly begin: string;
  readonly text: (column: string) => string;
  readonly table: (view: string) => string;
  /** Selects the names of a table's columns; its name in quotes follows. */
  readonly columns: string;
  readonly query: (sql: string) => Promise<readonly Row[]>;
  readonly close: () => Promise<void>;
}

function database_(name: string, place: Place, link: TcpProxy | null, means: Means): FeedDatabase {
  const { query, table, text } = means;
  const columnsOf = async (view: string): Promise<ReadonlySet<unknown>> => {
    const end = means.columns.endsWith('(') ? ')' : '';
    const found = await query(`${means.columns}'${view}'${end}`);
    return new Set(found.map((row) => row['name']));
  };
  const read = async ({
    view,
    columns,
  }: ViewColumns): Promise<Pick<Kept, 'columns' | 'rows' | 'marked'>> => {
    const there = await columnsOf(view);
    const own = columns.filter((column) => there.has(column.name));
    const names = new Set(own.map(({ name }) => name));
    if (there.size === 0) return { columns: names, rows: null, marked: [] };
    const flag = there.has(DELETED) ? [{ name: DELETED, type: 'boolean' }] : [];
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
    close: means.close,
    open: (signal) => openTarget(configOf(place), signal),
    async read(views) {
      await query(means.begin);
      try {
        const known = (await columnsOf(CURSORS)).size > 0;
        const cursors = known
          ? await query(`SELECT view_name, epoch, cursor_text, shape FROM ${table(CURSORS)}`)
          : [];
        const kept = new Map<string, Kept>();
        for (const one of views) {
          const row = cursors.find(({ view_name: view }) => view === one.view);
          const found = await read(one);
          const isThere = row !== undefined && row['epoch'] !== null;
          const at = isThere ? placeOf(row['epoch'], row['cursor_text']) : null;
          const isIncomplete = row?.['shape'] === INCOMPLETE;
          kept.set(one.view, { at, isIncomplete, ...found });
        }
        return kept;
      } finally {
        await query('COMMIT');
      }
    },
  };
}

/** A view's rows as they are in the store, with values in the form of `canonical`. */
export function readView(exports: Exports, view: string) {
  const request = { view, since: null, deletions: false, sellerIds: null, counted: false };
  return exports.read(request, async ({ columns, batches, cursor }) => {
    const rows: Kept['marked'][number][] = [];
    for await (const batch of batches) {
      for (const row of batch) {
        const values = columns.map((one, n) => [one.name, canonical(one, row[n])] as const);
        rows.push(Object.fromEntries(values));
      }
    }
    return { columns, rows, cursor };
  });
}

/** The feed's settings. */
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

/** Epoch and number of a cursor. The moment that some cursors have is not compared. */
export function placeOf(epoch: unknown, cursor: unknown): string {
  return `${String(epoch)} ${String(cursor).replace(/@.*/, '')}`;
}

/** A value in one form, whichever database it is from: their texts differ in zeros, blanks and letters. */
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
