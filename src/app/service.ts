import type { App } from '../app.js';
import type { Log } from '../domain/log.js';
import { within } from '../queue/concurrency.js';
import type { Queues } from '../queue/queues.js';
import type { JobEvent, QueueWorker } from '../queue/worker.js';
import { watchLostJobs, type LostJobsOptions } from '../queue/lost-jobs.js';
import { startScheduler, type Scheduler, type SchedulerOptions } from '../queue/scheduler.js';
import { migrationState } from '../store/migrate.js';
import { createWebhook } from '../webhook/webhook.js';
import { alertHandler, auditHandler, mirrorHandler, type OnVerdict } from './handlers.js';
import { schedulesOf } from './schedules.js';
import { watchAge, watchAudits, watchRetention, type Watch } from './watches.js';

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

/** Who is told of what the workers of this process do. */
export interface ServiceEvents {
  readonly onJob: (event: JobEvent) => void;
  readonly onVerdict: OnVerdict;
}

/** Alerts are small and wait for a network. */
const ALERTS_AT_A_TIME = 2;

/** Starts the roles on an open app and open queues, which the caller closes after `stop`. */
export function startService(
  app: App,
  queues: Queues,
  roles: Roles,
  log: Log,
  events: ServiceEvents,
): Service {
  const workers = roles.worker ? startWorkers(app, queues, events) : [];
  const scheduler = roles.scheduler ? startSchedules(app, queues, log) : null;
  const watches = [
    roles.scheduler && app.config.alerts !== null ? watchAge(app, queues, log) : null,
    roles.scheduler ? watchLostJobs(lostJobsOf(app, queues, log)) : null,
    roles.scheduler ? watchRetention(app, log) : null,
    roles.worker ? watchAudits(app, queues, log) : null,
  ].filter((watch) => watch !== null);
  return { stop: () => stopAll(app, workers, scheduler, watches, log) };
}

async function stopAll(
  app: App,
  workers: readonly QueueWorker[],
  scheduler: Scheduler | null,
  watches: readonly Watch[],
  log: Log,
): Promise<void> {
  for (const watch of watches) watch.stop();
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
  { onJob, onVerdict }: ServiceEvents,
): readonly QueueWorker[] {
  const { workerConcurrency, alerts } = app.config;
  const mirror = queues.work('mirror', mirrorHandler(app, queues), {
    concurrency: workerConcurrency,
    onJob,
  });
  const audits = queues.work('audits', auditHandler(app, queues, onVerdict), {
    concurrency: workerConcurrency,
    onJob,
  });
  if (alerts === null || alerts.secret === null) return [mirror, audits];
  const webhook = createWebhook({ url: alerts.url, secret: alerts.secret });
  const handler = alertHandler(app, webhook);
  const alertWorker = queues.work('alerts', handler, { concurrency: ALERTS_AT_A_TIME, onJob });
  return [mirror, audits, alertWorker];
}

function startSchedules(app: App, queues: Queues, log: Log): Scheduler {
  const { catchUp } = app.config;
  return startScheduler({ ...schedulingOf(app, queues, log), catchUp });
}

function lostJobsOf(app: App, queues: Queues, log: Log): LostJobsOptions {
  const { catchUp, keepJobsDays } = app.config;
  return { ...schedulingOf(app, queues, log), keepJobsDays, atOnce: catchUp };
}

function schedulingOf(
  app: App,
  queues: Queues,
  log: Log,
): Pick<SchedulerOptions, 'schedules' | 'store' | 'enqueue' | 'log'> {
  return {
    schedules: schedulesOf(app.config.sellers),
    store: app.store,
    enqueue: ({ kind, ...task }, jobId) =>
      kind === 'recheck'
        ? queues.addRecheck({ kind, ...task }, jobId)
        : queues.addMirror({ kind, ...task }, jobId),
    log,
  };
}

/** Something that must work for the process to do its work. */
export interface HealthCheck {
  readonly name: string;
  /**
   * Resolves to nothing when it works, and otherwise to the reason, which anybody may read. Of an
   * error only the code is shown, since its text may hold an address with a password.
   */
  readonly check: () => Promise<string | void>;
}

/** What `/readyz` looks at. */
export function checksOf(
  app: App,
  queues: Queues,
  isStopping: () => boolean,
): readonly HealthCheck[] {
  return [
    {
      name: 'running',
      check: () => Promise.resolve(isStopping() ? 'it is stopping' : undefined),
    },
    { name: 'store', check: () => app.store.ping() },
    {
      name: 'schema',
      check: async () => {
        const { pending, unknown } = await migrationState(app.database.url);
        if (pending.length > 0) return `migrations are pending: ${pending.join(', ')}`;
        return unknown.length > 0 ? 'it was migrated by a newer version' : undefined;
      },
    },
    { name: 'queue', check: () => queues.ping() },
  ];
}
