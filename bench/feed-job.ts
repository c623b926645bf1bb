/** Measured: a feed's first load and its unchanged nights, or the server's own bulk load of the same rows. */
import { createReadStream } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { pipeline } from 'node:stream/promises';
import type LibSql from 'libsql';
import { createConnection } from 'mysql2/promise';
import { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { loadConfig } from '#product/config/index.js';
import { runFeed } from '#product/feeds/open.js';
import { given, tell } from './tell.js';

export type FeedJob =
  | { readonly kind: 'feed'; readonly databaseUrl: string; readonly nights: number }
  | {
      readonly kind: 'postgres' | 'mysql' | 'sqlite';
      readonly place: string;
      readonly loads: readonly BulkLoad[];
    };

/** Statements that make a table, a file that fills it, and statements that complete it. */
export interface BulkLoad {
  readonly table: string;
  readonly file: string;
  readonly columns: number;
  readonly before: readonly string[];
  readonly after: readonly string[];
}

const job = given() as FeedJob;

async function timed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

async function feed({ databaseUrl, nights }: Extract<FeedJob, { kind: 'feed' }>): Promise<object> {
  const [config] = loadConfig('store', () => null).feeds;
  if (config === undefined) throw new Error('no feed');
  const deliver = async (): Promise<void> => {
    const reports = await runFeed(databaseUrl, config, { signal: new AbortController().signal });
    const problem = reports.find((one) => one.problem !== null)?.problem;
    if (problem) throw new Error(problem.message);
  };
  const ms = nights > 0 ? 0 : await timed(deliver);
  const unchanged: number[] = [];
  for (let n = 0; n < nights; n++) unchanged.push(await timed(deliver));
  return { ms, unchanged };
}

async function bulk({ kind, place, loads }: Exclude<FeedJob, { kind: 'feed' }>): Promise<object> {
  if (kind === 'postgres') {
    const client = new Client(place);
    await client.connect();
    const ms = await timed(async () => {
      for (const { table, file, before, after } of loads) {
        for (const sql of ['BEGIN', ...before]) await client.query(sql);
        await pipeline(createReadStream(file), client.query(copyFrom(`COPY ${table} FROM STDIN`)));
        for (const sql of [...after, 'COMMIT']) await client.query(sql);
      }
    });
    await client.end();
    return { ms };
  }
  if (kind === 'mysql') {
    const client = await createConnection({ uri: place, charset: 'utf8mb4' });
    const ms = await timed(async () => {
      for (const { table, file, before, after } of loads) {
        for (const sql of before) await client.query(sql);
        await client.query({
          sql: `LOAD DATA LOCAL INFILE 'rows' INTO TABLE ${table} CHARACTER SET utf8mb4`,
          infileStreamFactory: () => createReadStream(file),
        });
        for (const sql of after) await client.query(sql);
      }
    });
    await client.end();
    return { ms };
  }
  const Database = createRequire(import.meta.url)('libsql') as typeof LibSql;
  const database = new Database(place);
  const ms = await timed(async () => {
    for (const { table, file, columns, before, after } of loads) {
      for (const sql of ['BEGIN', ...before]) database.exec(sql);
      const insert = database.prepare(
        `INSERT INTO ${table} VALUES (${'?,'.repeat(columns).slice(0, -1)})`,
      );
      for await (const line of createInterface(createReadStream(file))) {
        insert.run(...line.split('\t').map((cell) => (cell === '\\N' ? null : cell)));
      }
      for (const sql of [...after, 'COMMIT']) database.exec(sql);
    }
  });
  database.close();
  return { ms };
}

tell(job.kind === 'feed' ? await feed(job) : await bulk(job));
