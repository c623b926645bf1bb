import type { Pool } from 'pg';
import type { WideChange } from '../domain/changes.js';
import { type HeldItems, readHeldItems } from './decisions.js';
import type { Run } from './generated/prisma/client.js';
import { sellerIsLocked } from './locks.js';
import { DIED } from './runs.js';
import { type Parking, PARKING, parkingIn, type ParkingRow, PAUSED } from './sellers.js';

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
  readonly held: HeldItems | null;
  /** The newest run of the last week that changed a field in all or nearly all items. */
  readonly lastWide: {
    readonly runId: bigint;
    readonly at: Date;
    readonly changes: readonly WideChange[];
  } | null;
}

/** How current a copy is, in a word. */
export type CopyState = 'current' | 'stale' | 'never' | 'failing' | 'paused' | 'parked';

/**
 * How current a seller's copy is, whether or not a run is under way. A copy is as old as its items.
 * @param staleAfterHours oldest a copy may be
 */
export function copyState(
  { parked, lastProblem, itemsMirroredAt }: SellerStatus,
  staleAfterHours: number,
  now: Date,
): CopyState {
  if (parked !== null) return parked.code === PAUSED ? PAUSED : 'parked';
  if (lastProblem?.state === 'failed') return 'failing';
  if (itemsMirroredAt === null) return 'never';
  const ageMs = now.getTime() - itemsMirroredAt.getTime();
  return ageMs > staleAfterHours * 3_600_000 ? 'stale' : 'current';
}

/** Columns of the newest run of a seller with these traits, by SQL. */
const newest = (columns: string, traits: string): string =>
  `(SELECT ${columns} FROM mirror.runs r
     WHERE r.seller_id = s.seller_id AND ${traits} ORDER BY r.run_id DESC LIMIT 1)`;

const GOOD = "r.state IN ('succeeded', 'held')";
const OVER = 'r.run_id IS DISTINCT FROM running.run_id';
/** What a status needs of each seller's newest runs: to read all 32 columns takes twice as long. */
const SEEN = 'run_id, state, decision, finished_at, quarantined';
const wentBadly = (run: string): string => `${run}.state NOT IN ('succeeded', 'held')`;
const problemOf = (run: string): string =>
  `CASE WHEN ${run}.state <> 'succeeded' AND ${run}.decision IS NULL THEN ${run}.run_id END`;

/** Most newest runs went well: only for the others an earlier one is looked for, or all of it is read. */
const STATUSES = `
  WITH running AS (
    SELECT DISTINCT ON (r.seller_id) r.* FROM mirror.runs r
     WHERE r.state = 'running' AND ${sellerIsLocked('r.seller_id')}
     ORDER BY r.seller_id, r.run_id DESC)
  SELECT s.seller_id AS "sellerId", s.marketplace, s.created_at AS "knownSince",
         a.username, a.balance::text AS balance, a.currency,
         s.live_items AS live, s.missing_items AS missing, s.removed_items AS removed,
         coalesce(CASE WHEN items.state IN ('succeeded', 'held') THEN items.quarantined
                       ELSE good_items.quarantined END, 0) AS quarantined,
         CASE WHEN items.state IN ('succeeded', 'held') THEN items.finished_at
              ELSE good_items.finished_at END AS "itemsMirroredAt",
         CASE WHEN account.state IN ('succeeded', 'held') THEN account.finished_at
              ELSE good_account.finished_at END AS "accountMirroredAt",
         ${PARKING} AS parked, to_jsonb(running) AS running,
         (SELECT to_jsonb(r) FROM mirror.runs r
           WHERE r.run_id = greatest(${problemOf('items')}, ${problemOf('account')})) AS "lastProblem",
         ${newest(
           'to_jsonb(r)',
           `r.wide_fields <> '{}' AND r.kind = 'items' AND ${GOOD} AND r.compared IS NOT NULL
              AND r.started_at >= now() - $2 * interval '1 ms'`,
         )} AS "lastWide"
    FROM mirror.sellers s
    LEFT JOIN mirror.accounts a USING (seller_id)
    LEFT JOIN running USING (seller_id)
    LEFT JOIN LATERAL ${newest(SEEN, `r.kind = 'items' AND ${OVER}`)} items ON true
    LEFT JOIN LATERAL ${newest(SEEN, `r.kind = 'items' AND ${GOOD} AND ${wentBadly('items')}`)} good_items ON true
    LEFT JOIN LATERAL ${newest(SEEN, `r.kind = 'account' AND ${OVER}`)} account ON true
    LEFT JOIN LATERAL ${newest(SEEN, `r.kind = 'account' AND ${GOOD} AND ${wentBadly('account')}`)} good_account ON true
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

type StatusRow = Pick<
  SellerStatus,
  | 'sellerId'
  | 'marketplace'
  | 'knownSince'
  | 'quarantined'
  | 'accountMirroredAt'
  | 'itemsMirroredAt'
> &
  SellerStatus['items'] & {
    /** Null where there is no account. */
    readonly username: string | null;
    readonly balance: string | null;
    readonly currency: string | null;
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
  const statuses: SellerStatus[] = [];
  for (const row of rows) {
    const last = row.lastProblem;
    const held = last?.state === 'held' ? await readHeldItems(pool, BigInt(last.run_id)) : null;
    statuses.push(statusOf(row, held));
  }
  return statuses;
}

/** Field by field: for a thousand rows, to copy the rest of a row takes longer than all else here. */
function statusOf(row: StatusRow, held: HeldItems | null): SellerStatus {
  const { username, balance, currency, live, missing, removed } = row;
  const { parked, running, lastProblem: last, lastWide: wide } = row;
  return {
    sellerId: row.sellerId,
    marketplace: row.marketplace,
    knownSince: row.knownSince,
    account: username === null ? null : { username, balance, currency },
    items: { live, missing, removed },
    quarantined: row.quarantined,
    accountMirroredAt: row.accountMirroredAt,
    itemsMirroredAt: row.itemsMirroredAt,
    parked: parkingIn(parked),
    running: running && runIn(running),
    lastProblem: last && { ...runIn(last), ...(last.state === 'running' ? DIED : {}) },
    held,
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
    runId: BigInt(row.run_id),
    sellerId: row.seller_id,
    kind,
    state,
    holder,
    problemCode: row.problem_code,
    problem,
    startedAt: new Date(row.started_at),
    finishedAt: row.finished_at === null ? null : new Date(row.finished_at),
  };
}
