import type { App } from '../app.js';
import type { FeedConfig } from '../config/index.js';
import type { Log } from '../domain/log.js';
import { lastTick } from '../domain/schedule.js';
import type { ViewReport } from '../feeds/deliver.js';
import { runFeed } from '../feeds/open.js';
import { TargetError } from '../feeds/target.js';
import type { JobOutcome } from '../jobs/types.js';
import { parseCron } from '../queue/cron.js';
import type { Queues } from '../queue/queues.js';
import type { FeedTask } from '../queue/tasks.js';
import type { JobHandler } from '../queue/worker.js';
import type { FeedOutcome } from '../store/feeds.js';
import { watch, type StopWatch } from './watches.js';

type FeedApp = Pick<App, 'config' | 'database' | 'store'>;

/** Pauses after failures in a row: twice as long each time, up to an hour. */
const FIRST_PAUSE_MS = 30_000;
const LONGEST_PAUSE_MS = 3_600_000;
/** How often schedules of feeds are looked at (ms). */
const LOOK_EVERY_MS = 15_000;
/** A tick that was missed while nothing ran is made good when it is no older than this (ms). */
const CATCH_UP_MS = 7 * 86_400_000;

/**
 * Delivers a feed as often as it was asked for. A target that fails holds up its own feed only: the job
 * comes again after a pause.
 */
export function feedHandler({ config, database, store }: FeedApp): JobHandler<FeedTask> {
  return async ({ feed: name }, { signal, log }): Promise<JobOutcome> => {
    const feed = config.feeds.find((one) => one.name === name);
    if (feed === undefined) {
      const problem = 'this feed is not configured for this worker';
      return { kind: 'retry', problem, notBefore: null };
    }
    const { feeds } = store;
    for (let rows = 0; ;) {
      const asked = await feeds.askedAt(name);
      try {
        const reports = await runFeed(database.url, feed, { signal });
        rows += reports.reduce((sum, view) => sum + view.rows, 0);
        const { problem, views } = outcomeOf(reports);
        await feeds.recordDelivery(name, { problem, views, askedAt: asked });
        if (problem !== null) {
          log.warn('a view of a feed does not fit its target', { feed: name, problem });
          return { kind: 'done', result: { feed: name, rows, problem } };
        }
      } catch (error) {
        if (signal.aborted || !(error instanceof TargetError)) throw error;
        const outcome = failureOf(feed, error);
        const { problem } = outcome;
        const failures = await feeds.recordDelivery(name, { ...outcome, askedAt: asked });
        log.warn('a feed could not deliver', { feed: name, problem, failures });
        return { kind: 'later', reason: problem, delayMs: pauseAfter(failures) };
      }
      const again = await feeds.askedAt(name);
      if (again === null || asked === null || again <= asked) {
        log.info('feed delivered', { feed: name, rows });
        return { kind: 'done', result: { feed: name, rows } };
      }
    }
  };
}

/** What came of a delivery, as the store notes it. */
export function outcomeOf(reports: readonly ViewReport[]): Omit<FeedOutcome, 'askedAt'> {
  const views = reports.map(({ view, problem }) => ({
    view,
    problem: problem === null ? null : `${problem.message}: ${problem.remedy}`,
  }));
  return { views, problem: views.find(({ problem }) => problem !== null)?.problem ?? null };
}

/** A delivery that failed as a whole, as the store notes it. */
export function failureOf({ views }: Pick<FeedConfig, 'views'>, error: TargetError) {
  const problem = `${error.message}: ${error.remedy}`;
  return { problem, views: views.map((view) => ({ view, problem })) };
}

/** How long a feed is left alone after so many failures in a row (ms). */
export function pauseAfter(failures: number): number {
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (Math.max(1, failures) - 1));
}

/** Asks the feeds that go after each sync and audit to deliver. Logs what fails; never throws. */
export async function askForFeeds(
  { config, store }: FeedApp,
  queues: Pick<Queues, 'addFeed'>,
  log: Log,
): Promise<void> {
  for (const feed of config.feeds.filter(({ cron }) => cron === null)) {
    await askFor(feed, store, queues).catch((error: unknown) =>
      log.warn('a feed could not be put into the queue', { feed: feed.name, error }),
    );
  }
}

async function askFor(
  { name, views }: FeedConfig,
  { feeds }: FeedApp['store'],
  queues: Pick<Queues, 'addFeed'>,
): Promise<void> {
  const failures = await feeds.request(name, views);
  // `feed run` by hand may have delivered during the pause after a failure.
  await queues.addFeed(name, { atOnce: failures === 0 });
}

/** Asks feeds with a cron expression to deliver when it is time, and all again whose job was lost. */
export function watchFeeds(
  app: FeedApp,
  queues: Pick<Queues, 'addFeed'>,
  log: Log,
): StopWatch | null {
  const { feeds } = app.config;
  if (feeds.length === 0) return null;
  const startedAt = Date.now();
  return watch(
    LOOK_EVERY_MS,
    async () => {
      const states = new Map((await app.store.feeds.list()).map((state) => [state.feed, state]));
      for (const feed of feeds) {
        const { askedAt = null, deliveredAt = null, failedAt = null } = states.get(feed.name) ?? {};
        const since = new Date(
          Math.max((askedAt?.getTime() ?? startedAt) + 1, Date.now() - CATCH_UP_MS),
        );
        const isDue =
          feed.cron !== null &&
          lastTick(parseCron(feed.cron), feed.timeZone, new Date(), since) !== null;
        if (isDue) await askFor(feed, app.store, queues);
        else if (
          askedAt !== null &&
          isBefore(deliveredAt, askedAt) &&
          isBefore(failedAt, askedAt)
        ) {
          await queues.addFeed(feed.name);
        }
      }
    },
    (error) => log.warn('the schedules of feeds could not be looked at', { error }),
    { atOnce: true },
  );
}

function isBefore(at: Date | null, other: Date): boolean {
  return at === null || at < other;
}
