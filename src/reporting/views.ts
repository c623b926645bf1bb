import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { escapeLiteral, type Client } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { viewFacts, type ViewFacts } from '../domain/reporting-views.js';
import { openOwnClient, type OwnClient } from '../db/pools.js';
import { openTextCursor, type TextRow } from '../db/text-cursor.js';
import type { KeyRow, Sums } from './feeds/plan.js';

export interface ViewColumn {
  readonly name: string;
  /** PostgreSQL's type name with modifiers, such as `numeric(14,2)`. */
  readonly type: string;
}

export interface ReportingView extends ViewFacts {
  readonly name: string;
  readonly comment: string | null;
  readonly bySeller: boolean;
  readonly columns: readonly ViewColumn[];
}

/** Reads views over one connection, opened at first use. */
export class Views {
  readonly #url: string;
  readonly #signal: AbortSignal;
  #own: OwnClient | null = null;

  constructor(url: string, signal: AbortSignal) {
    this.#url = url;
    this.#signal = signal;
  }

  /** Opens the connection now, to save time at first use. */
  connect(): Promise<void> {
    return this.#use(() => Promise.resolve());
  }

  list(): Promise<ReportingView[]> {
    return this.#use(async (client) => {
      const { rows } = await client.query<Pick<ReportingView, 'name' | 'comment' | 'columns'>>(
        `SELECT c.relname AS name, obj_description(c.oid, 'pg_class') AS comment,
                (SELECT json_agg(json_build_object('name', attname, 'type', format_type(atttypid, atttypmod))
                                 ORDER BY attnum)
                   FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped) AS columns
           FROM pg_class c WHERE c.relnamespace = 'reporting'::regnamespace AND c.relkind IN ('v', 'm')
          ORDER BY c.relname`,
      );
      return rows.map((view) => ({
        ...view,
        ...viewFacts(view.name),
        bySeller: view.columns.some(({ name }) => name === 'seller_id'),
      }));
    });
  }

  sellers(): Promise<string[]> {
    return this.#use(sellersOf);
  }

  /** Passes all rows of a view, as of one moment, to `consume`, in bounded memory. */
  read<T>(request: ReadRequest, consume: (read: ReadView) => Promise<T>): Promise<T> {
    const { view, sellers } = request;
    return this.snapshot(null, async ({ client }) => {
      const known = (await this.list()).find(({ name }) => name === view);
      if (known === undefined) throw new Error(`there is no view ${view}`);
      const sql = rowsSql({ view, columns: known.columns, sellers, hashed: [] });
      const total = request.counted ? await count(client, sql) : null;
      const rows = await openTextCursor(client, sql);
      const result = await consume({ columns: known.columns, batches: rows.batches, total });
      await rows.close();
      return result;
    });
  }

  /**
   * Runs `work` with one snapshot of the store.
   * @param salt of columns that are delivered as a hash; it is in no statement
   */
  snapshot<T>(salt: string | null, work: (snapshot: Snapshot) => Promise<T>): Promise<T> {
    return this.#use(async (client) => {
      const before = await readNumber(client);
      await client.query(BEGIN);
      await client.query(`SELECT set_config('seller_mirror.salt', $1, true)`, [salt ?? '']);
      const { number } = await readNumber(client);
      // The same number on both sides of the beginning, and nobody about to commit an earlier one.
      const isSettled = before.isSettled && before.number === number;
      const result = await work(new Snapshot(client, isSettled ? number : null));
      await client.query('COMMIT');
      return result;
    });
  }

  async close(): Promise<void> {
    const own = this.#own;
    this.#own = null;
    await own?.end();
  }

  /** Closes the connection after a failure, since its state is unknown. The next use opens another. */
  async #use<T>(work: (client: Client) => Promise<T>): Promise<T> {
    this.#own ??= await openOwnClient(this.#url, 'export', this.#signal);
    try {
      return await work(this.#own.client);
    } catch (error) {
      await this.close();
      throw error;
    }
  }
}

export async function withViews<T>(
  url: string,
  signal: AbortSignal,
  work: (views: Views) => Promise<T>,
): Promise<T> {
  const views = new Views(url, signal);
  try {
    return await work(views);
  } finally {
    await views.close();
  }
}

interface ReadRequest {
  readonly view: string;
  /** Only rows of these sellers; null: all. */
  readonly sellers: readonly string[] | null;
  /** Whether to count the rows first, which takes about as long as reading them. */
  readonly counted: boolean;
}

export interface ReadView {
  readonly columns: readonly ViewColumn[];
  readonly batches: AsyncIterable<readonly TextRow[]>;
  /** Number of rows; null if not counted. */
  readonly total: number | null;
}

/** The part of a view that a feed delivers. */
export interface Content {
  readonly view: string;
  readonly columns: readonly ViewColumn[];
  /** Null: all sellers. */
  readonly sellers: readonly string[] | null;
  /** Columns that are delivered as a salted hash. */
  readonly hashed: readonly string[];
  /** Columns that identify a row; null: none do, or rows are not compared one by one. */
  readonly key: readonly string[] | null;
  /** Columns by which rows are sorted if all are read. */
  readonly order: readonly string[];
  /** Column with the end of a state; null if there is none. */
  readonly endedAt: string | null;
}

/** States of a seller that ended before `since` may be gone from the store, and are not compared. */
export interface HistoryLimit {
  readonly seller: string;
  /** ISO 8601 in UTC, with microseconds. */
  readonly since: string;
}

/** Rows to read: all, or those with these keys. */
export type Wanted = 'all' | readonly KeyRow[];

/**
 * Standard value formats come from the connection. No timeouts, since readers may be slow. JIT compilation of
 * the statement for a night's changes would take seconds; running it takes milliseconds.
 */
const BEGIN = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
  SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
  SET LOCAL jit = off`;

/** The last change number, and whether no writer is about to commit one. */
async function readNumber(client: Client): Promise<{ number: string; isSettled: boolean }> {
  // First the number, then the locks that writers hold from their first number to their commit.
  const { rows } = await client.query<{ number: string }>(
    `SELECT last_value || ' ' || is_called AS number FROM mirror.item_changes_seq_seq`,
  );
  const locks = await client.query(
    `SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (classid::bigint << 32) | objid::bigint IN (
          hashtextextended('seller-mirror/purchases', 0), hashtextextended('seller-mirror/item-changes', 0))`,
  );
  return { number: rows[0]?.number ?? '', isSettled: locks.rows.length === 0 };
}

async function sellersOf(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    'SELECT seller_id AS name FROM mirror.sellers ORDER BY 1',
  );
  return rows.map(({ name }) => name);
}

/** The store as of one moment. */
export class Snapshot {
  constructor(
    readonly client: Client,
    /** The last change number; null if writers were about to commit earlier ones. */
    readonly number: string | null,
  ) {}

  sellers(): Promise<string[]> {
    return sellersOf(this.client);
  }

  async historyLimits(): Promise<HistoryLimit[]> {
    const { rows } = await this.client.query<HistoryLimit>(
      `SELECT seller_id AS seller, to_char(history_since, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS since
         FROM mirror.sellers WHERE history_since IS NOT NULL ORDER BY 1`,
    );
    return rows;
  }

  /**
   * A text that stays the same as long as the sums of this content do; null if that can't be told.
   * @param salt that `hashed` columns use
   */
  async stateOf(content: Content, limits: readonly HistoryLimit[], salt: string | null) {
    const { isNumbered, changesAt } = viewFacts(content.view);
    if (!isNumbered || this.number === null) return null;
    const passed = changesAt === null ? null : await this.#lastPassed(content.view, changesAt);
    const definition = await this.#definition(content.view);
    // A seller may get another name without a change number.
    const state = [content, definition, limits, await this.sellers(), salt, passed, this.number];
    return createHash('sha256').update(JSON.stringify(state)).digest('hex');
  }

  /** A new version of this program may define a view in another way. */
  async #definition(view: string): Promise<string> {
    const { rows } = await this.client.query<{ sql: string }>(
      `SELECT pg_get_viewdef(to_regclass($1)) AS sql`,
      [`reporting."${view}"`],
    );
    return rows[0]?.sql ?? '';
  }

  async #lastPassed(view: string, column: string): Promise<string | null> {
    const { rows } = await this.client.query<{ at: string }>(
      `SELECT "${column}"::text AS at FROM reporting."${view}"
        WHERE "${column}" <= now() ORDER BY "${column}" DESC LIMIT 1`,
    );
    return rows[0]?.at ?? null;
  }

  /** Number of rows and sum of their hashes, in each bucket. */
  async sums(content: Content, limits: readonly HistoryLimit[]): Promise<Sums> {
    const { rows } = await this.client.query<{ bucket: number; rows: string; sum: string }>(
      `SELECT _bucket AS bucket, count(*)::text AS rows, sum(_hash)::text AS sum
         FROM (${hashedSql(content)}) AS s WHERE ${comparedSql(content, limits)} GROUP BY 1`,
    );
    return new Map(
      rows.map(({ bucket, rows: number, sum }) => [bucket, { rows: Number(number), sum }]),
    );
  }

  /** Keys and hashes of the rows of some buckets. */
  async keys(
    content: Content,
    limits: readonly HistoryLimit[],
    buckets: readonly number[],
  ): Promise<KeyRow[]> {
    const key = (content.key ?? []).map((name) => `s."${name}"::text`);
    const { rows } = await this.client.query<KeyRow>(
      `SELECT ARRAY[${key.join(', ')}] AS key, _bucket AS bucket, _hash::text AS hash
         FROM (${hashedSql(content)}) AS s
        WHERE _bucket = ANY ($1) AND ${comparedSql(content, limits)}`,
      [buckets],
    );
    return rows;
  }

  /**
   * Passes rows to `consume` as whole lines of COPY's text format: the values, hash and bucket. Lines that `consume`
   * leaves are dropped; an error of it ends the snapshot.
   * @param valueSql formats a value; `value` is its SQL
   */
  async lines<T>(
    content: Content,
    limits: readonly HistoryLimit[],
    wanted: Wanted,
    valueSql: (column: ViewColumn, value: string) => string,
    consume: (lines: AsyncIterable<Buffer>) => Promise<T>,
  ): Promise<T> {
    const values = content.columns.map((column) => valueSql(column, `s."${column.name}"`));
    const order = content.order.map((name) => `s."${name}"`);
    const isAll = wanted === 'all';
    // Without a key nothing tells a state that is kept from one that is written again.
    const where = content.key === null ? comparedSql(content, limits) : 'true';
    const copy = this.client.query(
      copyTo(
        `COPY (SELECT ${values.join(', ')}, s._hash, s._bucket FROM (${hashedSql(content)}) AS s
                 ${isAll ? '' : joinSql(content, wanted)} WHERE ${where}
                 ${isAll && order.length > 0 ? `ORDER BY ${order.join(', ')}` : ''}) TO STDOUT`,
      ),
    );
    // When the connection closes before it is read to its end, it fails; nothing else listens.
    copy.on('error', () => undefined);
    const result = await consume(wholeLines(copy));
    if (!copy.readableEnded) for await (const chunk of wholeLines(copy)) void chunk;
    return result;
  }
}

type Rows = Pick<Content, 'view' | 'columns' | 'sellers' | 'hashed'>;

/** SQL of the delivered rows and columns of a view. */
function rowsSql({ view, columns, sellers, hashed }: Rows): string {
  const values = columns.map(({ name }) =>
    hashed.includes(name)
      ? `encode(sha256(convert_to(current_setting('seller_mirror.salt') || f."${name}", 'UTF8')), 'hex') AS "${name}"`
      : `f."${name}"`,
  );
  const where = sellers === null ? '' : `WHERE f.seller_id = ANY (${arraySql(sellers)}::text[])`;
  return `SELECT ${values.join(', ')} FROM reporting."${view}" AS f ${where}`;
}

/** The rows with `_hash`, 40 bits of the md5 of their text, and `_bucket`. */
function hashedSql(content: Content): string {
  const hash = `('x' || left(md5(r::text), 10))::bit(40)::bigint`;
  return `SELECT r.*, ${hash} AS _hash, ${bucketSql(content)} AS _bucket FROM (${rowsSql(content)}) AS r`;
}

/** Rows that were written one after the other share a bucket. Views without a key have only one. */
function bucketSql({ key, columns }: Content): string {
  const number = key?.find((name) =>
    columns.some((column) => column.name === name && /int/.test(column.type)),
  );
  return number === undefined ? '0' : `((r."${number}" >> 10) & 1023)::int`;
}

/** The condition of rows that are compared. */
function comparedSql({ endedAt }: Content, limits: readonly HistoryLimit[]): string {
  if (endedAt === null || limits.length === 0) return 'true';
  const old = limits.map(
    ({ seller, since }) =>
      `s.seller_id = ${escapeLiteral(seller)} AND s."${endedAt}" <= ${escapeLiteral(since)}::timestamptz`,
  );
  return `(${old.join(' OR ')}) IS NOT TRUE`;
}

/** Joins the keys of the wanted rows. */
function joinSql({ key, columns }: Content, wanted: readonly KeyRow[]): string {
  const names = key ?? [];
  const arrays = names.map((name, n) => {
    const type = columns.find((column) => column.name === name)?.type ?? 'text';
    return `${arraySql(wanted.map((row) => row.key[n] ?? ''))}::${type}[]`;
  });
  const on = names.map((name, n) => `w.k${n} = s."${name}"`);
  return `JOIN unnest(${arrays.join(', ')}) AS w (${names.map((_, n) => `k${n}`).join(', ')})
            ON ${on.join(' AND ')}`;
}

function arraySql(texts: readonly string[]): string {
  const elements = texts.map((text) => `"${text.replaceAll(/["\\]/g, '\\$&')}"`);
  return escapeLiteral(`{${elements.join(',')}}`);
}

const LINE_END = 10;

/** Whole lines in large chunks. Stopping early leaves the stream open. */
async function* wholeLines(stream: Readable): AsyncGenerator<Buffer> {
  let rest: Buffer[] = [];
  for await (const chunk of stream.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    const end = chunk.lastIndexOf(LINE_END) + 1;
    if (end === 0) {
      rest.push(chunk);
      continue;
    }
    const lines = chunk.subarray(0, end);
    yield rest.length === 0 ? lines : Buffer.concat([...rest, lines]);
    rest = end < chunk.length ? [chunk.subarray(end)] : [];
  }
}

async function count(client: Client, sql: string): Promise<number> {
  const { rows } = await client.query<{ rows: string }>(
    `SELECT count(*) AS rows FROM (${sql}) AS counted`,
  );
  return Number(rows[0]?.rows ?? 0);
}
