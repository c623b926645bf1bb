import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { escapeLiteral, type Client } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { viewFacts, type ViewFacts } from '../domain/reporting-views.js';
import { withOwnClient } from '../db/pools.js';
import { openTextCursor, type TextRow } from '../db/text-cursor.js';
import type { Group, Sums } from './feeds/plan.js';

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

/** The rows of a view, and the columns of them, that a feed delivers. */
export interface Content {
  readonly view: string;
  readonly columns: readonly ViewColumn[];
  /** Null: all sellers. */
  readonly sellers: readonly string[] | null;
  /** Columns that are delivered as a salted hash. */
  readonly hashed: readonly string[];
  /** Columns that identify a row; null: none do, or rows are not compared one by one. */
  readonly key: readonly string[] | null;
  /** The number in the key, by which rows are compared; null: they are only written whole. */
  readonly number: string | null;
  /** Columns by which rows are sorted if all are read. */
  readonly order: readonly string[];
  /** Column with the end of a state; null if there is none. */
  readonly endedAt: string | null;
  /** States that ended before are not compared. */
  readonly limits: readonly HistoryLimit[];
}

/** States of a seller that ended before `since` may be gone from the store. */
export interface HistoryLimit {
  readonly seller: string;
  /** ISO 8601 in UTC, with microseconds. */
  readonly since: string;
}

/** What a view's rows add up to. */
export interface ViewSums {
  readonly sums: Sums;
  /** When time alone changes the next row, in seconds since 1970; null: it changes none. */
  readonly until: number | null;
}

export interface ReadView {
  readonly columns: readonly ViewColumn[];
  readonly batches: AsyncIterable<readonly TextRow[]>;
  /** Number of rows; null if not counted. */
  readonly total: number | null;
}

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

/**
 * Runs `work` with one snapshot of the store, on a connection of its own.
 * @param salt of columns that are delivered as a hash; it is in no statement
 */
export function withSnapshot<T>(
  url: string,
  signal: AbortSignal,
  salt: string | null,
  work: (snapshot: Snapshot) => Promise<T>,
): Promise<T> {
  return withOwnClient(url, 'export', signal, async (client) => {
    const before = await readNumber(client);
    await client.query(BEGIN);
    await client.query(`SELECT set_config('seller_mirror.salt', $1, true)`, [salt ?? '']);
    const { number } = await readNumber(client);
    // The same number on both sides of the beginning, and nobody about to commit an earlier one.
    const isSettled = before.isSettled && before.number === number;
    return work(new Snapshot(client, salt, isSettled ? number : null));
  });
}

/** The store as of one moment. */
export class Snapshot {
  constructor(
    readonly client: Client,
    readonly salt: string | null,
    /** The last change number; null if writers were about to commit earlier ones. */
    readonly number: string | null,
  ) {}

  async views(): Promise<ReportingView[]> {
    const { rows } = await this.client.query<Pick<ReportingView, 'name' | 'comment' | 'columns'>>(
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
  }

  async sellers(): Promise<string[]> {
    const { rows } = await this.client.query<{ name: string }>(
      'SELECT seller_id AS name FROM mirror.sellers ORDER BY 1',
    );
    return rows.map(({ name }) => name);
  }

  async historyLimits(): Promise<HistoryLimit[]> {
    const { rows } = await this.client.query<HistoryLimit>(
      `SELECT seller_id AS seller, to_char(history_since, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS since
         FROM mirror.sellers WHERE history_since IS NOT NULL ORDER BY 1`,
    );
    return rows;
  }

  /**
   * Passes all rows of a view to `consume`, in bounded memory.
   * @param sellers null: of all @param isCounted whether to count first, which takes about as long as reading
   */
  async read<T>(
    { name: view, columns }: ReportingView,
    sellers: readonly string[] | null,
    isCounted: boolean,
    consume: (read: ReadView) => Promise<T>,
  ): Promise<T> {
    const sql = rowsSql({ view, columns, sellers, hashed: [] });
    const counted = isCounted
      ? await this.client.query<{ n: string }>(`SELECT count(*) AS n FROM (${sql}) AS counted`)
      : null;
    const { batches, close } = await openTextCursor(this.client, sql);
    const total = counted === null ? null : Number(counted.rows[0]?.n);
    const result = await consume({ columns, batches, total });
    await close();
    return result;
  }

  /**
   * A text that stays the same as long as the sums of this content do, apart from what time alone changes; null if
   * that can't be told.
   */
  async stateOf(content: Content): Promise<string | null> {
    if (!viewFacts(content.view).isNumbered || this.number === null) return null;
    // A new version of this program may define a view in another way.
    const { rows } = await this.client.query<{ sql: string }>(
      `SELECT pg_get_viewdef(to_regclass($1)) AS sql`,
      [`reporting."${content.view}"`],
    );
    // A seller may get another name without a change number.
    const state = [content, rows, await this.sellers(), this.salt, this.number];
    return createHash('sha256').update(JSON.stringify(state)).digest('hex');
  }

  /** Sums of the compared rows by bucket; within these buckets: by the number in the key. */
  async sums(content: Content, within: readonly number[] | null): Promise<ViewSums> {
    const { changesAt } = viewFacts(content.view);
    const by = within === null ? '_bucket' : `"${content.number}"`;
    const where = within === null ? 'true' : `_bucket = ANY ('{${within.join(',')}}')`;
    const until = `min(floor(extract(epoch FROM "${changesAt}"))) FILTER (WHERE "${changesAt}" > now())`;
    const { rows } = await this.client.query<
      Record<'by' | 'n' | 'sum', string> & { until: string }
    >(
      `SELECT ${by} AS by, count(*) AS n, sum(_hash + _bucket)::text AS sum,
              ${changesAt === null ? 'NULL' : until} AS until
         FROM (${hashedSql(content)}) AS s WHERE ${where} AND ${comparedSql(content)} GROUP BY 1`,
    );
    const ends = rows.map((row) => Number(row.until ?? Infinity)).filter(Number.isFinite);
    return {
      sums: new Map(rows.map(({ by: value, n, sum }) => [Number(value), { rows: Number(n), sum }])),
      until: ends.length === 0 ? null : ends.reduce((one, other) => Math.min(one, other)),
    };
  }

  /**
   * Passes rows to `consume` as whole lines of COPY's text format: the values, hash and bucket. Lines that `consume`
   * leaves are dropped.
   * @param valueSql formats a value; `value` is its SQL
   */
  async lines<T>(
    content: Content,
    wanted: 'all' | Group,
    valueSql: (column: ViewColumn, value: string) => string,
    consume: (lines: AsyncIterable<Buffer>) => Promise<T>,
  ): Promise<T> {
    const values = content.columns.map((column) => valueSql(column, `s."${column.name}"`));
    const order = content.order.map((name) => `s."${name}"`);
    const isAll = wanted === 'all';
    // Without a key nothing tells a state that is kept from one that is written again.
    const compared = content.key === null ? comparedSql(content) : 'true';
    const copy = this.client.query(
      copyTo(
        `COPY (SELECT ${values.join(', ')}, s._hash, s._bucket FROM (${hashedSql(content)}) AS s
                WHERE ${isAll ? compared : `s."${wanted.column}" = ANY ('{${wanted.values.join(',')}}')`}
                ${isAll && order.length > 0 ? `ORDER BY ${order.join(', ')}` : ''}) TO STDOUT`,
      ),
    );
    // When the connection closes before it is read to its end, it fails; nothing else listens.
    copy.on('error', () => undefined);
    try {
      return await consume(wholeLines(copy));
    } finally {
      // Other views need the connection.
      if (!copy.readableEnded) await finished(copy.resume()).catch(() => undefined);
    }
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

/**
 * SQL of 40 bits of a row's hash. All versions of PostgreSQL compute the same, because partitions by hash rest on it.
 * @param t alias of a row with these columns, maybe of wider types
 */
export function hashSql(columns: readonly ViewColumn[], t: string): string {
  // Only json has no hash.
  const values = columns.map(
    ({ name, type }) => `${t}."${name}"::${type.replace(/^json$/, 'text')}`,
  );
  return `hash_record_extended(ROW(${values.join(', ')}), 0) & 1099511627775`;
}

/** The rows with `_hash` and `_bucket`. */
function hashedSql(content: Content): string {
  return `SELECT r.*, ${hashSql(content.columns, 'r')} AS _hash, ${bucketSql(content)} AS _bucket FROM (${rowsSql(content)}) AS r`;
}

/** Rows that were written one after the other share a bucket. Views without a number have only one. */
function bucketSql({ number }: Content): string {
  return number === null ? '0' : `((r."${number}" >> 10) & 1023)::int`;
}

/** The condition of rows that are compared. */
function comparedSql({ endedAt, limits }: Content): string {
  if (endedAt === null || limits.length === 0) return 'true';
  const old = limits.map(
    ({ seller, since }) =>
      `s.seller_id = ${escapeLiteral(seller)} AND s."${endedAt}" <= ${escapeLiteral(since)}::timestamptz`,
  );
  return `(${old.join(' OR ')}) IS NOT TRUE`;
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
