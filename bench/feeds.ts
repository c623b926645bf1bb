import { createWriteStream } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createConnection, type RowDataPacket } from 'mysql2/promise';
import { readConfig } from '#product/config/index.js';
import { openDb } from '#product/db/db.js';
import { withDelivery } from '#product/reporting/feeds/open.js';
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
/** Maximum time of a delivery without changes, and of one with a single changed purchase (ms). */
const NIGHT_MS = 1_500;
const ONE_ROW_MS = 5_000;
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
}

/**
 * Measures first loads of the items and ten times as many purchases into each target, compared with the
 * server's own bulk load of the same rows; nights without changes and with one; and full comparisons.
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
  { url: databaseUrl, folder, admin }: BenchDatabase,
  { name, kind, target, url, drop }: Place,
  items: number,
  loads: number,
  nights: number,
): Promise<Line[]> {
  progress(`a feed into ${name}`);
  const file = join(folder, `${kind}.json`);
  await writeFile(file, JSON.stringify({ feeds: [{ name: 'bench', views: VIEWS, ...target }] }));
  const settings = { DATABASE_URL: databaseUrl, FEEDS_FILE: file };
  const bulkLoads = kind === 'folder' ? [] : await prepareBulk(settings, kind, folder);
  const deliver = (deliveries: number, isFull = false) =>
    measureJob('feed', { databaseUrl, deliveries, isFull }, settings);
  const feedTimes: number[] = [];
  const bulkTimes: number[] = [];
  let peak = 0;
  for (let n = 0; n < loads; n++) {
    await drop([...VIEWS, ...VIEWS.map((view) => `bulk_${view}`), '_seller_mirror']);
    await admin.query('DELETE FROM mirror.feed_views');
    const first = await deliver(1);
    feedTimes.push(first.ms);
    peak = Math.max(peak, first.peak);
    if (kind === 'folder') continue;
    bulkTimes.push((await measureJob('bulk', { kind, url, loads: bulkLoads })).ms);
  }
  const night = await deliver(nights + 1);
  await admin.query(
    `UPDATE mirror.purchase_codes SET price = price + 1
      WHERE code_id = (SELECT max(code_id) FROM mirror.purchase_codes WHERE verdict = 'valid')`,
  );
  const one = await deliver(1);
  const full = await deliver(1, true);
  const [ms, bulk] = [median(feedTimes), median(bulkTimes)];
  const what = `${name}: ${count(items)} items, ${count(items * 10)} purchases`;
  return [
    kind === 'folder'
      ? information(what, seconds(ms))
      : atLeast(what, seconds(ms), bulk / ms, RATIO, `its own bulk load (${seconds(bulk)})`),
    bounded(`${name}: an unchanged night`, night.ms, NIGHT_MS, milliseconds),
    ...(kind === 'folder'
      ? []
      : [bounded(`${name}: one changed row`, one.ms, ONE_ROW_MS, milliseconds)]),
    information(`${name}: a full comparison`, seconds(full.ms)),
    information(`${name}: peak memory of it`, megabytes(full.peak)),
    bounded(`${name}: peak memory of a first load`, peak, PEAK_BYTES, megabytes),
  ];
}

/** Writes the rows of each view to a file that the server can load itself. */
async function prepareBulk(
  settings: Readonly<Record<'DATABASE_URL' | 'FEEDS_FILE', string>>,
  kind: BulkInput['kind'],
  folder: string,
): Promise<BulkLoad[]> {
  const { signal } = new AbortController();
  const [config] = readConfig(settings, { cwd: '/', needs: 'store' }).feeds;
  if (config === undefined) throw new Error('no feed');
  const loads: BulkLoad[] = [];
  const db = openDb(settings.DATABASE_URL, 'bench');
  await withDelivery(db, config, { signal, isFull: false }, async (delivery) => {
    for (const view of VIEWS) {
      const file = join(folder, `${kind}.${view}`);
      const content = await delivery.contentOf(view);
      await delivery.snapshot.lines(content, 'all', delivery.target.valueSql, (lines) =>
        pipeline(lines, createWriteStream(file)),
      );
      const columns = content.columns.length + 2;
      loads.push({ table: `bulk_${view}`, file, columns, ...STATEMENTS[kind](view) });
    }
  });
  await db.close();
  return loads;
}

/** The statements before and after a bulk load into a table like that of the feed. */
const STATEMENTS: Readonly<
  Record<BulkInput['kind'], (view: string) => Pick<BulkLoad, 'before' | 'after'>>
> = {
  postgres: (view) => ({
    before: ['BEGIN', `CREATE TABLE bulk_${view} (LIKE ${view})`],
    after: [`ALTER TABLE bulk_${view} ADD PRIMARY KEY (${KEYS[view]})`, 'COMMIT'],
  }),
  mysql: (view) => ({
    before: [
      `CREATE TABLE bulk_${view} LIKE ${view}`,
      `ALTER TABLE bulk_${view} DROP COLUMN _check`,
    ],
    after: [],
  }),
  sqlite: (view) => ({
    before: [
      'BEGIN',
      `CREATE TABLE bulk_${view} AS SELECT * FROM ${view} LIMIT 0`,
      `ALTER TABLE bulk_${view} DROP COLUMN _check`,
      `CREATE UNIQUE INDEX bulk_${view}_key ON bulk_${view} (${KEYS[view]})`,
    ],
    after: ['COMMIT'],
  }),
};
const KEYS: Readonly<Record<string, string>> = {
  items: 'seller_id, item_id',
  purchases: 'code_id',
};

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
    },
    {
      name: 'MariaDB',
      kind: 'mysql',
      target: { target: mysqlUrl },
      url: mysqlUrl,
      drop: (tables) => queryMysql(mysqlUrl, dropSql(tables)),
    },
    {
      name: 'SQLite',
      kind: 'sqlite',
      target: { target: `sqlite:${sqlite}` },
      url: sqlite,
      drop: () => rm(sqlite, { force: true }),
    },
    {
      name: 'Folder (Parquet)',
      kind: 'folder',
      target: { folder: lake },
      url: lake,
      drop: () => rm(lake, { recursive: true, force: true }),
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
