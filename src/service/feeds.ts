import { UserError } from '../domain/user-error.js';
import type { App } from '../app.js';
import type { FeedConfig } from '../config/index.js';
import type { Log } from '../domain/log.js';
import type { DeliverOptions, ViewReport } from '../reporting/feeds/deliver.js';
import { runFeed } from '../reporting/feeds/open.js';
import type { JobOutcome } from '../catalogue/types.js';
import { believed, feedWait } from './due.js';
import type { Queues } from './queue/queues.js';
import type { FeedTask } from './queue/tasks.js';
import type { JobHandler } from './queue/worker.js';
import {
  feedDelay,
  type FeedOutcome,
  type FeedState,
  listFeedStates,
  recordDelivery,
  requestFeedViews,
} from '../reporting/feeds-store.js';
import type { Db } from '../db/db.js';

type FeedApp = Pick<App, 'config' | 'db'>;

/** How often a feed looks for rows that people edited in the target (ms). */
const FULL_EVERY_MS = 7 * 86_400_000;

/** Delivers a feed until nothing waits. After a failure, the job is delayed. */
export function feedHandler({ config, db }: FeedApp): JobHandler<FeedTask> {
  return async ({ feed: name }, { signal, log }): Promise<JobOutcome> => {
    const feed = config.feeds.find((one) => one.name === name);
    if (feed === undefined) {
      const problem = 'this feed is not configured for this worker';
      return { kind: 'retry', problem, notBefore: null };
    }
    for (let rows = 0; ;) {
      const state = (await listFeedStates(db)).find((one) => one.feed === name);
      const now = new Date(db.clock.now());
      const delayMs = waitOf(feed, state, now);
      if (state === undefined || delayMs === null) {
        log.info('feed delivered', { feed: name, rows });
        return { kind: 'done', result: { feed: name, rows } };
      }
      const { problem, askedAt, failures } = state;
      if (delayMs > 0) {
        const reason = failures > 0 && problem !== null ? problem : 'waits for more syncs to end';
        return { kind: 'later', reason, delayMs };
      }
      const fullAt = believed(state.fullAt, now);
      const isFull = fullAt === null || now.getTime() - fullAt.getTime() > FULL_EVERY_MS;
      const outcome = await deliver(db, feed, { signal, isFull });
      rows += outcome.rows;
      const failed = await recordDelivery(db, name, { ...outcome, askedAt });
      if (outcome.problem !== null) {
        const facts = { feed: name, problem: outcome.problem, failures: failed };
        log.warn('could not deliver the feed', facts);
      }
    }
  };
}

/** How long a feed is left alone before it delivers (ms); null: nothing waits. */
export function waitOf(
  { views, cron }: FeedConfig,
  state: FeedState | undefined,
  now: Date,
): number | null {
  if (state === undefined) return null;
  const waitingSince = feedDelay(state.views, views, now).since;
  return feedWait({ ...state, waitingSince }, cron === null, now);
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

/** Requests delivery of the feeds that follow syncs. Logs failures; never throws. */
export async function requestFeeds(
  { config, db }: FeedApp,
  queues: Pick<Queues, 'add'>,
  log: Log,
): Promise<void> {
  for (const { name: feed, views } of config.feeds.filter(({ cron }) => cron === null)) {
    try {
      const failures = await requestFeedViews(db, feed, views);
      // The queue may hold a job that is delayed after a failure. Start it if `feed run` has succeeded meanwhile.
      await queues.add('feeds', { kind: 'deliver', feed }, { promote: failures === 0 });
    } catch (error) {
      log.warn('could not enqueue the feed', { feed, error });
    }
  }
}
