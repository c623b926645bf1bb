import { UserError } from '../domain/user-error.js';
import type { App } from '../app.js';
import type { FeedConfig } from '../config/index.js';
import type { Log } from '../domain/log.js';
import type { DeliverOptions, ViewReport } from '../reporting/feeds/deliver.js';
import { runFeed } from '../reporting/feeds/open.js';
import type { JobOutcome } from '../catalogue/types.js';
import { believed } from './due.js';
import type { Queues } from './queue/queues.js';
import type { FeedTask } from './queue/tasks.js';
import type { JobHandler } from './queue/worker.js';
import {
  type FeedOutcome,
  type FeedRequest,
  type FeedState,
  readFeedRequest,
  recordDelivery,
  requestFeedViews,
} from '../reporting/feeds-store.js';
import type { Db } from '../db/db.js';

type FeedApp = Pick<App, 'config' | 'db'>;

/** Backoff after consecutive failures: doubles from the first delay to the longest. */
const FIRST_DELAY_MS = 30_000;
const MAX_DELAY_MS = 3_600_000;

/** A delivery after syncs waits until no sync has ended for this long (ms), but no longer than the second time. */
const QUIET_MS = 30_000;
const MAX_QUIET_WAIT_MS = 600_000;
/** How often a feed looks for rows that people edited in the target (ms). */
const FULL_EVERY_MS = 7 * 86_400_000;

/** Delivers a feed until no newer request is left. After a failure, the job is retried with backoff. */
export function feedHandler({ config, db }: FeedApp): JobHandler<FeedTask> {
  return async ({ feed: name }, { signal, log }): Promise<JobOutcome> => {
    const feed = config.feeds.find((one) => one.name === name);
    if (feed === undefined) {
      const problem = 'this feed is not configured for this worker';
      return { kind: 'retry', problem, notBefore: null };
    }
    for (let rows = 0; ;) {
      const request = await readFeedRequest(db, name);
      const delayMs = feed.cron === null ? quietDelay(request) : 0;
      if (delayMs > 0) return { kind: 'later', reason: 'waits for more syncs to end', delayMs };
      const fullAt = believed(request.fullAt, request.now);
      const isFull = fullAt === null || +request.now - +fullAt > FULL_EVERY_MS;
      const outcome = await deliver(db, feed, { signal, isFull });
      rows += outcome.rows;
      const failures = await recordDelivery(db, name, {
        ...outcome,
        askedAt: request.askedAt,
      });
      const { problem } = outcome;
      if (problem !== null) {
        log.warn('could not deliver the feed', { feed: name, problem, failures });
        return { kind: 'later', reason: problem, delayMs: retryDelay(failures) };
      }
      const again = await readFeedRequest(db, name);
      if (again.askedAt === null || request.askedAt === null || again.askedAt <= request.askedAt) {
        log.info('feed delivered', { feed: name, rows });
        return { kind: 'done', result: { feed: name, rows } };
      }
    }
  };
}

/** How long a delivery waits for more syncs to end (ms). */
function quietDelay({ askedAt, waitingSince, now }: FeedRequest): number {
  if (askedAt === null || waitingSince === null) return 0;
  const untilQuiet = Math.min(+askedAt + QUIET_MS, +waitingSince + MAX_QUIET_WAIT_MS) - +now;
  // It is longer only if a clock was ahead.
  return Math.min(untilQuiet, QUIET_MS);
}

/** Delivers a feed. Problems of the target and of single views are part of the result. */
export async function deliver(db: Db, feed: FeedConfig, options: DeliverOptions) {
  try {
    const reports = await runFeed(db, feed, options);
    const rows = reports.reduce((sum, view) => sum + view.rows, 0);
    // One view that fails for weeks must not make every delivery of the others a full one.
    const isFull = options.isFull && reports.some(({ problem }) => problem === null);
    return { ...deliveryOutcome(reports), isFull, reports, rows };
  } catch (error) {
    if (options.signal.aborted || !(error instanceof UserError)) throw error;
    return { ...failedDelivery(feed, error), isFull: false, reports: [], rows: 0 };
  }
}

/** Converts the reports of a delivery for the store. */
function deliveryOutcome(reports: readonly ViewReport[]): Pick<FeedOutcome, 'problem' | 'views'> {
  const views = reports.map(({ view, problem }) => ({
    view,
    problem: problem === null ? null : `${problem.message}: ${problem.remedy}`,
  }));
  return { views, problem: views.find(({ problem }) => problem !== null)?.problem ?? null };
}

/** Converts the failure of a whole delivery for the store. */
export function failedDelivery({ views }: Pick<FeedConfig, 'views'>, error: UserError) {
  const problem = `${error.message}: ${error.remedy}`;
  return { problem, views: views.map((view) => ({ view, problem })) };
}

/** The delay (ms) before the next attempt. @param failures in a row */
export function retryDelay(failures: number): number {
  return Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (Math.max(1, failures) - 1));
}

/** Requests delivery of the feeds without a cron expression. Logs failures; never throws. */
export async function requestFeeds(
  { config, db }: Pick<App, 'config' | 'db'>,
  queues: Pick<Queues, 'addFeed'>,
  log: Log,
): Promise<void> {
  for (const feed of config.feeds.filter(({ cron }) => cron === null)) {
    await requestFeed(feed, db, queues).catch((error: unknown) =>
      log.warn('could not enqueue the feed', { feed: feed.name, error }),
    );
  }
}

/** Requests delivery of a feed. */
export async function requestFeed(
  { name, views }: FeedConfig,
  db: Db,
  queues: Pick<Queues, 'addFeed'>,
): Promise<void> {
  const failures = await requestFeedViews(db, name, views);
  // After a failure the queue may hold a delayed job. Start it now if `feed run` has succeeded meanwhile.
  await queues.addFeed(name, { promote: failures === 0 });
}

/** The feeds whose requested delivery has neither succeeded nor failed, and those whose retry is due. */
export function feedsToRepeat(
  states: readonly Pick<FeedState, 'feed' | 'askedAt' | 'deliveredAt' | 'failedAt' | 'failures'>[],
  feeds: readonly string[],
  now: Date,
): readonly string[] {
  return states
    .filter(({ feed, askedAt, failures, ...state }) => {
      if (askedAt === null || !feeds.includes(feed)) return false;
      const deliveredAt = believed(state.deliveredAt, now);
      const failedAt = believed(state.failedAt, now);
      if (!isBefore(deliveredAt, askedAt)) return false;
      if (failedAt === null || isBefore(failedAt, askedAt)) return true;
      return failures > 0 && failedAt.getTime() + retryDelay(failures) <= now.getTime();
    })
    .map(({ feed }) => feed);
}

function isBefore(at: Date | null, other: Date): boolean {
  return at === null || at < other;
}
