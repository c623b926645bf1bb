/** Baseline: COPY of the same lines into a table of their own. */
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { given, tell } from '../tell.js';

export interface CopyLinesInput {
  readonly databaseUrl: string;
  readonly file: string;
}

const { databaseUrl, file } = given() as CopyLinesInput;
const client = new Client(databaseUrl);
await client.connect();
await client.query('DROP TABLE IF EXISTS bench_lines; CREATE TABLE bench_lines (code text)');
const started = performance.now();
await pipeline(
  createReadStream(file, { highWaterMark: 1 << 20 }),
  client.query(copyFrom('COPY bench_lines FROM STDIN')),
);
const ms = performance.now() - started;
await client.query('DROP TABLE bench_lines');
await client.end();
tell({ ms });
