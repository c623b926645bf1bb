import type { Log } from '../domain/log.js';
import { alertId, type Alert } from '../jobs/alerts.js';
import type { Queues } from '../queue/queues.js';

/** Puts an alert into the queue. What can't be told by it is told by the log: nothing waits for an alert. */
export async function tell(queues: Queues, alert: Alert, log: Log): Promise<void> {
  const id = alertId(alert);
  try {
    await queues.addAlert(alert, id);
  } catch (error) {
    log.warn('an alert could not be put into the queue', { alert: id, error });
  }
}
