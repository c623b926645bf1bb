import type { Pool } from 'pg';
import type { WideChange } from '../domain/changes.js';
import { type HeldBack, readHeldBack } from './decisions.js';
import type { Run } from './generated/prisma/client.js';
import { sellerIsLocked } from './locks.js';
import { DIED } from './runs.js';
import { type Parking, PARKING, parkingIn, type ParkingRow } from './sellers.js';

/** A run as a seller's status shows it. */
export type RunSeen = Pick<
  Run,
  | 'runId'
  | 'sellerId'
  | 'kind'
  | 'state'
  | 'startedAt'
  | 'finishedAt'
  | 'problemCode'
  | 'problem'
  | 'holder'
>;

/** How current the copy of one seller is. */
export interface SellerStatus {
  readonly sellerId: string;
  readonly marketplace: string;
  /** When the store first heard of the seller. */
  readonly knownSince: Date;
  readonly account: {
    readonly username: string;
    readonly balance: string | null;
    readonly currency: string | null;
  } | null;
  readonly items: { readonly live: number; readonly missing: number; readonly removed: number };
  /** Records of the newest run of items that could not be decoded. */
  readonly quarantined: number;
  /** A held run mirrored all that is present, so the copy is as current as after a success. */
  readonly accountMirroredAt: Date | null;
  readonly itemsMirroredAt: Date | null;
  /** Why schedules leave the seller alone; null when they don't. */
  readonly parked: Parking | null;
  /** The run under way; null for one whose process died, which holds the seller's lock no more. */
  readonly running: RunSeen | null;
  /**
   * Of the newest run of account and the newest of items the later one that did not go well. A run of
   * one item fails for the item's own reasons, so it says nothing about the copy.
   */
  readonly lastProblem: RunSeen | null;
  /** The items that this run held back, when it waits for a person's decision. */
  readonly held: HeldBack | null;
  /** The newest run of the last week that changed a field in all or nearly all items. */
  readonly lastWide: {
    readonly runId: bigint;
    readonly at: Date;
    readonly changes: readonly WideChange[];
  } | null;
}

/** The newest run of a seller with these traits, by SQL. */
const newest = (traits: string): string =>
  `(SELECT r.* FROM mirror.runs r
     WHERE r.seller_id = s.seller_id AND ${traits} ORDER BY r.run_id DESC LIMIT 1)`;

const GOOD = "r.state IN ('succeeded', 'held')";
const OVER = 'r.run_id IS DISTINCT FROM running.run_id';
const wentBadly = (run: string): string => `${run}.state NOT IN ('succeeded', 'held')`;

/**
 * Most newest runs went well: only for the others an earlier one is looked for. Items are counted for all
 * sellers at once: counted a seller at a time, PostgreSQL expects so much work that it compiles the
 * statement first, which takes a second.
 */
const STATUSES = `
  WITH running AS (
    SELECT DISTINCT ON (r.seller_id) r.* FROM mirror.runs r
     WHERE r.state = 'running' AND ${sellerIsLocked('r.seller_id')}
     ORDER BY r.seller_id, r.run_id DESC)
  SELECT s.seller_id AS "sellerId", s.marketplace, s.created_at AS "knownSince",
         CASE WHEN a.seller_id IS NOT NULL THEN
           jsonb_build_object('username', a.username, 'balance', a.balance::text,
             'currency', a.currency) END AS account,
         coalesce(counts.items, '{"live": 0, "missing": 0, "removed": 0}') AS items,
         coalesce(CASE WHEN items.state IN ('succeeded', 'held') THEN items.quarantined
                       ELSE good_items.quarantined END, 0) AS quarantined,
         CASE WHEN items.state IN ('succeeded', 'held') THEN items.finished_at
              ELSE good_items.finished_at END AS "itemsMirroredAt",
         CASE WHEN account.state IN ('succeeded', 'held') THEN account.finished_at
              ELSE good_account.finished_at END AS "accountMirroredAt",
         ${PARKING} AS parked, to_jsonb(running) AS running, to_jsonb(last) AS "lastProblem",
         to_jsonb(wide) AS "lastWide"
    FROM mirror.sellers s
    LEFT JOIN mirror.accounts a USING (seller_id)
    LEFT JOIN running USING (seller_id)
    LEFT JOIN (
      SELECT seller_id, json_build_object('live', count(*) FILTER (WHERE state = 'live'),
                                          'missing', count(*) FILTER (WHERE state = 'missing'),
                                          'removed', count(*) FILTER (WHERE state = 'removed')) AS items
        FROM mirror.items WHERE $1::text IS NULL OR seller_id = $1
       GROUP BY seller_id) counts USING (seller_id)
    LEFT JOIN LATERAL ${newest(`r.kind = 'items' AND ${OVER}`)} items ON true
    LEFT JOIN LATERAL ${newest(`r.kind = 'items' AND ${GOOD} AND ${wentBadly('items')}`)} good_items ON true
    LEFT JOIN LATERAL ${newest(`r.kind = 'account' AND ${OVER}`)} account ON true
    LEFT JOIN LATERAL ${newest(`r.kind = 'account' AND ${GOOD} AND ${wentBadly('account')}`)} good_account ON true
    LEFT JOIN LATERAL (
      SELECT * FROM (SELECT items.* UNION ALL SELECT account.*) either
       WHERE state <> 'succeeded' AND decision IS NULL
       ORDER BY run_id DESC LIMIT 1) last ON true
    LEFT JOIN LATERAL ${newest(
      `r.wide_fields <> '{}' AND r.kind = 'items' AND ${GOOD} AND r.compared IS NOT NULL
        AND r.started_at >= now() - $2 * interval '1 ms'`,
    )} wide ON true
   WHERE $1::text IS NULL OR s.seller_id = $1
   ORDER BY s.seller_id`;

/** Changes of the whole catalogue are shown for a week (ms), so that a weekly look finds them. */
const WIDE_TOLD_MS = 7 * 86_400_000;

/** A row of `mirror.runs` as JSON. */
interface RunRow {
  readonly run_id: number;
  readonly seller_id: string;
  readonly kind: Run['kind'];
  readonly state: Run['state'];
  readonly started_at: string;
  readonly finished_at: string | null;
  readonly problem_code: string | null;
  readonly problem: string | null;
  readonly holder: string;
  readonly wide_fields: readonly string[];
  readonly wide_items: readonly number[];
  readonly compared: number;
}

type StatusRow = Omit<SellerStatus, 'parked' | 'running' | 'lastProblem' | 'held' | 'lastWide'> & {
  readonly parked: ParkingRow | null;
  readonly running: RunRow | null;
  readonly lastProblem: RunRow | null;
  readonly lastWide: RunRow | null;
};

/**
 * The state of every seller's copy, by name, or of the one asked for. One statement for all: a
 * thousand sellers take about as long as ten.
 */
export async function sellerStatuses(
  pool: Pool,
  sellerId: string | null = null,
): Promise<SellerStatus[]> {
  const read = async (): Promise<StatusRow[]> =>
    (await pool.query<StatusRow>(STATUSES, [sellerId, WIDE_TOLD_MS])).rows;
  let rows = await read();
  // Locks are looked at after the rows were: a run that seems to have died may just have ended well.
  if (rows.some(({ lastProblem }) => lastProblem?.state === 'running')) rows = await read();
  return Promise.all(rows.map((row) => statusOf(pool, row)));
}

async function statusOf(
  pool: Pool,
  { parked, running, lastProblem: last, lastWide: wide, ...row }: StatusRow,
): Promise<SellerStatus> {
  return {
    ...row,
    parked: parkingIn(parked),
    running: running && runIn(running),
    lastProblem: last && { ...runIn(last), ...(last.state === 'running' ? DIED : {}) },
    held: last?.state === 'held' ? await readHeldBack(pool, BigInt(last.run_id)) : null,
    lastWide: wide && {
      runId: BigInt(wide.run_id),
      at: new Date(wide.finished_at ?? wide.started_at),
      changes: wide.wide_fields.map((field, n) => {
        return { field, items: wide.wide_items[n] ?? wide.compared, of: wide.compared };
      }),
    },
  };
}

function runIn(row: RunRow): RunSeen {
  const { kind, state, problem, holder } = row;
  return {
    ...{ runId: BigInt(row.run_id), sellerId: row.seller_id, kind, state, holder },
    ...{ problemCode: row.problem_code, problem },
    startedAt: new Date(row.started_at),
    finishedAt: row.finished_at === null ? null : new Date(row.finished_at),
  };
}
