import type { Pool } from 'pg';
import { sellerIsLocked } from './locks.js';
import { DIED, type RunKind, type RunProgress, type RunState } from './runs.js';

/** A seller as the dashboard lists it. */
export interface SellerRow {
  readonly sellerId: string;
  readonly marketplace: string;
  readonly username: string | null;
  readonly balance: string | null;
  readonly currency: string | null;
  readonly live: number;
  readonly missing: number;
  readonly removed: number;
  /** Records of the newest run of items that could not be decoded. */
  readonly quarantined: number;
  /** A held run mirrored all that is present, so the copy is as current as after a success. */
  readonly itemsMirroredAt: Date | null;
  readonly accountMirroredAt: Date | null;
  readonly parkedAt: Date | null;
  /** Why schedules leave the seller alone. */
  readonly parkedCode: string | null;
  readonly parkedReason: string | null;
  readonly parkedRunId: string | null;
  /** The run under way; null for one whose process died, which holds the seller's lock no more. */
  readonly running: {
    readonly runId: string;
    readonly kind: RunKind;
    readonly startedAt: string;
    readonly holder: string;
  } | null;
  /**
   * Of the newest run of account and the newest of items the later one that did not go well. A run of
   * one item fails for the item's own reasons, so it says nothing about the copy.
   */
  readonly problem: {
    readonly runId: string;
    readonly kind: RunKind;
    readonly state: RunState;
    readonly problemCode: string | null;
    readonly problem: string | null;
    readonly startedAt: string;
    readonly finishedAt: string | null;
    /** It waits for a person's decision. */
    readonly undecided: boolean;
  } | null;
  /** The newest run of the last week that changed a field in all or nearly all items. */
  readonly wide: {
    readonly runId: string;
    readonly at: string;
    readonly compared: number;
    readonly fields: readonly string[];
    readonly items: readonly number[];
  } | null;
}

/** The newest run of a seller with these traits, by SQL. */
const newest = (columns: string, traits: string): string =>
  `(SELECT ${columns} FROM mirror.runs r
     WHERE r.seller_id = s.seller_id AND ${traits} ORDER BY r.run_id DESC LIMIT 1)`;

const GOOD = "r.state IN ('succeeded', 'held')";
const OVER = 'r.run_id IS DISTINCT FROM running.run_id';
const wentBadly = (run: string): string => `${run}.state NOT IN ('succeeded', 'held')`;
const SEEN =
  'r.run_id, r.kind, r.state, r.decision, r.problem_code, r.problem, r.started_at, r.finished_at, r.quarantined';

/**
 * Most newest runs went well: only for the others an earlier one is looked for. Items are counted for all
 * sellers at once: counted a seller at a time, PostgreSQL expects so much work that it compiles the
 * statement first, which takes a second.
 */
const SELLERS = `
  WITH running AS (
    SELECT DISTINCT ON (r.seller_id) r.* FROM mirror.runs r
     WHERE r.state = 'running' AND ${sellerIsLocked('r.seller_id')}
     ORDER BY r.seller_id, r.run_id DESC)
  SELECT s.seller_id AS "sellerId", s.marketplace, a.username, a.balance::text, a.currency,
         coalesce(counts.live, 0) AS live, coalesce(counts.missing, 0) AS missing,
         coalesce(counts.removed, 0) AS removed,
         coalesce(CASE WHEN items.state IN ('succeeded', 'held') THEN items.quarantined
                       ELSE good_items.quarantined END, 0) AS quarantined,
         CASE WHEN items.state IN ('succeeded', 'held') THEN items.finished_at
              ELSE good_items.finished_at END AS "itemsMirroredAt",
         CASE WHEN account.state IN ('succeeded', 'held') THEN account.finished_at
              ELSE good_account.finished_at END AS "accountMirroredAt",
         s.parked_at AS "parkedAt", s.parked_code AS "parkedCode", s.parked_reason AS "parkedReason",
         s.parked_run_id AS "parkedRunId",
         CASE WHEN running.run_id IS NOT NULL THEN
           jsonb_build_object('runId', running.run_id::text, 'kind', running.kind,
             'startedAt', running.started_at, 'holder', running.holder) END AS running,
         CASE WHEN last.run_id IS NOT NULL THEN
           jsonb_build_object('runId', last.run_id::text, 'kind', last.kind,
             'state', CASE last.state WHEN 'running' THEN $2 ELSE last.state::text END,
             'problemCode', CASE last.state WHEN 'running' THEN $3 ELSE last.problem_code END,
             'problem', CASE last.state WHEN 'running' THEN $4 ELSE last.problem END,
             'startedAt', last.started_at, 'finishedAt', last.finished_at,
             'undecided', last.state = 'held') END AS problem,
         CASE WHEN wide.run_id IS NOT NULL THEN
           jsonb_build_object('runId', wide.run_id::text, 'compared', wide.compared,
             'at', coalesce(wide.finished_at, wide.started_at),
             'fields', wide.wide_fields, 'items', wide.wide_items) END AS wide
    FROM mirror.sellers s
    LEFT JOIN mirror.accounts a USING (seller_id)
    LEFT JOIN running USING (seller_id)
    LEFT JOIN (
      SELECT seller_id, (count(*) FILTER (WHERE state = 'live'))::int AS live,
             (count(*) FILTER (WHERE state = 'missing'))::int AS missing,
             (count(*) FILTER (WHERE state = 'removed'))::int AS removed
        FROM mirror.items WHERE $1::text IS NULL OR seller_id = $1
       GROUP BY seller_id) counts USING (seller_id)
    LEFT JOIN LATERAL ${newest(SEEN, `r.kind = 'items' AND ${OVER}`)} items ON true
    LEFT JOIN LATERAL ${newest(SEEN, `r.kind = 'items' AND ${GOOD} AND ${wentBadly('items')}`)} good_items ON true
    LEFT JOIN LATERAL ${newest(SEEN, `r.kind = 'account' AND ${OVER}`)} account ON true
    LEFT JOIN LATERAL ${newest(SEEN, `r.kind = 'account' AND ${GOOD} AND ${wentBadly('account')}`)} good_account ON true
    LEFT JOIN LATERAL (
      SELECT * FROM (SELECT items.* UNION ALL SELECT account.*) either
       WHERE state <> 'succeeded' AND decision IS NULL
       ORDER BY run_id DESC LIMIT 1) last ON true
    LEFT JOIN LATERAL ${newest(
      '*',
      `r.wide_fields <> '{}' AND r.kind = 'items' AND ${GOOD} AND r.compared IS NOT NULL
        AND r.started_at >= now() - $5 * interval '1 ms'`,
    )} wide ON true
   WHERE $1::text IS NULL OR s.seller_id = $1
   ORDER BY s.seller_id`;

/** Changes of the whole catalogue are shown for a week (ms), so that a weekly look finds them. */
const WIDE_TOLD_MS = 7 * 86_400_000;

/**
 * Every seller with the state of its copy, by name, or the one asked for. One statement for all: a
 * thousand sellers take about as long as ten.
 */
export async function sellers(pool: Pool, sellerId: string | null = null): Promise<SellerRow[]> {
  const { state, problemCode, problem } = DIED;
  const values = [sellerId, state, problemCode, problem, WIDE_TOLD_MS];
  const read = async (): Promise<SellerRow[]> =>
    (await pool.query<SellerRow>(SELLERS, values)).rows;
  const rows = await read();
  // Locks are looked at after the rows were: such a run may just have ended well.
  const seemsDead = ({ problem: last }: SellerRow): boolean =>
    last?.state === state && last.finishedAt === null;
  return rows.some(seemsDead) ? await read() : rows;
}

/** How a seller's runs of one day ended: the best of them. */
export interface Night {
  readonly sellerId: string;
  /** Days before today: 0 is today. */
  readonly daysAgo: number;
  readonly state: 'good' | 'warn' | 'bad';
}

/** The nights of these sellers within so many days, by the days of the database's time zone. */
export async function nights(
  pool: Pool,
  sellerIds: readonly string[],
  days: number,
): Promise<Night[]> {
  const { rows } = await pool.query<Night>(
    `SELECT seller_id AS "sellerId", current_date - started_at::date AS "daysAgo",
            CASE WHEN bool_or(state = 'succeeded') THEN 'good'
                 WHEN bool_or(state = 'held') THEN 'warn' ELSE 'bad' END AS state
       FROM mirror.runs
      WHERE seller_id = ANY($1) AND kind = 'items' AND state <> 'running'
        AND started_at >= current_date - ($2::int - 1)
      GROUP BY 1, 2`,
    [sellerIds, days],
  );
  return rows;
}

/** What happened since a moment. */
export interface Happened {
  readonly added: number;
  readonly removed: number;
  readonly missing: number;
  readonly restored: number;
  /** Items of which a price, a text, a file or anything else changed. */
  readonly changed: number;
  readonly newlyInvalid: number;
  /** By currency: what all balances together are more or less than then. */
  readonly balances: readonly { readonly currency: string | null; readonly change: string }[];
}

/** Sums up what happened since a moment. Items of a seller's first list are not news. */
export async function happenedSince(pool: Pool, since: Date): Promise<Happened> {
  const [changes, codes, balances] = await Promise.all([
    pool.query<Omit<Happened, 'newlyInvalid' | 'balances'>>(
      `SELECT (count(*) FILTER (WHERE class = 'added'))::int AS added,
              (count(*) FILTER (WHERE class = 'removed'))::int AS removed,
              (count(*) FILTER (WHERE class = 'missing'))::int AS missing,
              (count(*) FILTER (WHERE class = 'restored'))::int AS restored,
              (count(DISTINCT (seller_id, item_id)) FILTER (
                WHERE class NOT IN ('added', 'removed', 'missing', 'restored')))::int AS changed
         FROM mirror.item_changes WHERE changed_at >= $1`,
      [since],
    ),
    pool.query<{ codes: number }>(
      `SELECT count(*)::int AS codes FROM reporting.purchase_transitions
        WHERE happened_at >= $1 AND kind = 'became-invalid'`,
      [since],
    ),
    pool.query<{ currency: string | null; change: string }>(
      // The account as it was then, when it has changed since; the view would look at all of history.
      `SELECT a.currency, sum(a.balance - v.balance)::text AS change
         FROM mirror.accounts a
         JOIN LATERAL (SELECT balance, currency FROM mirror.account_versions v
                        WHERE v.seller_id = a.seller_id AND v.valid_from <= $1
                        ORDER BY v.valid_from DESC LIMIT 1) v USING (currency)
        WHERE a.changed_at > $1 AND a.balance <> v.balance
        GROUP BY a.currency ORDER BY a.currency`,
      [since],
    ),
  ]);
  const [counts] = changes.rows;
  if (counts === undefined) throw new Error('the store did not count the changes');
  return { ...counts, newlyInvalid: codes.rows[0]?.codes ?? 0, balances: balances.rows };
}

/** What is at work now. */
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
    readonly valid: number;
    readonly invalid: number;
    readonly unproven: number;
    readonly problem: string | null;
  }[];
  /** The newest run, audit and action: another one means that pages may look different. */
  readonly newest: string;
}

/** Runs and audits at work. A run whose process died holds its seller's lock no more, and is left out. */
export async function running(pool: Pool): Promise<Running> {
  const { rows } = await pool.query<Running>(
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
                 'unproven', unproven, 'problem', problem) ORDER BY audit_id), '[]')
          FROM mirror.audits WHERE state = 'running') AS audits,
       concat_ws('/', (SELECT max(run_id) FROM mirror.runs), (SELECT max(audit_id) FROM mirror.audits),
                 (SELECT max(action_id) FROM mirror.actions)) AS newest`,
  );
  const [row] = rows;
  if (row === undefined) throw new Error('the store did not say what is running');
  return row;
}

/** A price that changed. */
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

/** The prices that changed most since a moment, up or down. */
export async function priceMoves(pool: Pool, since: Date, limit: number): Promise<PriceMove[]> {
  const { rows } = await pool.query<PriceMove>(
    `SELECT seller_id AS "sellerId", item_id AS "itemId", item_name AS "itemName", price,
            old_price AS "oldPrice", old_currency AS "oldCurrency", new_price AS "newPrice", currency,
            percent
       FROM reporting.price_changes WHERE changed_at >= $1 AND percent IS NOT NULL
      ORDER BY abs(percent) DESC, seq LIMIT $2`,
    [since, limit],
  );
  return rows;
}
