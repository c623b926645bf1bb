import type { Db } from './db.js';

/**
 * SQL of the latest moment that is believed. Clocks of a store's processes differ by less; what is recorded further
 * ahead of the database's clock was recorded while that was wrong.
 */
export const LATEST_BELIEVED = `(now() + interval '1 minute')`;

/** SQL of the latest moment that is believed of what may be ahead: servers and people ask for a day at most. */
export const LATEST_PLANNED = `(now() + interval '25 hours')`;

/** A moment that was recorded by a clock that was ahead, so that it is not believed. */
export interface MomentAhead {
  /** What it is of, such as `the start of run 7`. */
  readonly what: string;
  /** Null: of no seller. */
  readonly sellerId: string | null;
  readonly runId: bigint | null;
  readonly at: Date;
}

/** SQL of a kind of moment: what it is of, its seller and run, the moment itself, and where it stands. */
const kind = (
  what: string,
  { seller = 'NULL', run = 'NULL' }: { readonly seller?: string; readonly run?: string },
  at: string,
  from: string,
  latest = LATEST_BELIEVED,
): string => `
  SELECT ${what} AS what, ${seller} AS seller_id, ${run}::bigint AS run_id, max(${at}) AS at
    FROM ${from} ${/\bWHERE\b/.test(from) ? 'AND' : 'WHERE'} ${at} > ${latest}
   GROUP BY 1, 2, 3`;

/** SQL of the newest run of each seller. Of each kind by itself, as the index has them: 30 ms for 500 sellers, not 20 s. */
const newestRun = (column: string, kinds: string): string => `
  mirror.sellers s CROSS JOIN LATERAL (
    SELECT n.* FROM unnest(${kinds}::mirror.run_kind[]) AS k (kind)
     CROSS JOIN LATERAL (SELECT run_id, ${column} FROM mirror.runs r
                          WHERE r.seller_id = s.seller_id AND r.kind = k.kind AND r.state <> 'asked'
                          ORDER BY run_id DESC LIMIT 1) n
     ORDER BY n.run_id DESC LIMIT 1) r WHERE true`;

const MOMENTS = [
  kind(
    `'the start of run ' || run_id`,
    { seller: 's.seller_id', run: 'run_id' },
    'started_at',
    newestRun('started_at', `'{account,items}'`),
  ),
  kind(
    `'the retry of run ' || run_id`,
    { seller: 's.seller_id', run: 'run_id' },
    'retry_at',
    newestRun('retry_at', 'enum_range(NULL::mirror.run_kind)'),
    LATEST_PLANNED,
  ),
  kind(
    `'a denial of check ' || a.audit_id`,
    { seller: 'a.seller_id' },
    'c.asked_at',
    `mirror.audits a JOIN mirror.audit_codes c USING (audit_id)
      WHERE a.state = 'running' AND c.verdict IS NULL AND c.denied_at IS NOT NULL`,
  ),
  kind(
    `'the pause of check ' || audit_id`,
    { seller: 'seller_id' },
    'resume_at',
    `mirror.audits WHERE state = 'running'`,
    LATEST_PLANNED,
  ),
  kind(`'a heartbeat on ' || host`, {}, 'seen_at', 'mirror.processes'),
  kind(`'the last problem of feed ' || feed`, {}, 'failed_at', 'mirror.feeds'),
  kind(
    `'the retry of an alert'`,
    {},
    'retry_at',
    'mirror.alerts WHERE ended_at IS NULL',
    LATEST_PLANNED,
  ),
  kind(`'a session at the dashboard'`, {}, 'seen_at', 'mirror.sessions'),
  kind(`'a login link'`, {}, 'expires_at', 'mirror.login_links', LATEST_PLANNED),
];

/** The moments that were recorded while a clock was ahead: of each kind and seller the farthest. */
export async function listMomentsAhead({ pool }: Pick<Db, 'pool'>): Promise<MomentAhead[]> {
  const { rows } = await pool.query<MomentAhead>(
    `SELECT what, seller_id AS "sellerId", run_id AS "runId", at
       FROM (${MOMENTS.join(' UNION ALL ')}) AS ahead ORDER BY seller_id, run_id, what`,
  );
  return rows;
}
