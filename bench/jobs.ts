/**
 * What the bench measures in a process of its own: parts of the product, and simple ways of doing the same as
 * baselines. A job returns its duration (ms).
 */
import { createReadStream, readFileSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { Client } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { Agent, request } from 'undici';
import type { BulkInput, FeedInput } from './feed-jobs.js';
import { report } from './report.js';
import type { WriteInput } from './workbook.js';

/** The run as `sync items` runs it, from before its account check to its report. */
async function items(): Promise<number> {
  const { openApp } = await import('#product/app.js');
  const { loadConfig } = await import('#product/config/load.js');
  const { syncItems } = await import('#product/catalogue/sync-items.js');
  const { signal } = new AbortController();
  const config = loadConfig('sellers');
  const [seller] = config.sellers;
  if (seller === undefined) throw new Error('no seller');
  const app = await openApp(config, 'bench', signal);
  try {
    return await app.withMarketplace(seller, {}, async (deps) => {
      const started = performance.now();
      const { state, problem } = await syncItems(deps, signal);
      if (state !== 'succeeded') throw new Error(problem?.message ?? state);
      return performance.now() - started;
    });
  } finally {
    await app.close();
  }
}

/** Downloads the list, passes each chunk to `use`, and checks the status. */
async function download(
  listUrl: string,
  use: (chunk: Buffer) => void = () => undefined,
): Promise<void> {
  const { statusCode, body } = await request(listUrl);
  if (statusCode !== 200) throw new Error(`the marketplace answered ${statusCode}`);
  for await (const chunk of body as AsyncIterable<Buffer>) use(chunk);
}

/** Downloads the whole list and parses it with one `JSON.parse`. */
async function parse({ listUrl }: { listUrl: string }): Promise<number> {
  const started = performance.now();
  const chunks: Buffer[] = [];
  await download(listUrl, (chunk) => chunks.push(chunk));
  JSON.parse(Buffer.concat(chunks).toString());
  return performance.now() - started;
}

interface CopyInput {
  /** A list to download first; null for none. */
  readonly listUrl: string | null;
  readonly databaseUrl: string;
  /** Files of finished rows, each with its table and format. */
  readonly copies: readonly { readonly file: string; readonly into: string }[];
}

/** Copies finished rows from files, in one transaction. */
async function copy({ listUrl, databaseUrl, copies }: CopyInput): Promise<number> {
  const client = new Client(databaseUrl);
  await client.connect();
  const started = performance.now();
  if (listUrl !== null) await download(listUrl);
  await client.query('BEGIN');
  for (const { file, into } of copies) {
    const source = createReadStream(file, { highWaterMark: 1 << 20 });
    await pipeline(source, client.query(copyFrom(`COPY ${into}`)));
  }
  await client.query('COMMIT');
  const ms = performance.now() - started;
  await client.end();
  return ms;
}

interface SaleInput {
  readonly listUrl: string;
  readonly databaseUrl: string;
  /** The new rows in COPY's binary format. */
  readonly file: string;
}

/**
 * The minimum that a sale costs in PostgreSQL: COPY of the new rows, a version for each old row, two changes
 * for each item, and an UPDATE of every row. Nothing is compared or locked.
 */
async function sale({ listUrl, databaseUrl, file }: SaleInput): Promise<number> {
  const client = new Client(databaseUrl);
  await client.connect();
  const columnsOf = async (table: string): Promise<string[]> => {
    const { fields } = await client.query(`SELECT * FROM bench.${table} LIMIT 0`);
    return fields.map(({ name }) => name);
  };
  const columns = await columnsOf('items');
  const shared = (await columnsOf('item_versions')).filter((name) => columns.includes(name));
  const started = performance.now();
  await download(listUrl);
  await client.query(
    `BEGIN;
     CREATE TEMP TABLE incoming (LIKE bench.items) WITH (toast_tuple_target = 4080) ON COMMIT DROP`,
  );
  const source = createReadStream(file, { highWaterMark: 1 << 20 });
  await pipeline(source, client.query(copyFrom('COPY incoming FROM STDIN (FORMAT binary)')));
  await client.query(
    `INSERT INTO bench.item_versions (${shared.join(', ')}, valid_to, superseded_run_id)
     SELECT ${shared.join(', ')}, now(), 0 FROM bench.items;
     INSERT INTO bench.item_changes
            (seller_id, item_id, run_id, changed_at, class, field, old_value, new_value)
     SELECT i.seller_id, i.item_id, 0, now(), 'price', field, to_jsonb(old::text), to_jsonb(new::text)
       FROM bench.items i JOIN incoming w USING (seller_id, item_id)
      CROSS JOIN LATERAL (VALUES ('price_regular', i.price_regular, w.price_regular + 1),
                                 ('price_extended', i.price_extended, w.price_extended + 1))
              AS changed (field, old, new);
     UPDATE bench.items i
        SET ${columns.map((name) => `${name} = w.${name}`).join(', ')}
       FROM incoming w WHERE i.seller_id = w.seller_id AND i.item_id = w.item_id;
     COMMIT`,
  );
  const ms = performance.now() - started;
  await client.end();
  return ms;
}

/**
 * What a user would write with Prisma, from memory into the empty table: an upsert per row, 100 upserts in a
 * transaction, or `createMany`, which can't update.
 */
async function upsert(input: {
  databaseUrl: string;
  rows: number;
  how: 'single' | 'transaction' | 'createMany';
}): Promise<number> {
  const { openDb } = await import('#product/db/db.js');
  const db = openDb(input.databaseUrl, 'bench');
  const prisma = await db.prisma();
  const rows = await prisma.item.findMany({ take: input.rows });
  await prisma.$executeRawUnsafe('TRUNCATE mirror.items');
  const started = performance.now();
  const all = rows.map((row) => ({ ...row, extra: row.extra ?? {}, raw: row.raw ?? {} }));
  const upsertOf = (data: (typeof all)[number]) => {
    const { sellerId, itemId } = data;
    const where = { sellerId_itemId: { sellerId, itemId } };
    return prisma.item.upsert({ where, create: data, update: data });
  };
  if (input.how === 'single') for (const data of all) await upsertOf(data);
  else if (input.how === 'createMany') await prisma.item.createMany({ data: all });
  else {
    for (let at = 0; at < all.length; at += 100) {
      await prisma.$transaction(all.slice(at, at + 100).map(upsertOf));
    }
  }
  const ms = performance.now() - started;
  await db.close();
  return ms;
}

interface ValidateInput {
  readonly url: string;
  readonly key: string;
  readonly file: string;
  readonly concurrency: number;
}

/** Validates every code with a bare loop of undici, and discards the answers. */
async function validate({ url, key, file, concurrency }: ValidateInput): Promise<number> {
  const codes = readFileSync(file, 'utf8').trim().split('\n').values();
  const dispatcher = new Agent({ connections: concurrency });
  const headers = {
    'content-type': 'application/x-www-form-urlencoded',
    accept: 'application/json',
  };
  const loop = async (): Promise<void> => {
    for (const code of codes) {
      const body = new URLSearchParams({ api_key: key, purchase_code: code }).toString();
      const options = { method: 'POST', headers, body, dispatcher } as const;
      const answer = await request(`${url}/api/purchases/validation`, options);
      await answer.body.dump();
    }
  };
  const started = performance.now();
  await Promise.all(Array.from({ length: concurrency }, loop));
  const ms = performance.now() - started;
  await dispatcher.close();
  return ms;
}

const jobs = {
  items,
  parse,
  copy,
  sale,
  upsert,
  validate,
  feed: async (input: FeedInput) => (await import('./feed-jobs.js')).feed(input),
  bulk: async (input: BulkInput) => (await import('./feed-jobs.js')).bulk(input),
  writeResult: async (input: WriteInput) => (await import('./workbook.js')).writeResult(input),
  readList: async (input: { file: string }) => (await import('./workbook.js')).readList(input),
};
export type Jobs = typeof jobs;

const { name, input } = JSON.parse(process.argv[2] ?? 'null') as {
  name: keyof Jobs;
  input: never;
};
report(await jobs[name](input));
