import { sellerIsLocked } from '../db/locks.js';
import { onlyRow } from '../db/connection.js';
import type { Db } from '../db/db.js';
import type { RunProgress } from './runs-store.js';

/** The best result of a seller's item runs on one day. */
export interface Night {
  readonly sellerId: string;
  /** 0 is today. */
  readonly daysAgo: number;
  readonly state: 'good' | 'warn' | 'bad';
}

/** Run results of the last `days` days, in the database's time zone. */
export async function readNights(
  { pool }: Db,
  sellerIds: readonly string[],
  days: number,
): Promise<Night[]> {
  const { rows } = await pool.query<Night>(
    `SELECT seller_id AS "sellerId", current_date - started_at::date AS "daysAgo",
            CASE WHEN bool_or(state = 'succeeded') THEN 'good'
                 WHEN bool_or(state = 'held') THEN 'warn' ELSE 'bad' END AS state
       FROM mirror.runs
      WHERE seller_id = ANY($1) AND kind = 'items' AND state NOT IN ('running', 'asked')
        AND started_at >= current_date - ($2::int - 1)
      GROUP BY 1, 2`,
    [sellerIds, days],
  );
  return rows;
}

/** What happened since a time, of all sellers. */
export interface ChangeSummary {
  readonly added: number;
  readonly removed: number;
  readonly missing: number;
  readonly restored: number;
  /** Items with any other change. */
  readonly changed: number;
  readonly cut: number;
  readonly raised: number;
  readonly noLongerValid: number;
  /** Codes that checks have settled, without those whose earlier verdict was reused. */
  readonly checked: number;
  /** Change of the sum of all balances, and the sum now, by currency. */
  readonly balances: readonly {
    readonly currency: string | null;
    readonly change: string;
    readonly sum: string;
  }[];
}

const PRICE = (side: 'old' | 'new'): string => `(${side}_value #>> '{}')::numeric`;
const PRICES = (sign: '<' | '>'): string => `(count(*) FILTER (
                WHERE field IN ('price_regular', 'price_extended')
                  AND ${PRICE('new')} ${sign} ${PRICE('old')}))::int`;

/** Summarizes the changes since a time. Items of a seller's first list don't count as added. */
export async function summarizeChanges({ pool }: Db, since: Date): Promise<ChangeSummary> {
  const [changes, codes, balances] = await Promise.all([
    pool.query<Omit<ChangeSummary, 'noLongerValid' | 'checked' | 'balances'>>(
      `SELECT (count(*) FILTER (WHERE class = 'added'))::int AS added,
              (count(*) FILTER (WHERE class = 'removed'))::int AS removed,
              (count(*) FILTER (WHERE class = 'missing'))::int AS missing,
              (count(*) FILTER (WHERE class = 'restored'))::int AS restored,
              (count(DISTINCT (seller_id, item_id)) FILTER (
                WHERE class NOT IN ('added', 'removed', 'missing', 'restored')))::int AS changed,
              ${PRICES('<')} AS cut, ${PRICES('>')} AS raised
         FROM mirror.item_changes WHERE changed_at >= $1`,
      [since],
    ),
    pool.query<Pick<ChangeSummary, 'noLongerValid' | 'checked'>>(
      `SELECT (SELECT count(*)::int FROM reporting.purchase_transitions
                WHERE happened_at >= $1 AND kind = 'became-invalid') AS "noLongerValid",
              (SELECT coalesce(sum(codes - reused - pending - unproven), 0)::int FROM mirror.audits
                WHERE created_at >= $1) AS checked`,
      [since],
    ),
    pool.query<ChangeSummary['balances'][number]>(
      // Compares each changed account with its state back then, or with its first one if that is newer. The
      // view would read the whole history.
      `SELECT a.currency, sum(a.balance - v.balance)::text AS change,
              (SELECT sum(balance)::text FROM mirror.accounts o WHERE o.currency = a.currency) AS sum
         FROM mirror.accounts a
         JOIN LATERAL (SELECT balance, currency FROM mirror.account_versions v
                        WHERE v.seller_id = a.seller_id AND v.valid_from >= coalesce(
                                (SELECT max(valid_from) FROM mirror.account_versions
                                  WHERE seller_id = a.seller_id AND valid_from <= $1), '-infinity')
                        ORDER BY v.valid_from LIMIT 1) v USING (currency)
        WHERE a.changed_at > $1 AND a.balance <> v.balance
        GROUP BY a.currency ORDER BY a.currency`,
      [since],
    ),
  ]);
  return { ...onlyRow(changes), ...onlyRow(codes), balances: balances.rows };
}

export interface Running {
  readonly runs: readonly {
    readonly runId: string;
    readonly sellerId: string;
    readonly kind: string;
    readonly startedAt: string;
    readonly progress: RunProgress | null;
  }[];
  readonly audits: readonly {
    readonly auditId: string;
    readonly sellerId: string;
    readonly source: string;
    readonly codes: number;
    readonly reused: number;
    readonly pending: number;
    readonly denied: number;
    /** What was asked so far; null before the first call. */
    readonly asked: {
      readonly phase: 'first pass' | 'second check';
      readonly asked: number;
      readonly total: number;
      readonly rounds: number;
      /** Milliseconds that the budget needs for the rest; null without a budget. */
      readonly leftMs: number | null;
    } | null;
    /** Milliseconds since 1970; null while it is worked on. */
    readonly resumeAt: number | null;
    readonly valid: number;
    readonly invalid: number;
    readonly noLongerValid: number;
    readonly unproven: number;
    readonly problem: string | null;
  }[];
  /** Ids of the newest run, audit and action. Pages may be outdated when it changes. */
  readonly newest: string;
}

/** Running runs and audits, without runs whose process died (it no longer holds the seller's lock). */
export async function readRunning({ pool }: Db): Promise<Running> {
  const result = await pool.query<Running>(
    `SELECT
       (SELECT coalesce(jsonb_agg(jsonb_build_object('runId', r.run_id::text,
                 'sellerId', r.seller_id, 'kind', r.kind, 'startedAt', r.started_at,
                 'progress', CASE WHEN p.run_id IS NOT NULL THEN
                   jsonb_build_object('phase', p.phase, 'done', p.done, 'total', p.total) END)
                 ORDER BY r.run_id), '[]')
          FROM mirror.runs r LEFT JOIN mirror.run_progress p USING (run_id)
         WHERE r.state = 'running' AND ${sellerIsLocked('r.seller_id')}) AS runs,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('auditId', audit_id::text,
                 'sellerId', seller_id, 'source', source, 'codes', codes, 'reused', reused,
                 'pending', pending, 'denied', denied, 'valid', valid, 'invalid', invalid,
                 'noLongerValid', no_longer_valid, 'unproven', unproven, 'asked', progress,
                 'resumeAt', floor(extract(epoch FROM resume_at) * 1000), 'problem', problem) ORDER BY audit_id), '[]')
          FROM mirror.audits WHERE state = 'running') AS audits,
       concat_ws('/', (SELECT max(run_id) FROM mirror.runs), (SELECT max(audit_id) FROM mirror.audits WHERE state <> 'draft'),
                 (SELECT max(action_id) FROM mirror.actions)) AS newest`,
  );
  return onlyRow(result);
}

/** A price change. */
export interface PriceMove {
  readonly sellerId: string;
  readonly itemId: string;
  readonly itemName: string | null;
  /** `regular` or `extended`. */
  readonly price: string;
  readonly oldPrice: string | null;
  readonly oldCurrency: string | null;
  readonly newPrice: string | null;
  readonly currency: string | null;
  readonly percent: string;
}

/** The largest price changes, up or down, since a time. */
export async function listPriceMoves(
  { pool }: Db,
  since: Date,
  limit: number,
): Promise<PriceMove[]> {
  const { rows } = await pool.query<PriceMove>(
    `SELECT seller_id AS "sellerId", item_id::text AS "itemId", item_name AS "itemName", price,
            old_price AS "oldPrice", old_currency AS "oldCurrency", new_price AS "newPrice", currency,
            percent
       FROM reporting.price_changes WHERE changed_at >= $1 AND percent IS NOT NULL
      ORDER BY abs(percent) DESC, seq LIMIT $2`,
    [since, limit],
  );
  return rows;
}
