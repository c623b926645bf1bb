import type { App } from '../app.js';
import { deliverAlert } from '../jobs/deliver-alert.js';
import type { AlertTask, JobHandler, JobOutcome } from '../queue/types.js';
import type { Webhook } from '../webhook/webhook.js';

/** Delivers alerts. */
export function alertHandler(app: App, webhook: Webhook): JobHandler<AlertTask> {
  return async (task, context): Promise<JobOutcome> =>
    await deliverAlert({ store: app.store, webhook }, task, context.jobId, context.signal);
}
