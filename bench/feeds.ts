import { createWriteStream } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pipeline } from 'node:stream/promises';
import { createConnection, type RowDataPacket } from 'mysql2/promise';
import { readConfig } from '#product/config/index.js';
import { openTarget } from '#product/reporting/feeds/open.js';
import { withExports } from '#product/reporting/exports.js';
import { startMariaDb } from '../test/support/mariadb.js';
import { measureJob } from './children.js';
import { BenchDatabase } from './database.js';
import type { BulkInput, BulkLoad } from './feed-jobs.js';
import { dataStatements } from './reporting.js';
import { withClient } from './servers.js';
import {
  atLeast,
  bounded,
  count,
  information,
  median,
  megabytes,
  milliseconds,
  progress,
  seconds,
  type Line,
} from './table.js';

const VIEWS = ['items', 'purchases'];
const INDEXED_COLUMN = 'purchased_at';
/** Maximum time of a delivery without changes (ms). */
const NIGHT_MS = 50;
const PEAK_BYTES = 200_000_000;
/** Minimum speed of a first load, compared with the server's own bulk load. */
const RATIO = 0.5;

/** A target of the feed. */
interface Place {
  readonly name: string;
  readonly kind: BulkInput['kind'] | 'folder';
  /** The feed's target in FEEDS_FILE. */
  readonly target: object;
  /** Address of the server, or path of the SQLite file or folder. */
  readonly url: string;
  /** Drops tables, or deletes the file or folder. */
  readonly drop: (tables: readonly string[]) => Promise<unknown>;
  /** Returns how many rows were ever inserted, changed or deleted; null if the target does not count them. */
  readonly written: (() => Promise<number>) | null;
}

/**
 * Measures first loads of the items and ten times as many purchases into each target, compared with the
 * server's own bulk load of the same rows, and nights without changes.
 */
export async function feedLines(items: number, loads: number, nights: number): Promise<Line[]> {
  const database = await BenchDatabase.open();
  const mariadb = await startMariaDb([]);
  try {
    progress('filling a store for feeds');
    // One code in eleven is invalid, and so no purchase. No support ends while the bench runs.
    for (const sql of dataStatements(items, items * 11)) {
      if (!/INTO mirror\.(?:sellers|runs|items|purchase_codes) |VACUUM/.test(sql)) continue;
      await database.admin.query(
        sql.replace("interval '1 day' * (n % 365)", "interval '1 day' * 0"),
      );
    }
    const lines: Line[] = [];
    for (const place of await places(database, await mariadb.database())) {
      lines.push(...(await measure(database, place, items, loads, nights)));
    }
    return lines;
  } finally {
    await mariadb.close();
    await database.close();
  }
}

async function measure(
  { url: databaseUrl, folder }: BenchDatabase,
  { name, kind, target, url, drop, written }: Place,
  items: number,
  loads: number,
  nights: number,
): Promise<Line[]> {
  progress(`a feed into ${name}`);
  const file = join(folder, `${kind}.json`);
  await writeFile(file, JSON.stringify({ feeds: [{ name: 'bench', views: VIEWS, ...target }] }));
  const settings = { DATABASE_URL: databaseUrl, FEEDS_FILE: file };
  const bulkLoads = kind === 'folder' ? [] : await prepareBulk(settings, kind, folder);
  const feedTimes: number[] = [];
  const bulkTimes: number[] = [];
  let peak = 0;
  for (let n = 0; n < loads; n++) {
    await drop([...VIEWS, ...VIEWS.map((view) => `bulk_${view}`), '_seller_mirror_feeds']);
    const first = await measureJob('feed', { databaseUrl, deliveries: 1 }, settings);
    feedTimes.push(first.ms);
    peak = Math.max(peak, first.peak);
    if (kind === 'folder') continue;
    bulkTimes.push((await measureJob('bulk', { kind, url, loads: bulkLoads })).ms);
  }
  const before = (await written?.()) ?? 0;
  const deliveries = nights + 1;
  const night = await measureJob('feed', { databaseUrl, deliveries }, settings);
  const rows = ((await written?.()) ?? 0) - before;
  const cursors = VIEWS.length * deliveries;
  const [ms, bulk] = [median(feedTimes), median(bulkTimes)];
  const what = `${name}: ${count(items)} items, ${count(items * 10)} purchases`;
  return [
    kind === 'folder'
      ? information(what, seconds(ms))
      : atLeast(what, seconds(ms), bulk / ms, RATIO, `its own bulk load (${seconds(bulk)})`),
    bounded(`${name}: an unchanged night`, night.ms, NIGHT_MS, milliseconds),
    ...(written === null
      ? []
      : [bounded(`${name}: rows written then, besides cursors`, rows - cursors, 0)]),
    bounded(`${name}: peak memory`, peak, PEAK_BYTES, megabytes),
  ];
}

/** Writes the rows of each view to a file that the server can load itself. */
async function prepareBulk(
  settings: Readonly<Record<'DATABASE_URL' | 'FEEDS_FILE', string>>,
  kind: BulkInput['kind'],
  folder: string,
): Promise<BulkLoad[]> {
  const { signal } = new AbortController();
  const [config] = readConfig(settings, { cwd: '/', needs: 'store', cronFault: () => null }).feeds;
  if (config === undefined) throw new Error('no feed');
  const target = await openTarget(config, signal);
  const all = { since: null, after: null, sellerIds: null, valueSql: target.valueSql };
  const loads: BulkLoad[] = [];
  await withExports(settings.DATABASE_URL, signal, async (exports) => {
    for (const view of VIEWS) {
      const file = join(folder, `${kind}.${view}`);
      const columns = await exports.lines({ ...all, view }, async (source) => {
        await pipeline(source.lines, createWriteStream(file));
        return source.columns.length;
      });
      loads.push({ table: `bulk_${view}`, file, columns, ...STATEMENTS[kind](view) });
    }
  });
  await target.close();
  return loads;
}

/** The statements before and after a bulk load into a table like that of the feed. */
const STATEMENTS: Readonly<
  Record<BulkInput['kind'], (view: string) => Pick<BulkLoad, 'before' | 'after'>>
> = {
  postgres: (view) => ({
    before: ['BEGIN', `CREATE TABLE bulk_${view} (LIKE ${view})`],
    after: [`ALTER TABLE bulk_${view} ADD PRIMARY KEY (${KEYS[view]})`, ...indexes(view), 'COMMIT'],
  }),
  mysql: (view) => ({
    before: [
      `CREATE TABLE bulk_${view} LIKE ${view}`,
      ...(view === 'purchases' ? [`DROP INDEX purchases_${INDEXED_COLUMN} ON bulk_purchases`] : []),
    ],
    after: indexes(view),
  }),
  sqlite: (view) => ({
    before: [
      'BEGIN',
      `CREATE TABLE bulk_${view} AS SELECT * FROM ${view} LIMIT 0`,
      `CREATE UNIQUE INDEX bulk_${view}_key ON bulk_${view} (${KEYS[view]})`,
    ],
    after: [...indexes(view), 'COMMIT'],
  }),
};
const KEYS: Readonly<Record<string, string>> = {
  items: 'seller_id, item_id',
  purchases: 'code_id',
};
const indexes = (view: string): string[] =>
  view === 'purchases'
    ? [`CREATE INDEX bulk_${INDEXED_COLUMN} ON bulk_purchases (${INDEXED_COLUMN})`]
    : [];

async function places({ folder, admin, server }: BenchDatabase, mysqlUrl: string) {
  await admin.query('CREATE DATABASE reports');
  const address = new URL(await server.adminUrl());
  address.pathname = '/reports';
  const postgresUrl = address.href;
  const dropSql = (tables: readonly string[]): string => `DROP TABLE IF EXISTS ${tables.join()}`;
  const sqlite = join(folder, 'reports.db');
  const lake = join(folder, 'lake');
  const all: Place[] = [
    {
      name: 'PostgreSQL',
      kind: 'postgres',
      target: { target: postgresUrl },
      url: postgresUrl,
      drop: (tables) => withClient(postgresUrl, (client) => client.query(dropSql(tables))),
      async written() {
        // The server counts a session's rows after the session has ended.
        await sleep(1_000);
        return withClient(postgresUrl, async (client) => {
          const { rows } = await client.query<{ n: number }>(
            'SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::int AS n FROM pg_stat_user_tables',
          );
          return Number(rows[0]?.n);
        });
      },
    },
    {
      name: 'MariaDB',
      kind: 'mysql',
      target: { target: mysqlUrl },
      url: mysqlUrl,
      drop: (tables) => queryMysql(mysqlUrl, dropSql(tables)),
      async written() {
        const rows = await queryMysql(
          mysqlUrl,
          `SHOW GLOBAL STATUS WHERE Variable_name IN ('Handler_write', 'Handler_update', 'Handler_delete')`,
        );
        return rows.reduce((sum, row) => sum + Number(row['Value']), 0);
      },
    },
    {
      name: 'SQLite',
      kind: 'sqlite',
      target: { target: `sqlite:${sqlite}` },
      url: sqlite,
      drop: () => rm(sqlite, { force: true }),
      written: null,
    },
    {
      name: 'Folder (Parquet)',
      kind: 'folder',
      target: { folder: lake },
      url: lake,
      drop: () => rm(lake, { recursive: true, force: true }),
      written: null,
    },
  ];
  return all;
}

/** Runs a statement on a connection of its own. */
async function queryMysql(url: string, sql: string): Promise<RowDataPacket[]> {
  const client = await createConnection(url);
  try {
    const [rows] = await client.query<RowDataPacket[]>(sql);
    return rows;
  } finally {
    await client.end();
  }
}
