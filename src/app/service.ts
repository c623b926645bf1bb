import type { App } from '../app.js';
import type { Log } from '../domain/log.js';
import { within } from '../queue/gather.js';
import type { Queues } from '../queue/queues.js';
import type { QueueWorker } from '../queue/worker.js';
import { startScheduler, type Scheduler } from '../queue/scheduler.js';
import type { JobEvent } from '../queue/types.js';
import { createWebhook } from '../webhook/webhook.js';
import { alertHandler } from './alert-handler.js';
import { mirrorHandler } from './mirror-handler.js';
import { schedulesOf } from './schedules.js';
import { watchAge, type AgeWatch } from './watch-age.js';

/** What a process does: fire schedules, work on jobs, or both. */
export interface Roles {
  readonly scheduler: boolean;
  readonly worker: boolean;
}

/** The long-running part of the product. */
export interface Service {
  /** Takes no new work, and lets running work finish or hands it back. */
  stop(): Promise<void>;
}

/** Alerts are small and wait for a network. */
const ALERTS_AT_A_TIME = 2;

/** Starts the roles on an open app and open queues, which the caller closes after `stop`. */
export function startService(
  app: App,
  queues: Queues,
  roles: Roles,
  log: Log,
  onJob: (event: JobEvent) => void,
): Service {
  const workers = roles.worker ? startWorkers(app, queues, onJob) : [];
  const scheduler = roles.scheduler ? startSchedules(app, queues, log) : null;
  const watch = roles.scheduler && app.config.alerts !== null ? watchAge(app, queues, log) : null;
  return { stop: () => stopAll(app, workers, scheduler, watch, log) };
}

async function stopAll(
  app: App,
  workers: readonly QueueWorker[],
  scheduler: Scheduler | null,
  watch: AgeWatch | null,
  log: Log,
): Promise<void> {
  watch?.stop();
  // At the same time: none needs the other, and together they have no more time than each alone.
  const [ends] = await Promise.all([
    Promise.all(workers.map((worker) => worker.stop(app.config.shutdownTimeoutMs))),
    // Cut short, it leaves nothing behind but what the next start does again.
    scheduler && within(app.config.shutdownTimeoutMs, scheduler.stop()).catch(() => undefined),
  ]);
  const handedBack = ends.reduce((sum, end) => sum + end.handedBack, 0);
  if (handedBack > 0) log.info('running work was handed back to the queue', { jobs: handedBack });
}

function startWorkers(
  app: App,
  queues: Queues,
  onJob: (event: JobEvent) => void,
): readonly QueueWorker[] {
  const { workerConcurrency, alerts } = app.config;
  const mirror = queues.work('mirror', mirrorHandler(app, queues), {
    concurrency: workerConcurrency,
    onJob,
  });
  if (alerts === null || alerts.secret === null) return [mirror];
  const webhook = createWebhook({ url: alerts.url, secret: alerts.secret });
  const handler = alertHandler(app, webhook);
  return [mirror, queues.work('alerts', handler, { concurrency: ALERTS_AT_A_TIME, onJob })];
}

function startSchedules(app: App, queues: Queues, log: Log): Scheduler {
  const { sellers, catchUp } = app.config;
  return startScheduler({
    schedules: schedulesOf(sellers),
    store: app.store,
    enqueue: (task, jobId) => queues.addMirror(task, jobId),
    log,
    catchUp,
  });
}
