import type { App } from '../app.js';
import type { Log } from '../domain/log.js';
import { channelsOf, recordNews } from './alerts/alerts.js';
import { requestFeeds } from './feeds.js';
import type { Queues } from './queue/queues.js';

/**
 * Records alerts about what happened, and asks for deliveries of feeds. Logs what fails: the next check of what is due
 * repeats it. Never throws.
 */
export async function followUp(
  app: Pick<App, 'config' | 'db'>,
  queues: Pick<Queues, 'add'>,
  hasNewData: boolean,
  log: Log,
): Promise<void> {
  try {
    for (const alertId of await recordNews(app)) {
      for (const channel of channelsOf(app.config)) {
        await queues.add('alerts', { kind: 'send', alertId, channel });
      }
    }
  } catch (error) {
    log.warn('could not enqueue an alert', { error });
  }
  if (hasNewData) await requestFeeds(app, queues, log);
}
