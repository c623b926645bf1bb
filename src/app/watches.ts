import type { App } from '../app.js';
import type { Log } from '../domain/log.js';
import { DAY_MS } from '../domain/schedule.js';
import { alertJobs, findFeedAlerts, findStaleSellers } from '../jobs/alerts.js';
import { enqueueNext } from '../jobs/codes/perform-chunk.js';
import type { Queues } from '../queue/queues.js';
import { keepsForEver, planRetention, PruneBusyError } from '../store/prune.js';

/** Stops looking; what is being done is not waited for. */
export type StopWatch = () => void;

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/**
 * Looks now and then, never while the last look goes on.
 * @param look its signal ends when the watch is stopped
 * @param onFailure told of a look that failed, but not after the stop
 */
export function watch(
  everyMs: number,
  look: (signal: AbortSignal) => Promise<void>,
  onFailure: (error: unknown) => void,
  { atOnce = false } = {},
): StopWatch {
  const stopping = new AbortController();
  const { signal } = stopping;
  let looking = false;
  const begin = (): void => {
    if (looking) return;
    looking = true;
    void look(signal)
      .catch((error: unknown) => !signal.aborted && onFailure(error))
      .finally(() => (looking = false));
  };
  const timer = setInterval(begin, everyMs);
  if (atOnce) begin();
  return () => {
    stopping.abort(new Error('the service is stopping'));
    clearInterval(timer);
  };
}

/** Alerts people, once each time, of copies that grew older than they may. */
export function watchAge(
  { config, store }: Pick<App, 'config' | 'store'>,
  queues: Pick<Queues, 'add'>,
  log: Log,
): StopWatch {
  const names = config.sellers.map(({ name }) => name);
  return watch(
    MINUTE_MS,
    async (signal) => {
      const stale = await findStaleSellers(store, names, config.staleAfterHours, new Date());
      for (const { id, task } of stale.flatMap((alert) => alertJobs(config, alert))) {
        if (signal.aborted) return;
        await queues.add('alerts', task, id);
      }
    },
    // The next look alerts of the others. Store and queue log their outages themselves.
    (error) => log.debug('the look for stale copies was cut short', { error }),
  );
}

/**
 * Alerts people, once each time, of feeds whose targets lack for too long what they should have, and once
 * when such a target has it all. Null without feeds.
 */
export function watchFeedLag(
  { config, store }: Pick<App, 'config' | 'store'>,
  queues: Pick<Queues, 'add'>,
  log: Log,
): StopWatch | null {
  const { feeds, feedStaleAfterHours } = config;
  if (feeds.length === 0) return null;
  return watch(
    MINUTE_MS,
    async (signal) => {
      for (const alert of await findFeedAlerts(store, feeds, feedStaleAfterHours, new Date())) {
        for (const { id, task } of alertJobs(config, alert)) {
          if (signal.aborted) return;
          await queues.add('alerts', task, id);
        }
        // Only now: a process that is killed before this tells it after its next start.
        if (alert.kind === 'feed-recovered') await store.feeds.markStale(alert.feed, null);
      }
    },
    (error) => log.debug('the look for stale feeds was cut short', { error }),
    { atOnce: true },
  );
}

/** Audits that are looked at, the newest. */
const LATEST_AUDITS = 500;

/**
 * Makes sure that the chunks of every running audit are in the queue, now and once a minute: a queue
 * that lost its jobs, or a process that was killed before it could add one, holds up no audit.
 */
export function watchAudits(
  { config, store }: Pick<App, 'config' | 'store'>,
  queues: Pick<Queues, 'addChunk'>,
  log: Log,
): StopWatch {
  const sellerIds = config.sellers.map(({ name }) => name);
  return watch(
    MINUTE_MS,
    async (signal) => {
      const audits = await store.audits.list({ sellerIds, limit: LATEST_AUDITS });
      for (const { auditId, sellerId, state } of audits) {
        if (signal.aborted) return;
        if (state === 'running') await enqueueNext(store, auditId, adding(queues, sellerId));
      }
    },
    (error) => log.debug('the look for running audits was cut short', { error }),
    { atOnce: true },
  );
}

/** Puts chunks of a seller's audits into the queue. @param options as of `addChunk` */
export function adding(
  queues: Pick<Queues, 'addChunk'>,
  sellerId: string,
  options: { readonly afresh?: boolean } = {},
): (auditId: bigint, chunk: number) => Promise<void> {
  return async (auditId, chunk) => {
    await queues.addChunk(sellerId, auditId, chunk, options);
  };
}

/**
 * Deletes what is older than the settings say, once a day, the first time an hour after the start.
 * Of several processes one does, and the others find little left. Null when all is kept for ever.
 */
export function watchRetention(
  { config, store }: Pick<App, 'config' | 'store'>,
  log: Log,
): StopWatch | null {
  if (keepsForEver(config.retention)) return null;
  let doneAt = -Infinity;
  return watch(
    HOUR_MS,
    async (signal) => {
      const now = new Date();
      if (now.getTime() - doneAt < DAY_MS - HOUR_MS / 2) return;
      const pruned = await store.prune(planRetention(config.retention, now), { signal });
      doneAt = now.getTime();
      const rows = pruned.reduce((sum, one) => sum + one.rows, 0);
      if (rows > 0) log.info('what was kept for long enough is deleted', { rows });
    },
    (error) => {
      if (error instanceof PruneBusyError) return;
      log.warn('old rows could not be deleted; the next look tries again', { error });
    },
  );
}
