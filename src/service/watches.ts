import type { App } from '../app.js';
import { readSellerStatuses } from '../catalogue/status-store.js';
import type { Log } from '../domain/log.js';
import { alertJobs, findFeedAlerts, findStaleSellers } from './alerts/alerts.js';
import type { Queues } from './queue/queues.js';
import { markFeedStale } from '../reporting/feeds-store.js';
import { listAudits } from '../codes/audits-store.js';
import { keepsEverything, planRetention, PruneBusyError, prune } from '../db/prune.js';

/** Stops a watch. Does not wait for a check that is running. */
export type StopWatch = () => void;

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/**
 * Runs a check at an interval, skipping ticks while the last check still runs.
 * @param check its signal aborts when the watch is stopped
 * @param onFailure called when a check rejects, but not after the stop
 */
export function runEvery(
  everyMs: number,
  check: (signal: AbortSignal) => Promise<void>,
  onFailure: (error: unknown) => void,
  { atOnce = false } = {},
): StopWatch {
  const stopping = new AbortController();
  const { signal } = stopping;
  let isRunning = false;
  const run = (): void => {
    if (isRunning) return;
    isRunning = true;
    void check(signal)
      .catch((error: unknown) => !signal.aborted && onFailure(error))
      .finally(() => (isRunning = false));
  };
  const timer = setInterval(run, everyMs);
  if (atOnce) run();
  return () => {
    stopping.abort(new Error('the service is stopping'));
    clearInterval(timer);
  };
}

/** Sends an alert when a copy becomes stale. The queue drops duplicates. */
export function watchStaleCopies(
  { config, db }: Pick<App, 'config' | 'db'>,
  queues: Pick<Queues, 'add'>,
  log: Log,
): StopWatch {
  const names = config.sellers.map(({ name }) => name);
  return runEvery(
    MINUTE_MS,
    async (signal) => {
      const stale = findStaleSellers(
        await readSellerStatuses(db),
        names,
        config.staleAfterHours,
        new Date(),
      );
      for (const { id, task } of stale.flatMap((alert) => alertJobs(config, alert))) {
        if (signal.aborted) return;
        await queues.add('alerts', task, id);
      }
    },
    // The next check sends the rest. Store and queue log their outages themselves.
    (error) => log.debug('could not check for stale copies', { error }),
  );
}

/** Sends an alert when a feed's target becomes stale, and when it recovers. @returns null without feeds */
export function watchFeedLag(
  { config, db }: Pick<App, 'config' | 'db'>,
  queues: Pick<Queues, 'add'>,
  log: Log,
): StopWatch | null {
  const { feeds, feedStaleAfterHours } = config;
  if (feeds.length === 0) return null;
  return runEvery(
    MINUTE_MS,
    async (signal) => {
      for (const alert of await findFeedAlerts(db, feeds, feedStaleAfterHours, new Date())) {
        for (const { id, task } of alertJobs(config, alert)) {
          if (signal.aborted) return;
          await queues.add('alerts', task, id);
        }
        // After the alert is in the queue: if the process is killed before, its next start sends it.
        if (alert.kind === 'feed-recovered') await markFeedStale(db, alert.feed, null);
      }
    },
    (error) => log.debug('could not check for stale feeds', { error }),
    { atOnce: true },
  );
}

/**
 * Enqueues every running audit, now and every minute. So audits continue after the queue lost its jobs. A delayed job
 * starts now: if the clock was set back, its time would come much too late.
 */
export function watchAudits(
  { config, db }: Pick<App, 'config' | 'db'>,
  queues: Pick<Queues, 'addAudit'>,
  log: Log,
): StopWatch {
  const sellerIds = config.sellers.map(({ name }) => name);
  return runEvery(
    MINUTE_MS,
    async (signal) => {
      const audits = await listAudits(db, { sellerIds, state: 'running' });
      for (const { auditId, sellerId, problem } of audits) {
        if (signal.aborted) return;
        // A pause that the marketplace asked for is waited out.
        const promote = problem === null;
        await queues.addAudit(sellerId, auditId, { promote });
      }
    },
    (error) => log.debug('could not check for running audits', { error }),
    { atOnce: true },
  );
}

/**
 * Deletes data older than the KEEP_… settings allow, once a day, first an hour after the start. If several
 * processes do it, a lock lets one at a time. @returns null when everything is kept for ever
 */
export function watchRetention(
  { config, db }: Pick<App, 'config' | 'db'>,
  log: Log,
): StopWatch | null {
  if (keepsEverything(config.retention)) return null;
  let doneAt = -Infinity;
  return runEvery(
    HOUR_MS,
    async (signal) => {
      const now = new Date();
      if (now.getTime() - doneAt < DAY_MS - HOUR_MS / 2) return;
      const pruned = await prune(db, planRetention(config.retention, now), { signal });
      doneAt = now.getTime();
      const rows = pruned.reduce((sum, one) => sum + one.rows, 0);
      if (rows > 0) log.info('deleted rows older than the KEEP_… settings allow', { rows });
    },
    (error) => {
      if (error instanceof PruneBusyError) return;
      log.warn('could not delete old rows; trying again in an hour', { error });
    },
  );
}
