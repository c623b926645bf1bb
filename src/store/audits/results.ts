import type { Pool, QueryResult, QueryResultRow } from 'pg';
import type { Verdict } from '../../domain/codes/proof.js';
import { type LockPools, openLong } from '../advisory-lock.js';
import {
  denialsIn,
  type DenialsRow,
  LEDGER_DENIALS,
  PURCHASE_COLUMNS,
  purchaseIn,
  type PurchaseRow,
} from './known-row.js';
import type { AuditResult, UnprovenCount } from './types.js';

/**
 * The denials of a verdict that was taken over are in the ledger; those of this audit are with its codes,
 * where one that was asked for once only has none but its check.
 */
const RESULTS = `
  SELECT e.line, e.columns, e.rejected, p.code, c.verdict, c.reused, k.checked_at, k.reason, k.proof,
         n.denials, n.first_denied_at, n.last_denied_at, ${PURCHASE_COLUMNS}
    FROM mirror.audit_entries e
    LEFT JOIN mirror.audit_codes c ON c.audit_id = e.audit_id AND c.position = e.position
    LEFT JOIN mirror.purchase_codes p ON p.code_id = c.code_id
    LEFT JOIN mirror.code_checks k ON k.check_id = c.check_id
    LEFT JOIN LATERAL (
      SELECT greatest(c.denials, 1) AS denials, coalesce(c.first_denied_at, k.checked_at) AS first_denied_at,
             coalesce(c.last_denied_at, k.checked_at) AS last_denied_at
       WHERE c.verdict = 'invalid' AND NOT c.reused
       UNION ALL
      SELECT * FROM (${LEDGER_DENIALS}) ledger WHERE c.verdict = 'invalid' AND c.reused
    ) n ON true
   WHERE e.audit_id = $1 ORDER BY e.entry`;

interface Row extends PurchaseRow, DenialsRow {
  readonly line: number;
  readonly columns: readonly string[];
  readonly rejected: string | null;
  readonly code: string | null;
  readonly verdict: Verdict | null;
  readonly reused: boolean | null;
  readonly checked_at: Date | null;
  readonly reason: string | null;
  readonly proof: string | null;
}

/** The records of an audit's list in their order with what came of them, as of one moment. */
export async function* auditResults(
  pools: LockPools,
  auditId: bigint,
): AsyncGenerator<AuditResult, void, undefined> {
  for await (const rows of streamRows<Row>(pools, RESULTS, [auditId])) {
    for (const row of rows) yield resultIn(row);
  }
}

function resultIn(row: Row): AuditResult {
  return {
    line: row.line,
    columns: row.columns,
    code: row.code,
    rejected: row.rejected,
    verdict: row.verdict,
    reused: row.reused === true,
    checkedAt: row.checked_at,
    // Its last check only says that it was denied once more.
    reason: row.verdict === 'invalid' ? 'denied' : row.reason,
    proof: row.proof,
    denials: denialsIn(row),
    purchase: purchaseIn(row),
  };
}

/** How many codes the audit found invalid with no other proof than account details. */
export async function accountProven(pool: Pool, auditId: bigint): Promise<number> {
  const { rows } = await pool.query<{ codes: number }>(
    `SELECT count(*)::int AS codes
       FROM mirror.audit_codes c JOIN mirror.code_checks k ON k.check_id = c.check_id
      WHERE c.audit_id = $1 AND c.verdict = 'invalid' AND k.proof = 'account'`,
    [auditId],
  );
  return rows[0]?.codes ?? 0;
}

/** Why codes of an audit have no verdict, the most frequent reason first. */
export async function unprovenCounts(pool: Pool, auditId: bigint): Promise<UnprovenCount[]> {
  const { rows } = await pool.query<UnprovenCount>(
    `SELECT k.reason, count(*)::int AS codes
       FROM mirror.audit_codes c JOIN mirror.code_checks k ON k.check_id = c.check_id
      WHERE c.audit_id = $1 AND (c.verdict = 'unproven' OR c.verdict IS NULL)
      GROUP BY k.reason ORDER BY codes DESC, k.reason`,
    [auditId],
  );
  return rows;
}

/** Rows of one portion; the next one is fetched while the caller is at work on this one. */
const PORTION = 1_000;

/**
 * The answer to a query in portions, in bounded memory: all of it as of the moment of the first. Whoever
 * reads may take any time, on a connection of its own.
 */
export async function* streamRows<R extends QueryResultRow>(
  pools: LockPools,
  sql: string,
  values: readonly unknown[],
): AsyncGenerator<readonly R[], void, undefined> {
  const { client, release } = await openLong(pools);
  let isDone = false;
  const fetch = (): Promise<QueryResult<R>> => {
    const portion = client.query<R>(`FETCH ${PORTION} FROM streamed`);
    // Told when it is waited for; a caller that turns away does not wait for it.
    portion.catch(() => undefined);
    return portion;
  };
  try {
    await client.query('BEGIN TRANSACTION READ ONLY');
    await client.query(`DECLARE streamed NO SCROLL CURSOR FOR ${sql}`, [...values]);
    let portion = fetch();
    for (;;) {
      const { rows } = await portion;
      if (rows.length === 0) break;
      portion = fetch();
      yield rows;
    }
    await client.query('COMMIT');
    isDone = true;
  } finally {
    // Of a caller that turned away, the connection may be in the middle of an answer.
    release(isDone);
  }
}
