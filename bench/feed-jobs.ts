import { createReadStream } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { pipeline } from 'node:stream/promises';
import type LibSql from 'libsql';
import { loadConfig } from '#product/config/load.js';
import { openDb } from '#product/db/db.js';
import { runFeed } from '#product/reporting/feeds/open.js';
import { median } from './table.js';

export interface FeedInput {
  readonly databaseUrl: string;
  readonly deliveries: number;
  /** Whether to look for rows that were edited in the target. */
  readonly isFull: boolean;
}

/**
 * Delivers the feed of FEEDS_FILE.
 * @returns the time of a single delivery, or the median of all but the first, which loads the driver (ms)
 */
export async function feed({ databaseUrl, deliveries, isFull }: FeedInput): Promise<number> {
  const [config] = loadConfig('store').feeds;
  if (config === undefined) throw new Error('no feed');
  const { signal } = new AbortController();
  const durations: number[] = [];
  const db = openDb(databaseUrl, 'bench');
  for (let n = 0; n < deliveries; n++) {
    const started = performance.now();
    const reports = await runFeed(db, config, { signal, isFull });
    durations.push(performance.now() - started);
    const problem = reports.find((one) => one.problem !== null)?.problem;
    if (problem) throw new Error(problem.message);
  }
  await db.close();
  return median(deliveries === 1 ? durations : durations.slice(1));
}

/** A file of rows, and the statements before and after it is loaded into a table. */
export interface BulkLoad {
  readonly table: string;
  readonly file: string;
  readonly columns: number;
  readonly before: readonly string[];
  readonly after: readonly string[];
}

export interface BulkInput {
  readonly kind: keyof typeof OPEN;
  /** Address of the server, or path of the SQLite file. */
  readonly url: string;
  readonly loads: readonly BulkLoad[];
}

/** Loads the same rows as a feed by the server's own bulk load. @returns milliseconds */
export async function bulk({ kind, url, loads }: BulkInput): Promise<number> {
  const database = await OPEN[kind](url);
  const started = performance.now();
  for (const load of loads) {
    for (const sql of load.before) await database.run(sql);
    await database.fill(load);
    for (const sql of load.after) await database.run(sql);
  }
  const ms = performance.now() - started;
  await database.close();
  return ms;
}

interface BulkDatabase {
  readonly run: (sql: string) => unknown;
  readonly fill: (load: BulkLoad) => Promise<unknown>;
  readonly close: () => unknown;
}

/** Loads only the driver that is needed, because the bench also measures memory. */
const OPEN = {
  async postgres(url: string): Promise<BulkDatabase> {
    const { Client } = await import('pg');
    const { from } = await import('pg-copy-streams');
    const client = new Client(url);
    await client.connect();
    return {
      run: (sql) => client.query(sql),
      fill: ({ table, file }) =>
        pipeline(createReadStream(file), client.query(from(`COPY ${table} FROM STDIN`))),
      close: () => client.end(),
    };
  },
  async mysql(url: string): Promise<BulkDatabase> {
    const { createConnection } = await import('mysql2/promise');
    const client = await createConnection({ uri: url, charset: 'utf8mb4' });
    return {
      run: (sql) => client.query(sql),
      fill: ({ table, file }) =>
        client.query({
          sql: `LOAD DATA LOCAL INFILE 'rows' INTO TABLE ${table} CHARACTER SET utf8mb4`,
          infileStreamFactory: () => createReadStream(file),
        }),
      close: () => client.end(),
    };
  },
  sqlite(path: string): Promise<BulkDatabase> {
    const Database = createRequire(import.meta.url)('libsql') as typeof LibSql;
    const database = new Database(path);
    return Promise.resolve({
      run: (sql) => database.exec(sql),
      async fill({ table, file, columns }) {
        const places = Array.from({ length: columns }, () => '?').join();
        const insert = database.prepare(`INSERT INTO ${table} VALUES (${places})`);
        for await (const line of createInterface(createReadStream(file))) {
          insert.run(...line.split('\t').map((cell) => (cell === '\\N' ? null : cell)));
        }
      },
      close: () => database.close(),
    });
  },
};
