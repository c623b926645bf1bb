import type { PoolClient } from 'pg';
import { LONGEST_TEXT, storable, storableJsonText } from './text.js';
import type { AuditSize, EnteredAudit, NewAudit } from './types.js';

/** Figures of the list that the loader has counted. */
export interface ListCounts {
  readonly lines: number;
  readonly rejected: number;
}

/** What the codes of the list came to. */
interface CodeCounts {
  readonly codes: number;
  readonly reused: number;
  readonly valid: number;
  readonly invalid: number;
}

/** The codes of the list, each with the first record that holds it. */
const LISTED = `
  CREATE TEMP TABLE listed_codes ON COMMIT DROP AS
  SELECT code, min(entry) AS entry FROM pg_temp.incoming_entries WHERE code IS NOT NULL GROUP BY code`;

/**
 * In the order of the list, in which they are asked for: so what is recorded together lies together. In
 * the order of the codes the index would take them faster, and each write would be all over the table.
 */
const NEW_CODES = `
  INSERT INTO mirror.purchase_codes (seller_id, code)
  SELECT $1, l.code FROM pg_temp.listed_codes l
   WHERE NOT EXISTS (SELECT FROM mirror.purchase_codes p WHERE p.seller_id = $1 AND p.code = l.code)
   ORDER BY l.entry`;

/**
 * Whether a code of `mirror.purchase_codes p` is fresh, which is what `isFresh` says: a moment that is
 * to come, by another machine's clock, is as far off as a past one. $2: seconds, or null.
 */
const FRESH = `coalesce(p.last_checked_at > now() - $2::int * interval '1 s'
                          AND p.last_checked_at < now() + $2::int * interval '1 s', false)`;

/** Gives each code its position: those to be asked first, so that chunks are full of them. */
const PLACED = `
  CREATE TEMP TABLE placed_codes ON COMMIT DROP AS
  SELECT code, code_id, fresh, CASE WHEN fresh THEN verdict END AS verdict,
         CASE WHEN fresh THEN last_check_id END AS check_id,
         (row_number() OVER (ORDER BY fresh, entry) - 1)::int AS position
    FROM (SELECT l.code, l.entry, p.code_id, p.verdict, p.last_check_id,
                 ${FRESH} AS fresh
            FROM pg_temp.listed_codes l
            JOIN mirror.purchase_codes p ON p.seller_id = $1 AND p.code = l.code) codes`;

const COUNTS = `
  SELECT count(*)::int AS codes, count(*) FILTER (WHERE fresh)::int AS reused,
         count(*) FILTER (WHERE verdict = 'valid')::int AS valid,
         count(*) FILTER (WHERE verdict = 'invalid')::int AS invalid
    FROM pg_temp.placed_codes`;

/** Takes the audit's number. */
const AUDIT = `
  INSERT INTO mirror.audits (seller_id, state, source, layout, columns, max_age_seconds, canary,
                             chunk_size, lines, rejected, codes, reused, valid, invalid, unproven,
                             pending, finished_at, confirm)
  SELECT $1, CASE WHEN $14::int = 0 THEN 'finished' ELSE 'running' END::mirror.audit_state,
         $2, $3::jsonb, $4::text[], $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, $14,
         CASE WHEN $14::int = 0 THEN clock_timestamp() END, $15
  RETURNING audit_id`;

const CODES = `
  INSERT INTO mirror.audit_codes (audit_id, position, seller_id, code_id, verdict, check_id, reused)
  SELECT $1, position, $2, code_id, verdict, check_id, fresh
    FROM pg_temp.placed_codes ORDER BY position`;

const CHUNKS = `
  INSERT INTO mirror.audit_chunks (audit_id, chunk, seller_id, pending)
  SELECT $1, chunk, $2, least($3::int, $4::int - chunk * $3::int)
    FROM generate_series(0, ($4::int - 1) / $3::int) AS chunk WHERE $4::int > 0`;

const ENTRIES = `
  INSERT INTO mirror.audit_entries (audit_id, entry, seller_id, line, position, rejected, columns)
  SELECT $1, i.entry, $2, i.line, c.position, i.rejected, i.columns
    FROM pg_temp.incoming_entries i LEFT JOIN pg_temp.placed_codes c ON c.code = i.code`;

const MEASURED = `
  SELECT count(*)::int AS codes, count(*) FILTER (WHERE ${FRESH})::int AS reused
    FROM (SELECT DISTINCT code FROM pg_temp.incoming_entries WHERE code IS NOT NULL) l
    LEFT JOIN mirror.purchase_codes p ON p.seller_id = $1 AND p.code = l.code`;

/** What the list in `incoming_entries` would come to if it were entered now; enters nothing. */
export async function measureList(
  client: PoolClient,
  { sellerId, maxAgeSeconds, chunkSize }: NewAudit,
  { lines, rejected }: ListCounts,
): Promise<AuditSize> {
  const { rows } = await client.query<Pick<CodeCounts, 'codes' | 'reused'>>(MEASURED, [
    sellerId,
    maxAgeSeconds,
  ]);
  const { codes, reused } = rows[0] as CodeCounts;
  return { lines, rejected, codes, reused, chunks: Math.ceil((codes - reused) / chunkSize) };
}

/**
 * Makes an audit of the list in `incoming_entries`, in one transaction. Two lists of a seller are
 * entered one after the other: to guard every single code against the other list would take far longer.
 */
export async function enterList(
  client: PoolClient,
  audit: NewAudit,
  { lines, rejected }: ListCounts,
): Promise<EnteredAudit> {
  const { sellerId, chunkSize, maxAgeSeconds } = audit;
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
  // Enough for the joins of a million codes; compiling these statements takes longer than it saves.
  await client.query(`SELECT set_config('work_mem', '64MB', true), set_config('jit', 'off', true)`);
  await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [
    `seller-mirror/codes/${sellerId}`,
  ]);
  await client.query(LISTED);
  // Without figures the planner takes the tables for tiny, and loops over them.
  await client.query('ANALYZE pg_temp.listed_codes');
  await client.query('ANALYZE pg_temp.incoming_entries');
  await client.query(NEW_CODES, [sellerId]);
  await client.query(PLACED, [sellerId, maxAgeSeconds]);
  await client.query('ANALYZE pg_temp.placed_codes');
  const { rows } = await client.query<CodeCounts>(COUNTS);
  const { codes, reused, valid, invalid } = rows[0] as CodeCounts;
  const pending = codes - reused;
  const entered = await client.query<{ audit_id: string }>(AUDIT, [
    ...[sellerId, storable(audit.source, LONGEST_TEXT), storableJsonText(audit.layout)],
    ...[audit.columns.map((name) => storable(name, LONGEST_TEXT)), maxAgeSeconds],
    audit.canary === null ? null : storable(audit.canary, LONGEST_TEXT),
    ...[chunkSize, lines, rejected, codes, reused, valid, invalid, pending],
    audit.confirm ?? 'auto',
  ]);
  const auditId = BigInt(entered.rows[0]?.audit_id ?? 0);
  await client.query(CODES, [auditId, sellerId]);
  await client.query(CHUNKS, [auditId, sellerId, chunkSize, pending]);
  await client.query(ENTRIES, [auditId, sellerId]);
  await client.query('DROP TABLE pg_temp.incoming_entries');
  await client.query('COMMIT');
  return { auditId, lines, rejected, codes, reused, chunks: Math.ceil(pending / chunkSize) };
}
