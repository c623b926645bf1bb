/** Baseline: download of the whole list, then COPY of the finished rows from a file. */
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { given, skim, tell } from './tell.js';

export interface CopyInput {
  readonly listUrl: string;
  readonly databaseUrl: string;
  readonly file: string;
  readonly copy: string;
}

const { listUrl, databaseUrl, file, copy } = given() as CopyInput;
const client = new Client(databaseUrl);
await client.connect();
const started = performance.now();
await skim(listUrl);
const downloaded = performance.now();
await pipeline(createReadStream(file, { highWaterMark: 1 << 20 }), client.query(copyFrom(copy)));
const copied = performance.now();
await client.end();
tell({ ms: copied - started, downloadMs: downloaded - started });
