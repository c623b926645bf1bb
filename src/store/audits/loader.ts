import type { PoolClient } from 'pg';
import { type LockPools, type LongConnection, openLong } from '../locks.js';
import { BinaryRows, CopyIn } from '../copy.js';
import { LONGEST_CELL, LONGEST_TEXT, storable, storableJsonText } from './columns.js';
import type { AuditRow, AuditSize, EnteredAudit, NewAudit } from './types.js';

/** Rows are sent in portions of about this size; two of them are in memory, and what sends them. */
const PORTION_BYTES = 1 << 18;

const TARGET = 'pg_temp.incoming_entries (entry, line, code, rejected, columns)';

/**
 * Begins to take in a list. Its rows go to a table that is the connection's own, so that a loader that
 * dies leaves nothing, and that is in no transaction, so that a slow list holds nothing up.
 */
export async function beginAudit(pools: LockPools, audit: NewAudit): Promise<AuditLoader> {
  const connection = await openLong(pools);
  try {
    const { client } = connection;
    await client.query('DROP TABLE IF EXISTS pg_temp.incoming_entries');
    await client.query(
      `CREATE TEMP TABLE incoming_entries (
         entry bigint NOT NULL, line bigint NOT NULL, code text COLLATE "C", rejected text,
         columns text[] NOT NULL)`,
    );
    return new AuditLoader(audit, connection);
  } catch (error) {
    connection.release(false);
    throw error;
  }
}

/** A list on its way into the store. Until `finish` nothing of it is seen, and it has no number. */
export class AuditLoader {
  readonly #audit: NewAudit;
  readonly #connection: LongConnection;
  #filling = new BinaryRows(PORTION_BYTES * 2);
  #spare = new BinaryRows(PORTION_BYTES * 2);
  #sending: Promise<void> = Promise.resolve();
  #lines = 0;
  #rejected = 0;
  #isOver = false;

  constructor(audit: NewAudit, connection: LongConnection) {
    this.#audit = audit;
    this.#connection = connection;
  }

  /** Takes rows in the list's order; resolves when more may come. */
  async add(rows: readonly AuditRow[]): Promise<void> {
    this.#assertOpen();
    for (const row of rows) {
      this.#addRow(row);
      if (this.#filling.size >= PORTION_BYTES) await this.#send();
    }
  }

  /** Counts the rows so far as if the list ended here. */
  async measure(): Promise<AuditSize> {
    this.#assertOpen();
    await this.#send();
    await this.#sending;
    const { sellerId, maxAgeSeconds } = this.#audit;
    const { rows } = await this.#connection.client.query<Pick<AuditSize, 'codes' | 'reused'>>(
      `SELECT count(*)::int AS codes, count(*) FILTER (WHERE ${FRESH})::int AS reused
         FROM (SELECT DISTINCT code FROM pg_temp.incoming_entries WHERE code IS NOT NULL) l
         LEFT JOIN mirror.purchase_codes p ON p.seller_id = $1 AND p.code = l.code`,
      [sellerId, maxAgeSeconds],
    );
    return this.#size(rows[0] ?? { codes: 0, reused: 0 });
  }

  /** Makes the audit ready to be worked on, or, with nothing to ask, finished. */
  async finish(): Promise<EnteredAudit> {
    this.#assertOpen();
    this.#isOver = true;
    const { client } = this.#connection;
    try {
      await this.#send();
      await this.#sending;
      const counts = { lines: this.#lines, rejected: this.#rejected };
      const { auditId, ...codes } = await enterList(client, this.#audit, counts);
      this.#connection.release(true);
      return { auditId, ...this.#size(codes) };
    } catch (error) {
      // With the connection go the transaction and the rows.
      this.#connection.release(false);
      throw error;
    }
  }

  /** Leaves nothing behind. */
  async abort(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    await this.#sending.catch(() => undefined);
    this.#connection.release(false);
  }

  #size({ codes, reused }: Pick<AuditSize, 'codes' | 'reused'>): AuditSize {
    const chunks = Math.ceil((codes - reused) / this.#audit.chunkSize);
    return { lines: this.#lines, rejected: this.#rejected, codes, reused, chunks };
  }

  #assertOpen(): void {
    if (this.#isOver) throw new Error('the list was ended already');
  }

  #addRow(row: AuditRow): void {
    const rows = this.#filling;
    rows.startRow(5);
    rows.bigint(++this.#lines);
    rows.bigint(row.line);
    if ('code' in row) {
      rows.text(sound(row.code));
      rows.null();
    } else {
      this.#rejected++;
      rows.null();
      rows.text(storable(row.rejected, LONGEST_TEXT));
    }
    rows.textArray(row.columns.map((cell) => storable(cell, LONGEST_CELL)));
  }

  /** Sends what was gathered as soon as what was sent before has arrived. */
  async #send(): Promise<void> {
    await this.#sending;
    if (this.#filling.rows === 0) return;
    const rows = this.#filling;
    [this.#filling, this.#spare] = [this.#spare, rows];
    this.#sending = copy(this.#connection.client, rows);
    // add() and finish() throw it; until then it must not count as unhandled.
    this.#sending.catch(() => undefined);
  }
}

async function copy(client: PoolClient, rows: BinaryRows): Promise<void> {
  const into = new CopyIn(client, TARGET);
  await into.write(rows.data());
  await into.end();
  rows.clear();
}

/** A code is asked for as it is, so it can't be stored as anything else. */
function sound(code: string): string {
  if (code === '' || code.includes('\0') || !code.isWellFormed()) {
    throw new RangeError('a text that can’t be a code was given as one');
  }
  return code;
}

/**
 * Whether a code of `mirror.purchase_codes p` is fresh: a moment that is to come, by another
 * machine's clock, is as far off as a past one. $2: seconds, or null.
 */
const FRESH = `coalesce(p.last_checked_at > now() - $2::int * interval '1 s'
                          AND p.last_checked_at < now() + $2::int * interval '1 s', false)`;

/**
 * The codes of the list, each once, with its number in `mirror.purchase_codes` (a new code gets the next
 * one) and its position: codes to be asked come first, so that chunks are full of them.
 */
const PLACED = `
  CREATE TEMP TABLE placed_codes ON COMMIT DROP AS
  SELECT code, code_id IS NULL AS is_new,
         coalesce(code_id, nextval('mirror.purchase_codes_code_id_seq')) AS code_id, fresh,
         CASE WHEN fresh THEN verdict END AS verdict,
         CASE WHEN fresh THEN last_check_id END AS check_id,
         (row_number() OVER (ORDER BY fresh, entry) - 1)::int AS position
    FROM (SELECT l.code, l.entry, p.code_id, p.verdict, p.last_check_id,
                 ${FRESH} AS fresh
            FROM (SELECT code, min(entry) AS entry FROM pg_temp.incoming_entries
                   WHERE code IS NOT NULL GROUP BY code) l
            LEFT JOIN mirror.purchase_codes p ON p.seller_id = $1 AND p.code = l.code) codes`;

/**
 * In the order of their positions, as the table is read: codes that are asked for one after the other lie
 * together. In the order of the codes, inserting them takes half the time, and recording more than twice.
 */
const NEW_CODES = `
  INSERT INTO mirror.purchase_codes (code_id, seller_id, code)
  SELECT code_id, $1, code FROM pg_temp.placed_codes WHERE is_new`;

/** Takes the audit's number. */
const AUDIT = `
  INSERT INTO mirror.audits (seller_id, state, source, layout, columns, max_age_seconds, canary,
                             chunk_size, lines, rejected, codes, reused, valid, invalid, unproven,
                             pending, finished_at, confirm)
  SELECT $1, CASE WHEN $14::int = 0 THEN 'finished' ELSE 'running' END::mirror.audit_state,
         $2, $3::jsonb, $4::text[], $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, $14,
         CASE WHEN $14::int = 0 THEN clock_timestamp() END, $15
  RETURNING audit_id AS "auditId"`;

const CODES = `
  INSERT INTO mirror.audit_codes (audit_id, position, seller_id, code_id, verdict, check_id, reused)
  SELECT $1, position, $2, code_id, verdict, check_id, fresh
    FROM pg_temp.placed_codes`;

const CHUNKS = `
  INSERT INTO mirror.audit_chunks (audit_id, chunk, seller_id, pending)
  SELECT $1, chunk, $2, least($3::int, $4::int - chunk * $3::int)
    FROM generate_series(0, ($4::int - 1) / $3::int) AS chunk WHERE $4::int > 0`;

const ENTRIES = `
  INSERT INTO mirror.audit_entries (audit_id, entry, seller_id, line, position, rejected, columns)
  SELECT $1, i.entry, $2, i.line, c.position, i.rejected, i.columns
    FROM pg_temp.incoming_entries i LEFT JOIN pg_temp.placed_codes c ON c.code = i.code`;

/**
 * Makes an audit of the list in `incoming_entries`, in one transaction. Two lists of a seller are
 * entered one after the other: to guard every single code against the other list would take far longer.
 */
async function enterList(
  client: PoolClient,
  audit: NewAudit,
  { lines, rejected }: Pick<AuditSize, 'lines' | 'rejected'>,
): Promise<Pick<EnteredAudit, 'auditId' | 'codes' | 'reused'>> {
  const { sellerId, chunkSize, maxAgeSeconds } = audit;
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
  // Enough for the joins of a million codes; compiling these statements takes longer than it saves.
  await client.query(`SELECT set_config('work_mem', '64MB', true), set_config('jit', 'off', true)`);
  await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [
    `seller-mirror/codes/${sellerId}`,
  ]);
  // Without figures of these columns the planner takes the tables for tiny, and loops over them.
  await client.query('ANALYZE pg_temp.incoming_entries (code)');
  await client.query(PLACED, [sellerId, maxAgeSeconds]);
  await client.query('ANALYZE pg_temp.placed_codes (code)');
  await client.query(NEW_CODES, [sellerId]);
  const { rows } = await client.query<Record<'codes' | 'reused' | 'valid' | 'invalid', number>>(
    `SELECT count(*)::int AS codes, count(*) FILTER (WHERE fresh)::int AS reused,
            count(*) FILTER (WHERE verdict = 'valid')::int AS valid,
            count(*) FILTER (WHERE verdict = 'invalid')::int AS invalid
       FROM pg_temp.placed_codes`,
  );
  const { codes = 0, reused = 0, valid = 0, invalid = 0 } = rows[0] ?? {};
  const pending = codes - reused;
  const entered = await client.query<{ auditId: bigint }>(AUDIT, [
    ...[sellerId, storable(audit.source, LONGEST_TEXT), storableJsonText(audit.layout)],
    ...[audit.columns.map((name) => storable(name, LONGEST_TEXT)), maxAgeSeconds],
    audit.canary === null ? null : storable(audit.canary, LONGEST_TEXT),
    ...[chunkSize, lines, rejected, codes, reused, valid, invalid, pending],
    audit.confirm ?? 'auto',
  ]);
  const auditId = entered.rows[0]?.auditId ?? 0n;
  await client.query(CODES, [auditId, sellerId]);
  await client.query(CHUNKS, [auditId, sellerId, chunkSize, pending]);
  await client.query(ENTRIES, [auditId, sellerId]);
  await client.query('DROP TABLE pg_temp.incoming_entries');
  await client.query('COMMIT');
  return { auditId, codes, reused };
}
