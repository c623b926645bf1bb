import type { App } from '../app.js';
import type { FeedConfig } from '../config/index.js';
import type { Log } from '../domain/log.js';
import type { ViewReport } from '../reporting/feeds/deliver.js';
import { runFeed } from '../reporting/feeds/open.js';
import { TargetError } from '../reporting/feeds/target.js';
import type { JobOutcome } from '../catalogue/types.js';
import type { Queues } from './queue/queues.js';
import type { FeedTask } from './queue/tasks.js';
import type { JobHandler } from './queue/worker.js';
import {
  type FeedOutcome,
  readFeedRequestTime,
  recordDelivery,
  requestFeedViews,
  listFeedStates,
} from '../reporting/feeds-store.js';
import type { Db } from '../db/db.js';
import { runEvery, type StopWatch } from './watches.js';

type FeedApp = Pick<App, 'config' | 'database' | 'db'>;

/** Backoff after consecutive failures: doubles from the first delay to the longest. */
const FIRST_DELAY_MS = 30_000;
const MAX_DELAY_MS = 3_600_000;
/** Interval of checks for lost jobs. */
const CHECK_EVERY_MS = 15_000;

/** Delivers a feed until no newer request is left. If the target fails, the job is retried with backoff. */
export function feedHandler({ config, database, db }: FeedApp): JobHandler<FeedTask> {
  return async ({ feed: name }, { signal, log }): Promise<JobOutcome> => {
    const feed = config.feeds.find((one) => one.name === name);
    if (feed === undefined) {
      const problem = 'this feed is not configured for this worker';
      return { kind: 'retry', problem, notBefore: null };
    }
    for (let rows = 0; ;) {
      const askedAt = await readFeedRequestTime(db, name);
      try {
        const reports = await runFeed(database.url, feed, { signal });
        rows += reports.reduce((sum, view) => sum + view.rows, 0);
        const { problem, views } = deliveryOutcome(reports);
        await recordDelivery(db, name, { problem, views, askedAt });
        if (problem !== null) {
          log.warn('could not deliver a view of the feed', { feed: name, problem });
          return { kind: 'done', result: { feed: name, rows, problem } };
        }
      } catch (error) {
        if (signal.aborted || !(error instanceof TargetError)) throw error;
        const outcome = failedDelivery(feed, error);
        const { problem } = outcome;
        const failures = await recordDelivery(db, name, { ...outcome, askedAt });
        log.warn('could not deliver the feed', { feed: name, problem, failures });
        return { kind: 'later', reason: problem, delayMs: retryDelay(failures) };
      }
      const again = await readFeedRequestTime(db, name);
      if (again === null || askedAt === null || again <= askedAt) {
        log.info('feed delivered', { feed: name, rows });
        return { kind: 'done', result: { feed: name, rows } };
      }
    }
  };
}

/** Converts the reports of a delivery for the store. */
export function deliveryOutcome(reports: readonly ViewReport[]): Omit<FeedOutcome, 'askedAt'> {
  const views = reports.map(({ view, problem }) => ({
    view,
    problem: problem === null ? null : `${problem.message}: ${problem.remedy}`,
  }));
  return { views, problem: views.find(({ problem }) => problem !== null)?.problem ?? null };
}

/** Converts the failure of a whole delivery for the store. */
export function failedDelivery({ views }: Pick<FeedConfig, 'views'>, error: TargetError) {
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

/** Adds a requested feed’s job again when the queue has lost it. @returns null without feeds */
export function watchFeeds(
  app: FeedApp,
  queues: Pick<Queues, 'addFeed'>,
  log: Log,
): StopWatch | null {
  const { feeds } = app.config;
  if (feeds.length === 0) return null;
  return runEvery(
    CHECK_EVERY_MS,
    async () => {
      for (const { feed, askedAt, deliveredAt, failedAt } of await listFeedStates(app.db)) {
        if (askedAt === null || !feeds.some(({ name }) => name === feed)) continue;
        if (isBefore(deliveredAt, askedAt) && isBefore(failedAt, askedAt)) {
          await queues.addFeed(feed);
        }
      }
    },
    (error) => log.warn('could not check for requested feeds', { error }),
    { atOnce: true },
  );
}

function isBefore(at: Date | null, other: Date): boolean {
  return at === null || at < other;
}
