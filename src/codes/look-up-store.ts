import { RESUME_AT } from './audits-store.js';
import { onlyRow } from '../db/connection.js';
import { inTransaction, type Db } from '../db/db.js';
import { CODE_ID, codesLock, KNOWN } from './codes-store.js';
import type { KnownCode } from './known-code.js';

/** What is known about a code that somebody looks up. */
export interface LookedUp {
  /** Null if it was never proven to be valid or invalid. */
  readonly known: KnownCode | null;
  /** The form in which the marketplace found it last; null: it never did. */
  readonly foundForm: string | null;
  /**
   * It was denied, and waits for the second check: when it was asked last, milliseconds since 1970, and for how long it waits
   * then. Null: it does not wait.
   */
  readonly waiting: { readonly askedAt: number; readonly waitMs: number } | null;
  /** Why the worker can't go on with the seller's look-ups; null: it can. */
  readonly problem: string | null;
  /** When it goes on, milliseconds since 1970; null: unknown. */
  readonly resumeAt: number | null;
}

/** A code's place in the look-ups of the day. */
export interface LookUpPlace {
  readonly auditId: bigint;
  readonly position: number;
}

/** Reads a code with $1 its seller and $2 its text. */
export const READ = {
  name: 'look-up-read',
  text: `
  SELECT ${KNOWN} AS known,
         CASE WHEN p.purchase_seen_at IS NOT NULL THEN coalesce(p.found_form, p.code) END AS "foundForm",
         w.waiting, r.problem, floor(extract(epoch FROM r.resume_at) * 1000)::float8 AS "resumeAt"
    FROM (SELECT) one
    LEFT JOIN mirror.purchase_codes p ON p.code_id = ${CODE_ID}
    LEFT JOIN LATERAL (
      SELECT json_build_object('askedAt', floor(extract(epoch FROM c.asked_at) * 1000),
                               'waitMs', a.confirm_after_ms) AS waiting
        FROM mirror.audit_codes c JOIN mirror.audits a USING (audit_id)
       WHERE c.code_id = p.code_id AND c.verdict IS NULL AND c.denied_at IS NOT NULL
         AND a.state = 'running' AND a.is_look_ups
       ORDER BY c.asked_at DESC LIMIT 1) w ON true
    LEFT JOIN LATERAL (
      SELECT a.problem, ${RESUME_AT} AS resume_at FROM mirror.audits a
       WHERE a.seller_id = $1 AND a.state = 'running' AND a.is_look_ups AND a.problem IS NOT NULL
       ORDER BY a.audit_id DESC LIMIT 1) r ON true`,
};

/** Reads what is known about a code, without a call. */
export async function readLookUp({ pool }: Db, sellerId: string, code: string): Promise<LookedUp> {
  return onlyRow(await pool.query<LookedUp>(READ, [sellerId, code]));
}

/**
 * Adds a code to the seller's look-ups of today, an audit that runs while any of its codes has no verdict. So a
 * restart loses nothing, and the denied codes of all callers share proven windows. A code that waits for its verdict
 * keeps its place.
 */
export async function enterLookUp(db: Db, sellerId: string, code: string): Promise<LookUpPlace> {
  return inTurn(db, sellerId, () => enter(db, sellerId, code));
}

/** The last entry of each seller that was begun on each database. */
const lastEntries = new WeakMap<Db, Map<string, Promise<unknown>>>();

/**
 * Runs the entries of a seller one after another. While a list is imported, one of them waits for its lock with a
 * connection of the pool, and the others wait without one.
 */
function inTurn<T>(db: Db, sellerId: string, work: () => Promise<T>): Promise<T> {
  const last = lastEntries.get(db) ?? new Map<string, Promise<unknown>>();
  lastEntries.set(db, last);
  const turn = (last.get(sellerId) ?? Promise.resolve()).then(work);
  last.set(
    sellerId,
    turn.catch(() => undefined),
  );
  return turn;
}

function enter(db: Db, sellerId: string, code: string): Promise<LookUpPlace> {
  return inTransaction(db, async (client) => {
    // The lock of lists: two lists, or a list and a look-up, must not add the same new code.
    await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [
      codesLock(sellerId),
    ]);
    const audits = await client.query<{ auditId: bigint; codes: number }>(
      `SELECT audit_id AS "auditId", codes FROM mirror.audits
        WHERE seller_id = $1 AND is_look_ups
          AND created_at >= date_trunc('day', now()) AND state IN ('running', 'finished')
        ORDER BY audit_id DESC LIMIT 1 FOR UPDATE`,
      [sellerId],
    );
    const { auditId, codes } = audits.rows[0] ?? (await beginLookUps(client, sellerId));
    const found = await client.query<{ codeId: bigint }>(
      `WITH known AS (SELECT ${CODE_ID} AS code_id), added AS (
         INSERT INTO mirror.purchase_codes (seller_id, code)
         SELECT $1, $2 FROM known WHERE code_id IS NULL RETURNING code_id
       )
       SELECT code_id AS "codeId" FROM added
       UNION ALL SELECT code_id FROM known WHERE code_id IS NOT NULL`,
      [sellerId, code],
    );
    const codeId = found.rows[0]?.codeId;
    const waiting = await client.query<{ position: number }>(
      `SELECT position FROM mirror.audit_codes
        WHERE audit_id = $1 AND code_id = $2 AND verdict IS NULL AND position >= 0`,
      [auditId, codeId],
    );
    const [first] = waiting.rows;
    if (first !== undefined) return { auditId, position: first.position };
    await client.query(
      `WITH entry AS (
         INSERT INTO mirror.audit_entries (audit_id, entry, seller_id, line, position, columns)
         VALUES ($1, $4::int + 1, $2, $4::int + 1, $4, ARRAY[$5])
       ), code AS (
         INSERT INTO mirror.audit_codes (audit_id, position, seller_id, code_id, reused)
         VALUES ($1, $4, $2, $3, false)
       )
       UPDATE mirror.audits
          SET lines = lines + 1, codes = codes + 1, pending = pending + 1,
              state = 'running', finished_at = NULL
        WHERE audit_id = $1`,
      [auditId, sellerId, codeId, codes, code],
    );
    return { auditId, position: codes };
  });
}

/** The look-ups of a seller today, by the database's clock. */
export interface LookUpLoad {
  readonly sellerId: string;
  /** Codes for which the marketplace was asked. */
  readonly codes: number;
  /** Calls made for them, with the second checks of denied codes. */
  readonly calls: number;
  /** Denied codes that wait for their second check. */
  readonly pending: number;
  /** Minutes of the day so far, at least 1. */
  readonly minutes: number;
}

/** The load of each seller who had look-ups today or yesterday. */
export async function listLookUpLoads({ pool }: Db): Promise<LookUpLoad[]> {
  const { rows } = await pool.query<LookUpLoad>(
    `SELECT seller_id AS "sellerId",
            coalesce(sum(codes) FILTER (WHERE created_at >= day), 0)::int AS codes,
            coalesce(sum(api_calls) FILTER (WHERE created_at >= day), 0)::int AS calls,
            coalesce(sum(denied) FILTER (WHERE state = 'running'), 0)::int AS pending,
            greatest(1, extract(epoch FROM now() - day) / 60)::float8 AS minutes
       FROM mirror.audits, date_trunc('day', now()) AS day
      WHERE is_look_ups AND created_at >= day - interval '1 day'
      GROUP BY seller_id, day ORDER BY seller_id`,
  );
  return rows;
}

/**
 * The part of the calls allowed today that look-ups have used; 0 without a budget.
 * @param callsPerMinute that they may make; Infinity: no limit
 */
export function shareUsed({ calls, minutes }: LookUpLoad, callsPerMinute: number): number {
  return calls / (callsPerMinute * minutes);
}

interface Queryable {
  query(text: string, values: readonly unknown[]): Promise<{ rows: unknown[] }>;
}

async function beginLookUps(
  client: Queryable,
  sellerId: string,
): Promise<{ auditId: bigint; codes: number }> {
  const { rows } = await client.query(
    `INSERT INTO mirror.audits (seller_id, state, source, is_look_ups, layout, columns, lines, rejected,
                                codes, reused, valid, invalid, unproven, pending)
     VALUES ($1, 'running', 'look-ups', true, '{}', ARRAY['code'], 0, 0, 0, 0, 0, 0, 0, 0)
     RETURNING audit_id AS "auditId", codes`,
    [sellerId],
  );
  return rows[0] as { auditId: bigint; codes: number };
}
