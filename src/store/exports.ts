import { setTimeout as pause } from 'node:timers/promises';
import { escapeLiteral, type Client, type QueryResult } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import type { FeedCursor } from '../domain/feeds.js';
import { errorCode } from '../domain/error-code.js';
import { StoreError } from './errors.js';
import { feedRule, type FeedRule } from './feed-rules.js';
import { openOwnClient, type OwnClient } from './pools.js';
import { openTextCursor, type TextRow } from './text-cursor.js';

export interface ExportableView {
  readonly name: string;
  readonly comment: string | null;
  readonly bySeller: boolean;
  /** Columns that tell its rows apart; null when it can only be exported whole. */
  readonly key: readonly string[] | null;
  readonly columns: readonly ExportColumn[];
}

/** Reads views over one connection, which is opened when it is needed. */
export class Exports {
  readonly #url: string;
  readonly #signal: AbortSignal;
  #own: OwnClient | null = null;

  constructor(url: string, signal: AbortSignal) {
    this.#url = url;
    this.#signal = signal;
  }

  /** Opens the connection, so that it is there when it is needed. */
  connect(): Promise<void> {
    return this.#use(() => Promise.resolve());
  }

  views(): Promise<ExportableView[]> {
    return this.#use(async (client) => {
      const { rows } = await client.query<Omit<ExportableView, 'key' | 'bySeller'>>(
        `SELECT c.relname AS name, obj_description(c.oid, 'pg_class') AS comment,
                ${columnsSql('c.oid')} AS columns
           FROM pg_class c WHERE c.relnamespace = 'reporting'::regnamespace AND c.relkind IN ('v', 'm')
          ORDER BY c.relname`,
      );
      return rows.map((view) => ({
        ...view,
        bySeller: view.columns.some(({ name }) => name === 'seller_id'),
        key: feedRule(view.name)?.key ?? null,
      }));
    });
  }

  sellers(): Promise<string[]> {
    return this.#use(async (client) => {
      const { rows } = await client.query<{ name: string }>(
        'SELECT seller_id AS name FROM mirror.sellers ORDER BY 1',
      );
      return rows.map(({ name }) => name);
    });
  }

  /**
   * Hands the rows of a view, as they are at one moment, to `consume`, in bounded memory.
   * @throws {CursorAheadError} when the cursor was not given by this store
   * @throws {FeedBusyError} when writers are in the way for long
   */
  read<T>(request: ExportRequest, consume: (exported: Exported) => Promise<T>): Promise<T> {
    return this.#use(async (client) => {
      const { rule, cursor, isSame, columns: own } = await begin(client, request);
      const columns = request.deletions ? [...own, DELETED_COLUMN] : own;
      const values = columns.map(({ name }) => `f."${name}"`);
      const sql = rowsSql(request, { rule, isSame }, columns, values, null);
      const total = request.counted ? await count(client, sql) : null;
      const rows = await openTextCursor(client, sql);
      const result = await consume({ columns, batches: rows.batches, total, cursor });
      await rows.close();
      await client.query('COMMIT');
      return result;
    });
  }

  /**
   * Hands the rows of a view to `consume` as COPY writes them, for databases that read that. What
   * `consume` leaves is not read. Rows of a followed view come in the order of their key, unless they
   * are those after a cursor.
   * @throws {CursorAheadError} when the cursor was not given by this store
   * @throws {FeedBusyError} when writers are in the way for long
   */
  lines<T>(request: LinesRequest, consume: (lines: ExportedLines) => Promise<T>): Promise<T> {
    return this.#use(async (client) => {
      const { rule, cursor, isSame, epoch, columns: own } = await begin(client, request);
      const columns = request.since === null ? own : [...own, DELETED_COLUMN];
      if (isSame) {
        const result = await consume({ columns, cursor, epoch, lines: noLines() });
        await client.query('COMMIT');
        return result;
      }
      const values = columns.map((column) => request.valueSql(column, `f."${column.name}"`));
      const sql = rowsSql(request, { rule, isSame }, columns, values, request.after ?? []);
      const copy = client.query(copyTo(`COPY (${sql}) TO STDOUT`));
      // Unread, it ends with an error when the connection does; nobody else would hear it.
      copy.on('error', () => undefined);
      const result = await consume({ columns, cursor, epoch, lines: wholeLines(copy) });
      if (copy.readableEnded) await client.query('COMMIT');
      else await this.close();
      return result;
    });
  }

  async close(): Promise<void> {
    const own = this.#own;
    this.#own = null;
    await own?.end();
  }

  /** After a failure nobody knows what the connection still has to say: the next use opens another. */
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

export async function withExports<T>(
  url: string,
  signal: AbortSignal,
  work: (exports: Exports) => Promise<T>,
): Promise<T> {
  const exports = new Exports(url, signal);
  try {
    return await work(exports);
  } finally {
    await exports.close();
  }
}

export interface ExportColumn {
  readonly name: string;
  /** PostgreSQL's name of the type with its modifiers, such as `numeric(14,2)`. */
  readonly type: string;
}

export interface ExportRequest {
  readonly view: string;
  /** Only rows written after this; null for all of them. */
  readonly since: FeedCursor | null;
  /** Whether to add the column `_deleted`, which is true for rows that are gone. */
  readonly deletions: boolean;
  /** Only rows of these sellers; null for all. */
  readonly sellerIds: readonly string[] | null;
  /** Whether to count the rows first, which takes about as long as to read them. */
  readonly counted: boolean;
}

/** The rows of an export, as they all were at one moment. */
export interface Exported {
  readonly columns: readonly ExportColumn[];
  readonly batches: AsyncIterable<readonly TextRow[]>;
  /** How many there are; null when they were not counted. */
  readonly total: number | null;
  /** Where to go on from the next time; null for views that are not followed. */
  readonly cursor: FeedCursor | null;
}

/** What is read as lines; with `since`, `_deleted` is the last value. */
export interface LinesRequest extends Pick<ExportRequest, 'view' | 'since' | 'sellerIds'> {
  /** Of all rows of a followed view: only those whose key is greater; null: from the first. */
  readonly after: readonly string[] | null;
  /** SQL that gives a value in the form in which it is wanted; `value` is the SQL of the value. */
  readonly valueSql: (column: ExportColumn, value: string) => string;
}

/** The rows of a view as they all were at one moment. */
export interface ExportedLines extends Pick<Exported, 'columns' | 'cursor'> {
  /** Which life of the store the rows are from: a restored backup begins another one. */
  readonly epoch: string;
  /** Lines of COPY’s text format in UTF-8, each whole. May be read once. */
  readonly lines: AsyncIterable<Buffer>;
}

/** Name of the column that is true for rows that are gone. */
const DELETED = '_deleted';
const DELETED_COLUMN: ExportColumn = { name: DELETED, type: 'boolean' };

/**
 * Values in the forms that every reader knows; and no limit of time, since readers may be slow. Compiling
 * the statement for the changes of a night would take seconds, the statement itself milliseconds.
 */
const BEGIN = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
  SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL extra_float_digits = 1;
  SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
  SET LOCAL jit = off`;

interface Begun {
  readonly rule: FeedRule | null;
  readonly cursor: FeedCursor | null;
  /** Which life of the store it is. */
  readonly epoch: string;
  /** Those of the view. */
  readonly columns: readonly ExportColumn[];
  /** Whether the view is known to have no rows after the cursor. */
  readonly isSame: boolean;
}

/**
 * Begins a transaction that sees one moment; of a followed view, all that was written up to the number of
 * the cursor, and nothing after it. @throws {CursorAheadError}
 */
async function begin(
  client: Client,
  { view, since }: Pick<ExportRequest, 'view' | 'since'>,
): Promise<Begun> {
  const rule = feedRule(view);
  if (rule !== null) await holdFeeds(client);
  // In one message. Its results are several, which the driver's types do not know.
  const results: unknown = await client.query(
    `RESET lock_timeout; ${BEGIN}; ${momentSql(view)};
     ${rule === null ? '' : 'SELECT pg_advisory_unlock_all()'}`,
  );
  const moments = (results as QueryResult<Moment>[]).flatMap(({ rows }) => rows);
  const moment = moments.find((row) => 'seq' in row);
  if (moment === undefined) throw new Error('the store has no epoch');
  const { epoch, columns, seq, at } = moment;
  const cursor = rule === null ? null : { seq: BigInt(seq), at: rule.byTime === null ? null : at };
  if (since !== null && (cursor === null || since.seq > cursor.seq)) {
    throw new CursorAheadError(since);
  }
  const isSame = rule !== null && since !== null && since.seq === cursor?.seq;
  return {
    rule,
    cursor,
    epoch,
    columns,
    isSame: isSame && !(await hasChangedByTime(client, rule, since)),
  };
}

interface Moment extends Pick<Begun, 'epoch' | 'columns'> {
  readonly seq: string;
  readonly at: string;
}

/**
 * The first query decides what the transaction sees; a sequence always shows its present value. So this runs
 * while the feeds are held.
 */
function momentSql(view: string): string {
  const id = `(${escapeLiteral(`reporting."${view}"`)}::regclass)`;
  return `SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS seq,
         to_char(now(), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at,
         epoch, ${columnsSql(id)} AS columns
    FROM mirror.item_changes_seq_seq, mirror.epochs`;
}

/** The columns of a view as JSON. From the catalog: to plan a view takes milliseconds. @param id SQL */
function columnsSql(id: string): string {
  return `(SELECT json_agg(json_build_object('name', attname, 'type', format_type(atttypid, atttypmod))
                           ORDER BY attnum)
             FROM pg_attribute WHERE attrelid = ${id} AND attnum > 0 AND NOT attisdropped)`;
}

async function hasChangedByTime(
  client: Client,
  { byTime }: FeedRule,
  since: FeedCursor,
): Promise<boolean> {
  if (byTime === null) return false;
  const { rows } = await client.query(`${withCursor(byTime, since)} LIMIT 1`);
  return rows.length > 0;
}

/** SQL of a rule with the cursor's values in it, since COPY takes no parameters. */
function withCursor(sql: string, { seq, at }: FeedCursor): string {
  return sql
    .replaceAll('$1', () => `${escapeLiteral(String(seq))}::bigint`)
    .replaceAll('$2', () => `${literalOrNull(at)}::timestamptz`);
}

/** A cursor is from another store, or from a later state of this one. */
export class CursorAheadError extends StoreError {
  readonly code = 'CURSOR_AHEAD';

  constructor({ seq }: FeedCursor) {
    super(
      `the cursor ${seq} is ahead of this store, which was restored from a backup or is another one`,
      'start over: export the view whole, and go on from the cursor that this gives',
    );
  }
}

/** The columns of a statement with their types. */
export async function exportColumns(client: Client, sql: string): Promise<ExportColumn[]> {
  const { fields } = await client.query(`SELECT * FROM (${sql}) AS rows LIMIT 0`);
  const { rows } = await client.query<{ type: string }>(
    `SELECT format_type(oid, modifier) AS type
       FROM unnest($1::oid[], $2::int[]) WITH ORDINALITY AS t (oid, modifier, n) ORDER BY n`,
    [fields.map(({ dataTypeID }) => dataTypeID), fields.map((field) => field.dataTypeModifier)],
  );
  return rows.map(({ type }, n) => ({ name: fields[n]?.name ?? '', type }));
}

/**
 * SQL of the rows that are asked for.
 * @param values SQL of each value that is selected of a row `f`
 * @param after null: in any order; of all rows of a followed view, in the order of their key, those
 *   whose key is greater, or all when it is empty
 */
function rowsSql(
  { view, since, sellerIds }: Pick<ExportRequest, 'view' | 'since' | 'sellerIds'>,
  { rule, isSame }: Pick<Begun, 'rule' | 'isSame'>,
  columns: readonly ExportColumn[],
  values: readonly string[],
  after: readonly string[] | null,
): string {
  const names = columns.map(({ name }) => name).filter((name) => name !== DELETED);
  const isWhole = since === null || rule === null || isSame;
  const all = rule?.whole?.(names) ?? `reporting."${view}"`;
  const source = isWhole
    ? `SELECT *, false AS ${DELETED} FROM ${all} AS v`
    : withCursor(rule.since(names), since);
  const conditions = [isSame ? 'false' : 'true'];
  if (sellerIds !== null) {
    conditions.push(`f.seller_id = ANY(ARRAY[${sellerIds.map(escapeLiteral).join(', ')}]::text[])`);
  }
  const key = isWhole && after !== null ? (rule?.key ?? []) : [];
  const keys = key.map((name) => `f."${name}"`).join(', ');
  if (key.length > 0 && after !== null && after.length > 0) {
    const typeOf = (name: string | undefined): string | undefined =>
      columns.find((column) => column.name === name)?.type;
    const last = after.map((text, n) => `${typeOf(key[n])} ${escapeLiteral(text)}`);
    conditions.push(`(${keys}) > (${last.join(', ')})`);
  }
  return `SELECT ${values.join(', ')} FROM (${source}) AS f
    WHERE ${conditions.join(' AND ')}${keys === '' ? '' : ` ORDER BY ${keys}`}`;
}

function literalOrNull(text: string | null): string {
  return text === null ? 'NULL' : escapeLiteral(text);
}

async function* noLines(): AsyncGenerator<Buffer> {}

async function* wholeLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest: Buffer[] = [];
  for await (const chunk of chunks) {
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

const LINE_END = 10;

async function count(client: Client, sql: string): Promise<number> {
  const { rows } = await client.query<{ rows: string }>(
    `SELECT count(*) AS rows FROM (${sql}) AS counted`,
  );
  return Number(rows[0]?.rows ?? 0);
}

const TRIES = 60;
const WAIT_MS = 1_000;
const LOCK_NOT_AVAILABLE = '55P03';

/** Takes the locks that writers hold from the first number they take to their commit; see the migrations. */
const HOLD_FEEDS = `SET lock_timeout = ${WAIT_MS};
  SELECT pg_advisory_lock(hashtextextended('seller-mirror/purchases', 0)),
         pg_advisory_lock(hashtextextended('seller-mirror/item-changes', 0))`;

/**
 * Waits until nobody is between taking a number of the feeds and committing what it stands for: then all
 * up to the last number is committed. Writers wait until it is let go, so that must be soon, and so is the
 * end of the wait for them.
 * @throws {FeedBusyError} when writers don't come to an end
 */
async function holdFeeds(client: Client): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await client.query(HOLD_FEEDS);
      return;
    } catch (error) {
      await client.query('SELECT pg_advisory_unlock_all()');
      if (errorCode(error) !== LOCK_NOT_AVAILABLE) throw error;
      if (tries === TRIES) throw new FeedBusyError();
    }
    await pause(WAIT_MS / 4);
  }
}

/** Writers do not come to an end, so that nobody can tell how far the feeds are. */
class FeedBusyError extends StoreError {
  readonly code = 'FEED_BUSY';

  constructor() {
    super(
      'a process has been writing items or purchase codes for a minute without coming to an end',
      'repeat it later; `seller-mirror status` shows what runs, and pg_stat_activity who waits',
    );
  }
}
