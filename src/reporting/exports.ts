import { setTimeout as pause } from 'node:timers/promises';
import { escapeLiteral, type Client, type QueryResult } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import type { ChangeCursor } from './change-cursor.js';
import { errorCode } from '../domain/error-code.js';
import { StoreError } from '../db/errors.js';
import { followRule, type FollowRule } from './followed-views.js';
import { openOwnClient, type OwnClient } from '../db/pools.js';
import { openTextCursor, type TextRow } from '../db/text-cursor.js';

export interface ExportableView {
  readonly name: string;
  readonly comment: string | null;
  readonly bySeller: boolean;
  /** Columns that identify a row; null if the view can only be exported whole. */
  readonly key: readonly string[] | null;
  readonly columns: readonly ExportColumn[];
}

/** Reads views over one connection, opened at first use. */
export class Exports {
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
        key: followRule(view.name)?.key ?? null,
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
   * Passes the rows of a view, all from one snapshot, to `consume`, in bounded memory.
   * @throws {CursorAheadError} if the cursor is not from this store
   * @throws {ChangesBusyError} if writers hold the locks for too long
   */
  read<T>(request: ExportRequest, consume: (exported: Exported) => Promise<T>): Promise<T> {
    return this.#use(async (client) => {
      const { rule, cursor, isUnchanged, columns: own } = await beginSnapshot(client, request);
      const columns = request.deletions ? [...own, DELETED_COLUMN] : own;
      const values = columns.map(({ name }) => `f."${name}"`);
      const sql = rowsSql(request, { rule, isUnchanged }, columns, values, null);
      const total = request.counted ? await count(client, sql) : null;
      const rows = await openTextCursor(client, sql);
      const result = await consume({ columns, batches: rows.batches, total, cursor });
      await rows.close();
      await client.query('COMMIT');
      return result;
    });
  }

  /**
   * Passes the rows of a view to `consume` in COPY's text format, for databases that can read it.
   * `consume` may stop early. All rows of a followed view come in the order of its key; rows after a
   * cursor come in any order.
   * @throws {CursorAheadError} if the cursor is not from this store
   * @throws {ChangesBusyError} if writers hold the locks for too long
   */
  lines<T>(request: LinesRequest, consume: (lines: ExportedLines) => Promise<T>): Promise<T> {
    return this.#use(async (client) => {
      const snapshot = await beginSnapshot(client, request);
      const { cursor, epoch, columns: own } = snapshot;
      const columns = request.since === null ? own : [...own, DELETED_COLUMN];
      if (snapshot.isUnchanged) {
        const result = await consume({ columns, cursor, epoch, lines: noLines() });
        await client.query('COMMIT');
        return result;
      }
      const values = columns.map((column) => request.valueSql(column, `f."${column.name}"`));
      const sql = rowsSql(request, snapshot, columns, values, request.after ?? []);
      const copy = client.query(copyTo(`COPY (${sql}) TO STDOUT`));
      // When the connection closes before it is read to its end, it fails; nothing else listens.
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
  /** PostgreSQL's type name with modifiers, such as `numeric(14,2)`. */
  readonly type: string;
}

export interface ExportRequest {
  readonly view: string;
  /** Only rows written after this; null: all. */
  readonly since: ChangeCursor | null;
  /** Whether to add the column `_deleted`, which is true for deleted rows. */
  readonly deletions: boolean;
  /** Only rows of these sellers; null: all. */
  readonly sellerIds: readonly string[] | null;
  /** Whether to count the rows first, which takes about as long as reading them. */
  readonly counted: boolean;
}

/** The rows of an export, all from one snapshot. */
export interface Exported {
  readonly columns: readonly ExportColumn[];
  readonly batches: AsyncIterable<readonly TextRow[]>;
  /** Number of rows; null if not counted. */
  readonly total: number | null;
  /** Cursor for the next export; null for views that are not followed. */
  readonly cursor: ChangeCursor | null;
}

/** With `since`, `_deleted` is the last column. */
interface LinesRequest extends Pick<ExportRequest, 'view' | 'since' | 'sellerIds'> {
  /** When reading all rows of a followed view: only those with a greater key; null: from the first. */
  readonly after: readonly string[] | null;
  /** Returns the SQL that formats a value; `value` is the SQL of the value itself. */
  readonly valueSql: (column: ExportColumn, value: string) => string;
}

/** The rows of a view as lines, all from one snapshot. */
export interface ExportedLines extends Pick<Exported, 'columns' | 'cursor'> {
  /** Identifies the store's history: restoring a backup begins a new epoch. */
  readonly epoch: string;
  /** Whole lines of COPY's text format in UTF-8. Can be read once. */
  readonly lines: AsyncIterable<Buffer>;
}

/** Name of the column that is true for deleted rows. */
const DELETED = '_deleted';
const DELETED_COLUMN: ExportColumn = { name: DELETED, type: 'boolean' };

/**
 * Standard value formats, and no timeouts, since readers may be slow. JIT compilation of the statement
 * for a night's changes would take seconds; running it takes milliseconds.
 */
const BEGIN = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
  SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
  SET LOCAL jit = off`;

interface Snapshot extends Pick<ExportedLines, 'columns' | 'cursor' | 'epoch'> {
  readonly rule: FollowRule | null;
  /** Whether the view is known to have no rows after the cursor. */
  readonly isUnchanged: boolean;
}

/**
 * Begins a transaction with one snapshot. For a followed view it contains exactly what was written up to
 * the cursor. @throws {CursorAheadError}
 */
async function beginSnapshot(
  client: Client,
  { view, since }: Pick<ExportRequest, 'view' | 'since'>,
): Promise<Snapshot> {
  const rule = followRule(view);
  if (rule !== null) await lockChangeNumbers(client);
  // One message with several results, which the driver's types don't describe.
  const results: unknown = await client.query(
    `RESET lock_timeout; ${BEGIN}; ${snapshotSql(view)};
     ${rule === null ? '' : 'SELECT pg_advisory_unlock_all()'}`,
  );
  const rows = (results as QueryResult<SnapshotRow>[]).flatMap((result) => result.rows);
  const row = rows.find((each) => 'seq' in each);
  if (row === undefined) throw new Error('the store has no epoch');
  const { epoch, columns, seq, at } = row;
  const cursor = rule === null ? null : { seq: BigInt(seq), at: rule.byTime === null ? null : at };
  if (since !== null && (cursor === null || since.seq > cursor.seq)) {
    throw new CursorAheadError(since);
  }
  const isUnchanged =
    rule !== null &&
    since !== null &&
    since.seq === cursor?.seq &&
    !(await hasChangedByTime(client, rule, since));
  return { rule, cursor, epoch, columns, isUnchanged };
}

interface SnapshotRow extends Pick<Snapshot, 'epoch' | 'columns'> {
  readonly seq: string;
  readonly at: string;
}

/**
 * The transaction's first query fixes its snapshot, but a sequence always shows its latest value. So this
 * runs while the change numbers are locked.
 */
function snapshotSql(view: string): string {
  const id = `(${escapeLiteral(`reporting."${view}"`)}::regclass)`;
  return `SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS seq,
         to_char(now(), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at,
         epoch, ${columnsSql(id)} AS columns
    FROM mirror.item_changes_seq_seq, mirror.epochs`;
}

/**
 * SQL of a view's columns as JSON. Reads the catalog, since planning a view takes milliseconds.
 * @param id SQL of the view's oid
 */
function columnsSql(id: string): string {
  return `(SELECT json_agg(json_build_object('name', attname, 'type', format_type(atttypid, atttypmod))
                           ORDER BY attnum)
             FROM pg_attribute WHERE attrelid = ${id} AND attnum > 0 AND NOT attisdropped)`;
}

async function hasChangedByTime(
  client: Client,
  { byTime }: FollowRule,
  since: ChangeCursor,
): Promise<boolean> {
  if (byTime === null) return false;
  const { rows } = await client.query(`${withCursor(byTime, since)} LIMIT 1`);
  return rows.length > 0;
}

/** Puts the cursor's values into a rule's SQL, since COPY takes no parameters. */
function withCursor(sql: string, { seq, at }: ChangeCursor): string {
  return sql
    .replaceAll('$1', () => `${escapeLiteral(String(seq))}::bigint`)
    .replaceAll('$2', () => `${at === null ? 'NULL' : escapeLiteral(at)}::timestamptz`);
}

/** The cursor is from another store, or from a later state of this one. */
export class CursorAheadError extends StoreError {
  readonly code = 'CURSOR_AHEAD';

  constructor({ seq }: ChangeCursor) {
    super(
      `the cursor ${seq} is ahead of this store, which was restored from a backup or is another one`,
      'start over: export the whole view, then continue from the cursor that this prints',
    );
  }
}

/**
 * SQL of the requested rows.
 * @param values SQL of each selected value of a row `f`
 * @param after null: any order. Otherwise all rows of a followed view are sorted by key and start after
 *   this key; empty: they start at the first row
 */
function rowsSql(
  { view, since, sellerIds }: Pick<ExportRequest, 'view' | 'since' | 'sellerIds'>,
  { rule, isUnchanged }: Pick<Snapshot, 'rule' | 'isUnchanged'>,
  columns: readonly ExportColumn[],
  values: readonly string[],
  after: readonly string[] | null,
): string {
  const names = columns.map(({ name }) => name).filter((name) => name !== DELETED);
  const isWhole = since === null || rule === null || isUnchanged;
  const all = `reporting."${view}"`;
  const source = isWhole
    ? `SELECT *, false AS ${DELETED} FROM ${all} AS v`
    : withCursor(rule.since(names), since);
  const conditions = [isUnchanged ? 'false' : 'true'];
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

const LOCK_TRIES = 60;
const LOCK_WAIT_MS = 1_000;
const LOCK_NOT_AVAILABLE = '55P03';

/** Writers hold these locks from taking their first change number until they commit; see the migrations. */
const LOCK_FOR_SNAPSHOT = `SET lock_timeout = ${LOCK_WAIT_MS};
  SELECT pg_advisory_lock(hashtextextended('seller-mirror/purchases', 0)),
         pg_advisory_lock(hashtextextended('seller-mirror/item-changes', 0))`;

/**
 * Waits until no transaction holds a change number that it has not committed. Then everything up to the
 * last number is visible. Writers wait while this holds the locks, so each try is short and so is the
 * time until the caller releases them.
 * @throws {ChangesBusyError} if writers hold the locks for too long
 */
async function lockChangeNumbers(client: Client): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await client.query(LOCK_FOR_SNAPSHOT);
      return;
    } catch (error) {
      await client.query('SELECT pg_advisory_unlock_all()');
      if (errorCode(error) !== LOCK_NOT_AVAILABLE) throw error;
      if (tries === LOCK_TRIES) throw new ChangesBusyError();
    }
    await pause(LOCK_WAIT_MS / 4);
  }
}

/** Writers hold the locks for so long that no snapshot could be taken. */
class ChangesBusyError extends StoreError {
  /** The name that scripts know. */
  readonly code = 'FEED_BUSY';

  constructor() {
    super(
      'other processes have been writing items or purchase codes for more than a minute',
      'try again later; `seller-mirror status` shows what runs, and pg_stat_activity who waits',
    );
  }
}
