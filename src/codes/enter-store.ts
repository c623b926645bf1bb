import type { PoolClient } from 'pg';
import { openLongConnection } from '../db/locks.js';
import { BinaryRows } from '../db/binary-rows.js';
import { CopyIn } from '../db/copy.js';
import { LONGEST_CELL, LONGEST_TEXT, storable, storableJsonText } from '../db/stored-text.js';
import type { Db } from '../db/db.js';
import { codesLock } from './codes-store.js';
import type { Entry, KeptWorkbook } from './lists/types.js';
import type { AuditSize, EnteredAudit, NewAudit } from './types.js';

/** Rows are sent in batches of about this size. */
const BATCH_BYTES = 1 << 18;

/** Counts a list as `enterAudit` would enter it, and keeps nothing. */
export function measureAudit(db: Db, audit: NewAudit, rows: Iterable<Entry>): Promise<AuditSize> {
  return withIncoming(db, rows, (client, counts) => measure(client, audit, counts));
}

/**
 * Stores a list and creates its audit: running, or finished if there are no codes to check. Nothing is visible, and the
 * audit has no number, until all of it is stored.
 * @param onLoaded called before that; its argument counts the list. If it throws, nothing is kept.
 * @throws when the draft that becomes the audit was started or deleted
 */
export function enterAudit(
  db: Db,
  audit: NewAudit,
  rows: Iterable<Entry>,
  onLoaded?: (size: () => Promise<AuditSize>) => Promise<void>,
): Promise<EnteredAudit> {
  return withIncoming(db, rows, async (client, counts) => {
    await onLoaded?.(() => measure(client, audit, counts));
    return { ...counts, ...(await enterList(client, audit, counts)) };
  });
}

type Counts = Pick<AuditSize, 'lines' | 'rejected'>;

/**
 * Sends a list to a temporary table, so that a killed process leaves nothing, and then does `work`. No transaction is
 * open meanwhile, so that a slow list blocks nobody.
 */
async function withIncoming<T>(
  db: Db,
  rows: Iterable<Entry>,
  work: (client: PoolClient, counts: Counts) => Promise<T>,
): Promise<T> {
  const { client, release } = await openLongConnection(db);
  let isDone = false;
  try {
    await client.query(
      `CREATE TEMP TABLE incoming_entries (
         entry bigint NOT NULL, line bigint NOT NULL, code text COLLATE "C", rejected text,
         columns text[] NOT NULL)`,
    );
    const result = await work(client, await sendRows(client, rows));
    await client.query('DROP TABLE pg_temp.incoming_entries');
    isDone = true;
    return result;
  } finally {
    // Closing the connection discards its transaction and the temporary table.
    release(isDone);
  }
}

async function sendRows(client: PoolClient, rows: Iterable<Entry>): Promise<Counts> {
  const into = new CopyIn(
    client,
    'pg_temp.incoming_entries (entry, line, code, rejected, columns)',
  );
  const batch = new BinaryRows(BATCH_BYTES * 2);
  const counts = { lines: 0, rejected: 0 };
  for (const row of rows) {
    batch.startRow(5);
    batch.bigint(++counts.lines);
    batch.bigint(row.line);
    if ('code' in row) {
      batch.text(storableCode(row.code));
      batch.null();
    } else {
      counts.rejected++;
      batch.null();
      batch.text(storable(row.rejected, LONGEST_TEXT));
    }
    batch.textArray(row.columns.map((cell) => storable(cell, LONGEST_CELL)));
    if (batch.size < BATCH_BYTES) continue;
    await into.write(batch.data());
    batch.clear();
  }
  await into.write(batch.data());
  await into.end();
  return counts;
}

async function measure(
  client: PoolClient,
  { sellerId, maxAgeSeconds }: NewAudit,
  counts: Counts,
): Promise<AuditSize> {
  const { rows } = await client.query<Pick<AuditSize, 'codes' | 'reused'>>(
    `SELECT count(*)::int AS codes, count(*) FILTER (WHERE fresh)::int AS reused
       FROM (${LISTED}) l WHERE entry = first_entry`,
    [sellerId, maxAgeSeconds],
  );
  return { ...counts, ...(rows[0] ?? { codes: 0, reused: 0 }) };
}

/** Returns the code unchanged, since a code must be sent exactly as it is in the list. @throws RangeError */
function storableCode(code: string): string {
  if (code === '' || code.includes('\0') || !code.isWellFormed()) {
    throw new RangeError('the text can’t be a code: it is empty or has invalid characters');
  }
  return code;
}

/**
 * SQL: whether the verdict of `mirror.purchase_codes p` is younger than $2 seconds (null: never). A check in the future,
 * by another machine's clock, must be equally close.
 */
const FRESH = `coalesce(p.last_checked_at > now() - $2::int * interval '1 s'
                          AND p.last_checked_at < now() + $2::int * interval '1 s', false)`;

/**
 * SQL: the distinct spellings of the list, each with the stored code that it spells. `first_entry` is where that code
 * stands first, in whatever spelling. $1 is the seller.
 */
const LISTED = `
  SELECT l.code, l.entry, p.code_id, p.code AS stored, p.verdict, p.last_check_id, ${FRESH} AS fresh,
         CASE WHEN p.code_id IS NULL THEN l.entry ELSE min(l.entry) OVER (PARTITION BY p.code_id) END AS first_entry
    FROM (SELECT code, min(entry) AS entry FROM pg_temp.incoming_entries WHERE code IS NOT NULL GROUP BY code) l
    LEFT JOIN mirror.purchase_codes s ON s.seller_id = $1 AND s.code = l.code
    LEFT JOIN (SELECT answered_code, min(code_id) AS code_id FROM mirror.purchase_codes
                WHERE seller_id = $1 AND answered_code <> code GROUP BY answered_code) a ON a.answered_code = l.code
    LEFT JOIN mirror.purchase_codes p ON p.code_id = coalesce(s.merged_into, s.code_id, a.code_id)`;

/**
 * Creates the audit from `incoming_entries` in one transaction. A lock makes the lists of a seller wait for each other:
 * locking each code would take far longer.
 */
async function enterList(
  client: PoolClient,
  audit: NewAudit,
  { lines, rejected }: Counts,
): Promise<Pick<EnteredAudit, 'auditId' | 'codes' | 'reused'>> {
  const { sellerId, maxAgeSeconds, draftId = null } = audit;
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
  if (draftId !== null) await takeDraft(client, draftId);
  // 64 MB suffice for joins of a million codes. JIT compilation takes longer than it saves.
  await client.query(`SELECT set_config('work_mem', '64MB', true), set_config('jit', 'off', true)`);
  await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [
    codesLock(sellerId),
  ]);
  // Without statistics the planner assumes tiny tables and uses nested loops.
  await client.query('ANALYZE pg_temp.incoming_entries (code)');
  // The spellings of the list, with the position of the code that each spells. New ones get the next ids. Codes to check
  // get the first positions.
  await client.query(
    `CREATE TEMP TABLE placed_codes ON COMMIT DROP AS
     SELECT code, code_id IS NULL AS is_new, entry = first_entry AS is_first,
            CASE WHEN stored <> code THEN code END AS spelling,
            coalesce(code_id, nextval('mirror.purchase_codes_code_id_seq')) AS code_id, fresh,
            CASE WHEN fresh THEN verdict END AS verdict,
            CASE WHEN fresh THEN last_check_id END AS check_id,
            (dense_rank() OVER (ORDER BY fresh, first_entry) - 1)::int AS position
       FROM (${LISTED}) codes`,
    [sellerId, maxAgeSeconds],
  );
  await client.query('ANALYZE pg_temp.placed_codes (code)');
  // By position, so that codes checked one after another are stored together. Sorted by code, this insert takes half the
  // time, but recording results more than twice.
  await client.query(
    `INSERT INTO mirror.purchase_codes (code_id, seller_id, code)
     SELECT code_id, $1, code FROM pg_temp.placed_codes WHERE is_new`,
    [sellerId],
  );
  const { rows } = await client.query<
    Record<'codes' | 'reused' | 'valid' | 'invalid' | 'gone', number>
  >(
    `SELECT count(*)::int AS codes, count(*) FILTER (WHERE fresh)::int AS reused,
            count(*) FILTER (WHERE verdict = 'valid')::int AS valid,
            count(*) FILTER (WHERE verdict = 'invalid')::int AS invalid,
            count(*) FILTER (WHERE verdict = 'no_longer_valid')::int AS gone
       FROM pg_temp.placed_codes WHERE is_first`,
  );
  const { codes = 0, reused = 0, valid = 0, invalid = 0, gone = 0 } = rows[0] ?? {};
  const pending = codes - reused;
  const entered = await client.query<{ auditId: bigint }>(
    `INSERT INTO mirror.audits (audit_id, seller_id, state, source, layout, columns, max_age_seconds, known_valid,
                                lines, rejected, codes, reused, valid, invalid, unproven,
                                pending, finished_at, no_longer_valid, confirm_after_ms)
     SELECT coalesce($16, nextval('mirror.audits_audit_id_seq')), $1, CASE WHEN $13::int = 0 THEN 'finished' ELSE 'running' END::mirror.audit_state,
            $2, $3::jsonb, $4::text[], $5, $6, $7, $8, $9, $10, $11, $12, 0, $13,
            CASE WHEN $13::int = 0 THEN clock_timestamp() END, $14, $15
     RETURNING audit_id AS "auditId"`,
    [
      sellerId,
      storable(audit.source, LONGEST_TEXT),
      storableJsonText(audit.layout),
      audit.columns.map((name) => storable(name, LONGEST_TEXT)),
      maxAgeSeconds,
      audit.knownValid === null ? null : storable(audit.knownValid, LONGEST_TEXT),
      lines,
      rejected,
      codes,
      reused,
      valid,
      invalid,
      pending,
      gone,
      audit.confirmAfterMs,
      draftId,
    ],
  );
  const auditId = entered.rows[0]?.auditId ?? 0n;
  await client.query(
    `INSERT INTO mirror.audit_codes (audit_id, position, seller_id, code_id, verdict, check_id, reused, spelling)
     SELECT $1, position, $2, code_id, verdict, check_id, fresh, spelling FROM pg_temp.placed_codes WHERE is_first`,
    [auditId, sellerId],
  );
  await client.query(
    `INSERT INTO mirror.audit_entries (audit_id, entry, seller_id, line, position, rejected, columns)
     SELECT $1, i.entry, $2, i.line, c.position, i.rejected, i.columns
       FROM pg_temp.incoming_entries i LEFT JOIN pg_temp.placed_codes c ON c.code = i.code`,
    [auditId, sellerId],
  );
  await client.query('COMMIT');
  return { auditId, codes, reused };
}

/** Deletes a draft, whose number goes to its audit. Whoever comes second waits here, and finds no draft. */
async function takeDraft(client: PoolClient, draftId: bigint): Promise<void> {
  const { rowCount } = await client.query(
    `DELETE FROM mirror.audits WHERE audit_id = $1 AND state = 'draft'`,
    [draftId],
  );
  if (rowCount !== 1) throw new Error('the uploaded list was started or deleted meanwhile');
}

/** Keeps the workbook of an audit's list, until the list is pruned. */
export async function keepAuditWorkbook(
  { pool }: Db,
  { auditId, sellerId }: { readonly auditId: bigint; readonly sellerId: string },
  { bytes, sheet, headerRow }: KeptWorkbook,
): Promise<void> {
  await pool.query(
    `INSERT INTO mirror.audit_workbooks (audit_id, seller_id, sheet, header_row, content)
     VALUES ($1, $2, $3, $4, $5)`,
    [auditId, sellerId, sheet, headerRow, bytes],
  );
}

/** Reads the workbook of an audit's list, or null if it did not come as one. */
export async function readAuditWorkbook(
  { pool }: Db,
  auditId: bigint,
): Promise<KeptWorkbook | null> {
  const { rows } = await pool.query<KeptWorkbook>(
    `SELECT sheet, header_row AS "headerRow", content AS bytes
       FROM mirror.audit_workbooks WHERE audit_id = $1`,
    [auditId],
  );
  return rows[0] ?? null;
}
