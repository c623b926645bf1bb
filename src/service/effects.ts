import type { App } from '../app.js';
import type { Log } from '../domain/log.js';
import type { Alert, RunEvent } from '../catalogue/types.js';
import { countNoLongerValid } from './alerts/news-store.js';
import { alertJobs } from './alerts/alerts.js';
import { requestFeeds } from './feeds.js';
import type { Queues } from './queue/queues.js';

/** A run that has ended. */
export type EndedRun = Pick<
  Extract<RunEvent, { phase: 'finished' }>,
  'runId' | 'kind' | 'state' | 'counts'
>;

/** What runs or an audit of a seller ended with. */
export interface Ending {
  readonly seller: string;
  readonly alerts: readonly Alert[];
  readonly runs: readonly EndedRun[];
  /** Whether feeds have something new to deliver. */
  readonly hasNewData: boolean;
}

/**
 * Queues what follows work, whether a worker or a command did it: alerts, news and feeds. Logs what it can't queue; never
 * throws.
 */
export async function queueEffects(
  app: Pick<App, 'config' | 'db'>,
  queues: Pick<Queues, 'add' | 'addFeed'>,
  ending: Ending,
  log: Log,
): Promise<void> {
  const news = await newsOf(app, ending).catch((error: unknown) => {
    log.warn('could not look for news', { error });
    return [];
  });
  const jobs = [...ending.alerts, ...news].flatMap((alert) => alertJobs(app.config, alert));
  for (const { id, task } of jobs) {
    try {
      await queues.add('alerts', task, id);
    } catch (error) {
      log.warn('could not enqueue an alert', { alert: id, error });
    }
  }
  if (ending.hasNewData) await requestFeeds(app, queues, log);
}

/** True if an ending may have effects with these settings, for which a command must open the queue. */
export function mayHaveEffects({ config }: Pick<App, 'config'>, ending: Ending): boolean {
  const hasChannel = config.alertWebhook !== null || config.alertMail !== null;
  const isNews = ending.alerts.length > 0 || ending.runs.length > 0;
  const hasFeeds = config.feeds.some(({ cron }) => cron === null);
  return (hasChannel && isNews) || (hasFeeds && ending.hasNewData);
}

async function newsOf(
  { config, db }: Pick<App, 'config' | 'db'>,
  ending: Ending,
): Promise<readonly Alert[]> {
  const { seller, alerts, runs } = ending;
  const news: Alert[] = [];
  for (const { runId, kind, state, counts } of runs) {
    if (state !== 'succeeded' && state !== 'held') continue;
    const run = { seller, runId: String(runId) };
    if (kind !== 'account' && counts.removed > 0) news.push({ kind: 'items-removed', ...run });
    // A nightly run alone would tell a day's sales as if they had just happened.
    const isWatched = config.sellers.some(
      ({ name, accountCron }) => name === seller && accountCron,
    );
    if (kind === 'account' && counts.changed > 0 && isWatched) {
      news.push({ kind: 'balance-changed', ...run });
    }
  }
  for (const alert of alerts) {
    if (alert.kind !== 'audit-finished') continue;
    const codes = await countNoLongerValid(db, BigInt(alert.auditId));
    if (codes > 0) news.push({ kind: 'codes-no_longer_valid', auditId: alert.auditId });
  }
  return news;
}
