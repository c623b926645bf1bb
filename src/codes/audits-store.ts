import { LONGEST_TEXT, storable } from '../db/stored-text.js';
import type { Db } from '../db/db.js';
import { LATEST_PLANNED } from '../db/moments.js';
import { MS } from './codes-store.js';
import type { AuditBacklog, AuditList, AuditProgress, AuditState, ResultFile } from './types.js';

/** A time further ahead than any pause was recorded by a clock that was wrong, and is not believed. */
export const RESUME_AT = `CASE WHEN resume_at <= ${LATEST_PLANNED} THEN resume_at END`;

/** SQL of the columns. The row has all counts, so that progress costs the same for every length of list. */
export const PROGRESS = `
  audit_id AS "auditId", seller_id AS "sellerId", state, source, is_look_ups AS "isLookUps", created_at AS "createdAt",
  finished_at AS "finishedAt", lines, rejected, codes, reused, valid, invalid,
  no_longer_valid AS "noLongerValid", unproven, pending, denied, progress AS asked,
  api_calls AS "apiCalls", problem, ${RESUME_AT} AS "resumeAt", result_path AS path,
  result_format AS format, result_decimal_comma AS "decimalComma", result_written_at AS "writtenAt"`;

type Row = Omit<AuditProgress, 'result'> &
  Omit<ResultFile, 'path'> & { readonly path: string | null };

/** The progress of an audit, or null if there is no such audit. A draft is none yet. */
export async function getAudit({ pool }: Db, auditId: bigint): Promise<AuditProgress | null> {
  const { rows } = await pool.query<Row>(
    `SELECT ${PROGRESS} FROM mirror.audits WHERE audit_id = $1 AND state <> 'draft'`,
    [auditId],
  );
  return rows[0] === undefined ? null : progressIn(rows[0]);
}

/** The running audits of these sellers. */
export async function listRunningAudits(
  { pool }: Db,
  sellerIds: readonly string[],
): Promise<AuditProgress[]> {
  const { rows } = await pool.query<Row>(
    `SELECT ${PROGRESS} FROM mirror.audits WHERE state = 'running' AND seller_id = ANY ($1) ORDER BY audit_id DESC`,
    [sellerIds],
  );
  return rows.map(progressIn);
}

/**
 * The newest audits since then that failed, and those that ended with unproven codes: so many of each for each seller. Not
 * those whose open codes have all got a verdict since, by whichever check: they need nobody any more.
 */
export async function listUnsettledAudits(
  { pool }: Db,
  since: Date,
  each: number,
): Promise<AuditProgress[]> {
  const { rows } = await pool.query<Row>(
    `SELECT ${PROGRESS} FROM (
       SELECT *, row_number() OVER (PARTITION BY seller_id, state ORDER BY audit_id DESC) AS nth
         FROM mirror.audits o
        WHERE (state = 'failed' OR state = 'finished' AND unproven > 0) AND created_at >= $1
          AND EXISTS (
            SELECT FROM mirror.audit_codes c JOIN mirror.purchase_codes p USING (code_id)
             WHERE c.audit_id = o.audit_id AND (c.verdict IS NULL OR c.verdict = 'unproven')
               AND (p.last_checked_at > o.created_at) IS NOT TRUE)) a
      WHERE nth <= $2 ORDER BY audit_id DESC`,
    [since, each],
  );
  return rows.map(progressIn);
}

/** Running audits and pending codes of each seller with a running audit. */
export async function listAuditBacklogs({ pool }: Db): Promise<AuditBacklog[]> {
  const { rows } = await pool.query<AuditBacklog>(
    `SELECT seller_id AS "sellerId", count(*)::int AS running, sum(pending)::int AS pending
       FROM mirror.audits WHERE state = 'running' GROUP BY seller_id`,
  );
  return rows;
}

/** How the list of an audit was read, or null if there is no such audit. */
export async function readAuditList({ pool }: Db, auditId: bigint): Promise<AuditList | null> {
  const { rows } = await pool.query<AuditList>(
    `SELECT layout, columns, list_pruned_at AS "prunedAt" FROM mirror.audits WHERE audit_id = $1`,
    [auditId],
  );
  return rows[0] ?? null;
}

/**
 * Cancels a running or failed audit. Its pending codes stay pending.
 * @returns the audit's state afterwards, or null if there is no such audit
 */
export async function cancelAudit(db: Db, auditId: bigint): Promise<AuditState | null> {
  const set = `state = 'cancelled', problem = NULL, resume_at = NULL`;
  return changeState(db, auditId, set, `state IN ('running', 'failed')`);
}

/** Fails a running audit for a problem that needs a person. @returns as `cancel` */
export async function failAudit(
  db: Db,
  auditId: bigint,
  problem: string,
): Promise<AuditState | null> {
  const text = storable(problem, LONGEST_TEXT);
  return changeState(
    db,
    auditId,
    `state = 'failed', problem = $2, resume_at = NULL`,
    `state = 'running'`,
    text,
  );
}

/**
 * Records why an audit waits, and until when.
 * @param problem null if nothing is wrong @param resumeAt milliseconds since 1970; null: it is worked on
 */
export async function noteAuditWait(
  { pool }: Db,
  auditId: bigint,
  problem: string | null,
  resumeAt: number | null,
): Promise<void> {
  await pool.query(
    `UPDATE mirror.audits SET problem = $2, resume_at = $3
      WHERE audit_id = $1 AND state = 'running'
        AND (problem, resume_at) IS DISTINCT FROM ($2, $3::timestamptz)`,
    [
      auditId,
      problem === null ? null : storable(problem, LONGEST_TEXT),
      resumeAt === null ? null : new Date(resumeAt),
    ],
  );
}

/** Writes what a check asked so far. @param progress as JSON: `AskedSoFar` */
export async function writeProgress(
  { pool }: Db,
  auditId: bigint,
  progress: string,
): Promise<void> {
  await pool.query('UPDATE mirror.audits SET progress = $2 WHERE audit_id = $1', [
    auditId,
    progress,
  ]);
}

/** Records the file for the result of an audit, as not yet written. */
export async function setResultFile(
  { pool }: Db,
  auditId: bigint,
  { path, format, decimalComma }: Omit<ResultFile, 'writtenAt'>,
): Promise<void> {
  await pool.query(
    `UPDATE mirror.audits
        SET result_path = $2, result_format = $3, result_decimal_comma = $4, result_written_at = NULL
      WHERE audit_id = $1`,
    [auditId, path, format, decimalComma],
  );
}

/** Records that the result of a finished audit was written to its file. */
export async function markResultWritten({ pool }: Db, auditId: bigint): Promise<void> {
  await pool.query(
    `UPDATE mirror.audits SET result_written_at = clock_timestamp()
      WHERE audit_id = $1 AND state = 'finished' AND result_path IS NOT NULL`,
    [auditId],
  );
}

/** Resumes a cancelled or failed audit. @returns as `cancel` */
export async function resumeAudit(db: Db, auditId: bigint): Promise<AuditState | null> {
  const set = `problem = NULL, resume_at = NULL,
    state = (CASE WHEN pending = 0 THEN 'finished' ELSE 'running' END)::mirror.audit_state,
    finished_at = CASE WHEN pending = 0 THEN clock_timestamp() END`;
  return changeState(db, auditId, set, `state IN ('cancelled', 'failed')`);
}

/** Updates the audit if `where` allows it. @returns its state afterwards, or null if there is no such audit */
async function changeState(
  db: Db,
  auditId: bigint,
  set: string,
  where: string,
  ...values: readonly string[]
): Promise<AuditState | null> {
  const { rows } = await db.pool.query<{ state: AuditState }>(
    `UPDATE mirror.audits SET ${set} WHERE audit_id = $1 AND ${where} RETURNING state`,
    [auditId, ...values],
  );
  return rows[0]?.state ?? (await getAudit(db, auditId))?.state ?? null;
}

/** Reads a row of `PROGRESS`. */
export function progressIn({ path, format, decimalComma, writtenAt, ...row }: Row): AuditProgress {
  return { ...row, result: path === null ? null : { path, format, decimalComma, writtenAt } };
}

/** What whoever began an audit said about it. */
export interface AuditTerms {
  /** A code that they say is valid; null: none. */
  readonly knownValid: string | null;
  /** From a denial to the second check, milliseconds. */
  readonly confirmAfterMs: number;
  /** As in `Situation`. */
  readonly heldUntil: number;
}

export async function readAuditTerms({ pool }: Db, auditId: bigint): Promise<AuditTerms> {
  const { rows } = await pool.query<AuditTerms>(
    `SELECT known_valid AS "knownValid", confirm_after_ms AS "confirmAfterMs",
            CASE WHEN held_until <= now() + interval '1 hour' THEN ${MS('held_until')} ELSE 0 END AS "heldUntil"
       FROM mirror.audits WHERE audit_id = $1`,
    [auditId],
  );
  const [terms] = rows;
  if (terms === undefined) throw new Error(`there is no audit ${auditId}`);
  return terms;
}
