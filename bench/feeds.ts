import { execFileSync, spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pipeline } from 'node:stream/promises';
import { createConnection } from 'mysql2/promise';
import { Client } from 'pg';
import { loadConfig } from '#product/config/index.js';
import { openTarget } from '#product/feeds/open.js';
import { withExports } from '#product/store/exports.js';
import { measureFeed } from './children.js';
import { BenchDatabase } from './database.js';
import type { BulkLoad } from './feed-job.js';
import { dataStatements } from './reporting.js';
import {
  atLeast,
  bounded,
  count,
  information,
  median,
  megabytes,
  seconds,
  type Line,
} from './table.js';

const VIEWS = ['items', 'purchases'];
const INDEXED = 'purchased_at';
const NIGHT_MS = 50;
const PEAK_BYTES = 200_000_000;
const RATIO = 0.5;

/** A database or folder that takes the feed. */
interface Place {
  readonly name: string;
  readonly kind: 'postgres' | 'mysql' | 'sqlite' | 'folder';
  /** As FEEDS_FILE has it. */
  readonly feed: object;
  /** For the bulk load. */
  readonly url: string;
  readonly exec: (sql: string) => Promise<unknown>;
  /** How many rows were ever inserted, changed or deleted. */
  readonly written: (() => Promise<number>) | null;
}

/**
 * Measures first loads of 100,000 items and ten times as many purchases into each target beside its
 * server's own bulk load of the same rows, and nights in which nothing has changed.
 */
export async function feedLines(items: number, loads: number, nights: number): Promise<Line[]> {
  const database = await BenchDatabase.open();
  const mariadb = await startMariaDb(database.folder);
  try {
    process.stderr.write('  filling a store for feeds\n');
    // One code of eleven is invalid, and so no purchase. No support ends while the bench goes on.
    for (const sql of dataStatements(items, items * 11)) {
      if (!/INTO mirror\.(?:sellers|runs|items|purchase_codes) |VACUUM/.test(sql)) continue;
      await database.admin.query(
        sql.replace("interval '1 day' * (n % 365)", "interval '1 day' * 0"),
      );
    }
    const lines: Line[] = [];
    for (const place of await places(database, mariadb.url)) {
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
  { name, kind, feed, url, exec, written }: Place,
  items: number,
  loads: number,
  nights: number,
): Promise<Line[]> {
  process.stderr.write(`  a feed into ${name}\n`);
  const file = join(folder, `${kind}.json`);
  await writeFile(file, JSON.stringify({ feeds: [{ name: 'bench', views: VIEWS, ...feed }] }));
  const settings = { DATABASE_URL: databaseUrl, FEEDS_FILE: file };
  const bulkLoads = await prepare(databaseUrl, settings, kind, folder);
  const [feeds, bulks, peaks]: number[][] = [[], [], []];
  for (let n = 0; n < loads; n++) {
    for (const table of [
      ...VIEWS,
      '_seller_mirror_feeds',
      ...VIEWS.map((view) => `bulk_${view}`),
    ]) {
      await exec(`DROP TABLE IF EXISTS ${table}`);
    }
    const first = await measureFeed({ kind: 'feed', databaseUrl, nights: 0 }, settings);
    feeds?.push(first.ms);
    peaks?.push(first.peak);
    if (kind !== 'folder')
      bulks?.push((await measureFeed({ kind, place: url, loads: bulkLoads }, settings)).ms);
  }
  const before = (await written?.()) ?? 0;
  const unchanged = await measureFeed({ kind: 'feed', databaseUrl, nights: nights + 1 }, settings);
  // The first one of a process loads the driver.
  const night = median(unchanged.unchanged?.slice(1) ?? []);
  const rows = ((await written?.()) ?? 0) - before;
  const cursors = VIEWS.length * (nights + 1);
  const [ms, bulk] = [median(feeds ?? []), median(bulks ?? [])];
  const what = `${name}: ${count(items)} items, ${count(items * 10)} purchases`;
  return [
    kind === 'folder'
      ? information(what, seconds(ms))
      : atLeast(what, seconds(ms), bulk / ms, RATIO, `its own bulk load (${seconds(bulk)})`),
    bounded(`${name}: an unchanged night`, night, NIGHT_MS, (one) => `${one.toFixed(0)} ms`),
    ...(written === null
      ? []
      : [bounded(`${name}: rows written then, beside cursors`, rows - cursors, 0)]),
    bounded(`${name}: peak memory`, Math.max(...(peaks ?? [])), PEAK_BYTES, megabytes),
  ];
}

/** Writes the rows into files, as the server loads them by itself. */
async function prepare(
  databaseUrl: string,
  settings: Readonly<Record<string, string>>,
  kind: Place['kind'],
  folder: string,
): Promise<BulkLoad[]> {
  const { signal } = new AbortController();
  Object.assign(process.env, settings);
  const [config] = loadConfig('store', () => null).feeds;
  if (config === undefined) throw new Error('no feed');
  const target = await openTarget(config, signal);
  const loads: BulkLoad[] = [];
  if (kind !== 'folder') {
    await withExports(databaseUrl, signal, async (exports) => {
      for (const view of VIEWS) {
        const file = join(folder, `${kind}.${view}`);
        const request = {
          view,
          since: null,
          after: null,
          sellerIds: null,
          valueSql: target.valueSql,
        };
        const columns = await exports.lines(request, async (source) => {
          await pipeline(source.lines, createWriteStream(file));
          return source.columns.length;
        });
        loads.push({ table: `bulk_${view}`, file, columns, ...STATEMENTS[kind](view) });
      }
    });
  }
  await target.close();
  return loads;
}

/** Statements before and after a bulk load into a table like that of the feed. */
const STATEMENTS: Readonly<
  Record<'postgres' | 'mysql' | 'sqlite', (view: string) => Pick<BulkLoad, 'before' | 'after'>>
> = {
  postgres: (view) => ({
    before: [`CREATE TABLE bulk_${view} (LIKE ${view})`],
    after: [`ALTER TABLE bulk_${view} ADD PRIMARY KEY (${KEYS[view]})`, ...indexes(view)],
  }),
  mysql: (view) => ({
    before: [
      `CREATE TABLE bulk_${view} LIKE ${view}`,
      ...(view === 'purchases' ? [`DROP INDEX purchases_${INDEXED} ON bulk_purchases`] : []),
    ],
    after: indexes(view),
  }),
  sqlite: (view) => ({
    before: [
      `CREATE TABLE bulk_${view} AS SELECT * FROM ${view} LIMIT 0`,
      `CREATE UNIQUE INDEX bulk_${view}_key ON bulk_${view} (${KEYS[view]})`,
    ],
    after: indexes(view),
  }),
};
const KEYS: Readonly<Record<string, string>> = {
  items: 'seller_id, item_id',
  purchases: 'code_id',
};
const indexes = (view: string): string[] =>
  view === 'purchases' ? [`CREATE INDEX bulk_${INDEXED} ON bulk_purchases (${INDEXED})`] : [];

async function places({ folder, server }: BenchDatabase, mysqlUrl: string): Promise<Place[]> {
  const target = new URL(await server.adminUrl());
  const admin = new Client(target.href);
  await admin.connect();
  await admin.query('CREATE DATABASE reports');
  await admin.end();
  target.pathname = '/reports';
  const inPostgres = async (sql: string): Promise<Record<string, unknown>[]> => {
    const client = new Client(target.href);
    await client.connect();
    const { rows } = await client.query<Record<string, unknown>>(sql);
    await client.end();
    return rows;
  };
  const inMysql = async (sql: string): Promise<Record<string, unknown>[]> => {
    const client = await createConnection(mysqlUrl);
    const [rows] = await client.query(sql);
    await client.end();
    return rows as Record<string, unknown>[];
  };
  const sqlite = join(folder, 'reports.db');
  const lake = join(folder, 'lake');
  return [
    {
      name: 'PostgreSQL',
      kind: 'postgres',
      feed: { target: target.href },
      url: target.href,
      exec: inPostgres,
      async written() {
        // The server counts when a session has ended.
        await sleep(1_000);
        const [row] = await inPostgres(
          'SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::int AS n FROM pg_stat_user_tables',
        );
        return Number(row?.['n']);
      },
    },
    {
      name: 'MariaDB',
      kind: 'mysql',
      feed: { target: mysqlUrl },
      url: mysqlUrl,
      exec: inMysql,
      async written() {
        const rows = await inMysql(
          `SHOW GLOBAL STATUS WHERE Variable_name IN ('Handler_write', 'Handler_update', 'Handler_delete')`,
        );
        return rows.reduce((sum, { Value }) => sum + Number(Value), 0);
      },
    },
    {
      name: 'SQLite',
      kind: 'sqlite',
      feed: { target: `sqlite:${sqlite}` },
      url: sqlite,
      exec: () => rm(sqlite, { force: true }),
      written: null,
    },
    {
      name: 'Folder (Parquet)',
      kind: 'folder',
      feed: { folder: lake },
      url: lake,
      exec: () => rm(lake, { recursive: true, force: true }),
      written: null,
    },
  ];
}

async function startMariaDb(parent: string): Promise<{ url: string; close(): Promise<void> }> {
  const folder = join(parent, 'mariadb');
  await mkdir(folder);
  const [data, socket, user] = [join(folder, 'data'), join(folder, 's'), userInfo().username];
  // A server that starts deletes the temporary tables of others in a folder that they share.
  const places = ['--no-defaults', `--datadir=${data}`, `--tmpdir=${folder}`, `--user=${user}`];
  execFileSync('mariadb-install-db', [
    ...places,
    '--auth-root-authentication-method=normal',
    '--skip-test-db',
  ]);
  const server = spawn('mariadbd', [...places, `--socket=${socket}`, '--skip-networking'], {
    stdio: 'ignore',
  });
  const ended = new Promise((resolve) => server.once('exit', resolve));
  for (let tries = 0; ; tries++) {
    try {
      const client = await createConnection({ socketPath: socket, user: 'root' });
      await client.query('CREATE DATABASE reports CHARACTER SET utf8mb4');
      await client.end();
      break;
    } catch (error) {
      if (tries > 300) throw error;
      await sleep(100);
    }
  }
  return {
    url: `mysql://root@localhost/reports?socketPath=${encodeURIComponent(socket)}`,
    async close() {
      server.kill('SIGKILL');
      await ended;
    },
  };
}
