import type { WideChange } from './changes.js';
import { type HeldRemovals, readHeldRemovals } from './held-store.js';
import type { Run } from '../db/generated/prisma/client.js';
import { sellerIsLocked } from '../db/locks.js';
import { camelCased } from '../listing/table-listing.js';
import { PROCESS_DIED } from './runs-store.js';
import type { Db } from '../db/db.js';
import { LATEST_BELIEVED } from '../db/moments.js';
import { type Parking, PARKING_SQL, toParking, type ParkingRow } from './sellers-store.js';

/** A seller's state, and how current its copy is. */
export interface SellerStatus {
  readonly sellerId: string;
  readonly marketplace: string;
  /** When the seller was added to the store. */
  readonly knownSince: Date;
  readonly account: {
    readonly username: string;
    readonly balance: string | null;
    readonly currency: string | null;
  } | null;
  readonly items: { readonly live: number; readonly missing: number; readonly removed: number };
  /** Number of records that the newest item run could not decode. */
  readonly quarantined: number;
  /** End of the newest run that succeeded or was held; held runs mirror everything that is listed. */
  readonly accountMirroredAt: Date | null;
  readonly itemsMirroredAt: Date | null;
  /** Why schedules leave the seller alone; null if they don't. */
  readonly parked: Parking | null;
  /** The current run; null also if its process died, so that the seller's lock is free. */
  readonly running: Run | null;
  /**
   * The newest account run or the newest item run if it did not succeed; the later one of both. Runs of a
   * single item don't count, since their failures say nothing about the copy.
   */
  readonly lastProblem: Run | null;
  /** The removals that wait for a person; null: none. */
  readonly held: HeldRemovals | null;
  /** Items whose record could not be read in each of the last three runs or more. */
  readonly unreadable: number;
  /** The newest run of the last week that changed a field in all or nearly all items. */
  readonly lastWide: {
    readonly runId: bigint;
    readonly at: Date;
    readonly changes: readonly WideChange[];
  } | null;
}

/** SQL of these columns of a seller's newest run that meets the condition. */
const newest = (columns: string, condition: string): string =>
  `(SELECT ${columns} FROM mirror.runs r
     WHERE r.seller_id = s.seller_id AND ${condition} ORDER BY r.run_id DESC LIMIT 1)`;

/** A run that began in the future was recorded while a clock was wrong. */
const GOOD = `r.state IN ('succeeded', 'held') AND r.started_at <= ${LATEST_BELIEVED}`;
const NOT_RUNNING = `r.run_id IS DISTINCT FROM running.run_id AND r.state <> 'asked'
                     AND r.started_at <= ${LATEST_BELIEVED}`;
/** The needed columns. Reading all 32 takes twice as long. */
const NEEDED = 'run_id, state, finished_at, quarantined';
const failed = (run: string): string => `${run}.state NOT IN ('succeeded', 'held')`;
const problemOf = (run: string): string => `CASE WHEN ${failed(run)} THEN ${run}.run_id END`;

/** A record that can't be read in so many runs in a row needs a person. */
export const UNREADABLE_RUNS = 3;

/** Searches earlier runs only for sellers whose newest run has a problem. */
const STATUSES = `
  WITH running AS (
    SELECT DISTINCT ON (r.seller_id) r.seller_id, r.run_id FROM mirror.runs r
     WHERE r.state = 'running' AND ${sellerIsLocked('r.seller_id')}
     ORDER BY r.seller_id, r.run_id DESC)
  SELECT s.seller_id AS "sellerId", s.marketplace, s.created_at AS "knownSince",
         a.username, a.balance::text AS balance, a.currency,
         s.live_items AS live, s.missing_items AS missing, s.removed_items AS removed,
         coalesce(CASE WHEN items.state IN ('succeeded', 'held') THEN items.quarantined
                       ELSE good_items.quarantined END, 0) AS quarantined,
         CASE WHEN items.quarantined > 0 OR good_items.quarantined > 0 THEN
           (SELECT count(*)::int FROM mirror.quarantine q
             WHERE q.seller_id = s.seller_id AND q.runs >= ${UNREADABLE_RUNS} AND q.last_run_id =
                   CASE WHEN items.state IN ('succeeded', 'held') THEN items.run_id ELSE good_items.run_id END)
         ELSE 0 END AS unreadable,
         CASE WHEN items.state IN ('succeeded', 'held') THEN items.finished_at
              ELSE good_items.finished_at END AS "itemsMirroredAt",
         CASE WHEN account.state IN ('succeeded', 'held') THEN account.finished_at
              ELSE good_account.finished_at END AS "accountMirroredAt",
         ${PARKING_SQL} AS parked, running.run_id AS "runningId",
         greatest(${problemOf('items')}, ${problemOf('account')}) AS "problemId",
         ${newest(
           'run_id',
           `r.wide_fields <> '{}' AND r.kind = 'items' AND ${GOOD} AND r.compared IS NOT NULL
              AND r.started_at >= now() - $2 * interval '1 ms'`,
         )} AS "wideId"
    FROM mirror.sellers s
    LEFT JOIN mirror.accounts a USING (seller_id)
    LEFT JOIN running USING (seller_id)
    LEFT JOIN LATERAL ${newest(NEEDED, `r.kind = 'items' AND ${NOT_RUNNING}`)} items ON true
    LEFT JOIN LATERAL ${newest(NEEDED, `r.kind = 'items' AND ${GOOD} AND ${failed('items')}`)} good_items ON true
    LEFT JOIN LATERAL ${newest(NEEDED, `r.kind = 'account' AND ${NOT_RUNNING}`)} account ON true
    LEFT JOIN LATERAL ${newest(NEEDED, `r.kind = 'account' AND ${GOOD} AND ${failed('account')}`)} good_account ON true
   WHERE $1::text IS NULL OR s.seller_id = $1
   ORDER BY s.seller_id`;

/** How long to show changes of the whole catalogue (ms): long enough for a weekly check. */
const SHOW_WIDE_MS = 7 * 86_400_000;

type StatusRow = Pick<
  SellerStatus,
  | 'sellerId'
  | 'marketplace'
  | 'knownSince'
  | 'quarantined'
  | 'unreadable'
  | 'accountMirroredAt'
  | 'itemsMirroredAt'
> &
  SellerStatus['items'] & {
    /** Null if there is no account. */
    readonly username: string | null;
    readonly balance: string | null;
    readonly currency: string | null;
    readonly parked: ParkingRow | null;
    readonly runningId: bigint | null;
    readonly problemId: bigint | null;
    readonly wideId: bigint | null;
  };

/**
 * The status of all sellers, by id, or of one. A statement reads all, and another one their runs, so a thousand
 * sellers take about as long as ten.
 */
export async function readSellerStatuses(
  db: Db,
  sellerId: string | null = null,
): Promise<SellerStatus[]> {
  const { pool } = db;
  const { rows } = await pool.query<StatusRow>(STATUSES, [sellerId, SHOW_WIDE_MS]);
  const ids = rows.flatMap((row) => [row.runningId, row.problemId, row.wideId]);
  const runs = await readRuns(
    db,
    ids.filter((id) => id !== null),
  );
  const held = rows.some(({ missing }) => missing > 0)
    ? await readHeldRemovals(db, sellerId)
    : new Map<string, HeldRemovals>();
  return rows.map((row) => statusOf(row, runs, held.get(row.sellerId) ?? null));
}

async function readRuns({ pool }: Db, ids: readonly bigint[]): Promise<ReadonlyMap<bigint, Run>> {
  if (ids.length === 0) return new Map();
  const { rows } = await pool.query('SELECT * FROM mirror.runs WHERE run_id = ANY ($1)', [ids]);
  return new Map(rows.map((row) => camelCased(row as never)).map((run: Run) => [run.runId, run]));
}

/** Without object spread, which takes longer than everything else here for a thousand rows. */
function statusOf(
  row: StatusRow,
  runs: ReadonlyMap<bigint, Run>,
  held: HeldRemovals | null,
): SellerStatus {
  const { username, balance, currency, live, missing, removed } = row;
  const run = (id: bigint | null): Run | null => (id === null ? null : (runs.get(id) ?? null));
  const wide = run(row.wideId);
  return {
    sellerId: row.sellerId,
    marketplace: row.marketplace,
    knownSince: row.knownSince,
    account: username === null ? null : { username, balance, currency },
    items: { live, missing, removed },
    quarantined: row.quarantined,
    unreadable: row.unreadable,
    accountMirroredAt: row.accountMirroredAt,
    itemsMirroredAt: row.itemsMirroredAt,
    parked: toParking(row.parked),
    running: run(row.runningId),
    lastProblem: problemIn(run(row.problemId)),
    held,
    lastWide: wide && {
      runId: wide.runId,
      at: wide.finishedAt ?? wide.startedAt,
      changes: wide.wideFields.map((field, n) => {
        const of = wide.compared ?? 0;
        return { field, items: wide.wideItems[n] ?? of, of };
      }),
    },
  };
}

/** A run that seems to be dead may have ended meanwhile, since locks are read after the rows. */
function problemIn(run: Run | null): Run | null {
  if (run?.state === 'running') return { ...run, ...PROCESS_DIED };
  return run?.state === 'succeeded' || run?.state === 'held' ? null : run;
}
