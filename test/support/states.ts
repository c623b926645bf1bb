import { withSellerLock } from '../../src/db/locks.js';
import { holdItems, type Mirror } from './mirror.js';
import { enter } from '../codes/support.js';

/** What a run of these states recorded about its problem. */
const PROBLEMS: Readonly<Record<string, readonly [code: string, problem: string]>> = {
  failed: ['unavailable', 'the marketplace failed with HTTP 500'],
  interrupted: ['interrupted', 'it was killed'],
};

/** Stores a seller with a run of items. @param state of the run; null: none @returns the run's id */
export async function storeSeller(
  mirror: Mirror,
  name: string,
  state: string | null,
  { hoursAgo = 1, items = 3 } = {},
): Promise<string> {
  await mirror.rows(
    `INSERT INTO mirror.sellers (seller_id, marketplace, live_items) VALUES ($1, 'market.example', $2)
     ON CONFLICT (seller_id) DO UPDATE SET live_items = excluded.live_items`,
    [name, items],
  );
  return state === null ? '' : storeRun(mirror, name, 'items', state, hoursAgo);
}

/** Stores a run that ended so long ago. @returns its id */
export async function storeRun(
  mirror: Mirror,
  seller: string,
  kind: string,
  state: string,
  hoursAgo = 1,
): Promise<string> {
  const [code = null, problem = null] = PROBLEMS[state] ?? [];
  const [run] = await mirror.rows<{ id: string }>(
    `INSERT INTO mirror.runs (seller_id, kind, state, holder, started_at, finished_at, problem_code, problem)
     SELECT $1, $2::mirror.run_kind, $3::mirror.run_state, 'a test', at, CASE WHEN $3::text <> 'running' THEN at END, $5, $6
       FROM (SELECT now() - $4 * interval '1 hour' AS at) t
     RETURNING run_id::text AS id`,
    [seller, kind, state, hoursAgo, code, problem],
  );
  return run?.id ?? '';
}

/** Pauses a seller, or stops it for a problem. */
export async function park(
  mirror: Mirror,
  seller: string,
  code: string,
  reason: string,
  runId: string | null = null,
): Promise<void> {
  await mirror.rows(
    `UPDATE mirror.sellers SET parked_at = now(), parked_code = $2, parked_reason = $3, parked_run_id = $4
      WHERE seller_id = $1`,
    [seller, code, reason, runId],
  );
}

/** Stores a check of one code that can't go on, or that ended without a verdict. @returns its id */
export async function storeCheck(
  mirror: Mirror,
  sellerId: string,
  state: 'failed' | 'finished' | 'running',
  code = '0'.repeat(36),
): Promise<string> {
  const id = await enter(mirror, 'market.example', [code], { sellerId, source: 'orders.csv' });
  await mirror.rows(
    `UPDATE mirror.audits SET state = $2::mirror.audit_state, problem = CASE WHEN $2::text = 'failed' THEN 'the key was refused' END,
            unproven = CASE WHEN $2::text = 'finished' THEN 1 ELSE 0 END,
            pending = CASE WHEN $2::text = 'finished' THEN 0 ELSE pending END WHERE audit_id = $1`,
    [id, state],
  );
  return String(id);
}

/** Stores a process that was just seen on another machine, with its schedules. */
export async function storeProcess(
  mirror: Mirror,
  roles: readonly string[],
  schedules: readonly Readonly<Record<string, string>>[] = [],
  { pid = 7, secondsAgo = 0 } = {},
): Promise<void> {
  await mirror.rows(
    `INSERT INTO mirror.processes (process_id, roles, host, pid, started_at, schedules, seen_at)
     VALUES (gen_random_uuid(), $1, 'elsewhere', $2, now(), $3, now() - $4 * interval '1 second')`,
    [roles, pid, JSON.stringify(schedules), secondsAgo],
  );
}

/** Stores a feed of the view `items` that waits, or whose delivery failed. */
export async function storeFeed(
  mirror: Mirror,
  feed: string,
  { problem = null as string | null, waitingHours = null as number | null, failures = 1 } = {},
): Promise<void> {
  await mirror.rows(
    `INSERT INTO mirror.feeds (feed, asked_at, delivered_at, failures, problem)
     VALUES ($1, now(), CASE WHEN $2::text IS NULL THEN now() END, $3, $2)`,
    [feed, problem, problem === null ? 0 : failures],
  );
  await mirror.rows(
    `INSERT INTO mirror.feed_views (feed, view_name, waiting_since, problem)
     VALUES ($1, 'items', now() - $2 * interval '1 hour', $3)`,
    [feed, waitingHours, problem],
  );
}

/** One seller for each thing that may need a person, one that needs nobody, and one that is paused. */
export async function storeEveryNeed(mirror: Mirror) {
  await storeSeller(mirror, 'fresh', 'succeeded');
  await storeSeller(mirror, 'resting', 'succeeded', { hoursAgo: 90 });
  await park(mirror, 'resting', 'paused', 'paused by ada');
  const held = await storeSeller(mirror, 'h', 'held');
  await holdItems(mirror, 'h', held, 1, false);
  const refused = await storeSeller(mirror, 'k', 'failed');
  await park(mirror, 'k', 'refused', 'the marketplace refused the API key', refused);
  await storeSeller(mirror, 'f', 'failed');
  await storeSeller(mirror, 'i', 'interrupted');
  await storeSeller(mirror, 'o', 'succeeded', { hoursAgo: 27 });
  await storeSeller(mirror, 'n', null);
  await storeSeller(mirror, 'e', 'succeeded', { items: 0 });
  const stuck = await storeCheck(mirror, 'fresh', 'failed');
  const open = await storeCheck(mirror, 'fresh', 'finished', '1'.repeat(36));
  return { held, stuck, open };
}

/** Does work while a run of the seller is in progress. */
export async function whileRunning<T>(
  mirror: Mirror,
  seller: string,
  work: () => Promise<T>,
): Promise<T> {
  await storeRun(mirror, seller, 'items', 'running');
  return withSellerLock(mirror.db, seller, work);
}
