import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { App } from '../app.js';
import type { Log } from '../domain/log.js';
import { within } from '../queue/concurrency.js';
import type { AlertChannelName } from '../jobs/alerts.js';
import type { Queues } from '../queue/queues.js';
import type { JobEvent, QueueWorker } from '../queue/worker.js';
import { Scheduler } from '../queue/scheduler.js';
import { migrationState } from '../store/migrate.js';
import { createMail } from '../webhook/mail.js';
import type { AlertChannel } from '../webhook/message.js';
import { createWebhook } from '../webhook/webhook.js';
import { feedHandler, watchFeeds } from './feeds.js';
import { alertHandler, auditHandler, mirrorHandler, type OnVerdict } from './handlers.js';
import { schedulesOf } from '../queue/ticks.js';
import { watchAge, watchAudits, watchFeedLag, watchRetention } from './watches.js';
import { BEAT_EVERY_MS, type FiredSchedule } from '../store/processes.js';
import type { Store } from '../store/store.js';

/** What a process does: fire schedules, work on jobs, serve the dashboard. */
export interface Roles {
  readonly scheduler: boolean;
  readonly worker: boolean;
  readonly dashboard: boolean;
}

export interface Service {
  /** Takes no new work, and lets running work finish or hands it back. */
  stop(): Promise<void>;
}

interface ServiceEvents {
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
  const { shutdownTimeoutMs } = app.config;
  const channels = channelsOf(app.config);
  const hasAlerts = Object.values(channels).some((channel) => channel !== null);
  const workers = roles.worker
    ? startWorkers(app, queues, hasAlerts ? channels : null, events)
    : [];
  const scheduler = roles.scheduler ? startScheduler(app, queues, log) : null;
  const stopWatches = [
    roles.scheduler && hasAlerts ? watchAge(app, queues, log) : null,
    roles.scheduler && hasAlerts ? watchFeedLag(app, queues, log) : null,
    roles.scheduler ? watchRetention(app, log) : null,
    roles.worker ? watchAudits(app, queues, log) : null,
    roles.scheduler ? watchFeeds(app, queues, log) : null,
  ];
  return {
    async stop() {
      for (const stop of stopWatches) stop?.();
      // At the same time: none needs the other, and together they have no more time than each alone.
      const [ends] = await Promise.all([
        Promise.all(workers.map((worker) => worker.stop(shutdownTimeoutMs))),
        // Cut short, it leaves nothing behind but what the next start does again.
        scheduler && within(shutdownTimeoutMs, scheduler.stop()).catch(() => undefined),
      ]);
      const jobs = ends.reduce((sum, end) => sum + end.handedBack, 0);
      if (jobs > 0) log.info('running work was handed back to the queue', { jobs });
    },
  };
}

type AlertChannels = Readonly<Record<AlertChannelName, AlertChannel | null>>;

/** The ways to tell people; null: not configured. */
export function channelsOf({
  alertWebhook,
  alertMail,
}: Pick<App['config'], 'alertWebhook' | 'alertMail'>): AlertChannels {
  return {
    webhook: alertWebhook === null ? null : createWebhook(alertWebhook),
    mail: alertMail === null ? null : createMail(alertMail),
  };
}

function startWorkers(
  app: App,
  queues: Queues,
  channels: AlertChannels | null,
  { onJob, onVerdict }: ServiceEvents,
): readonly Pick<QueueWorker, 'stop'>[] {
  const { workerConcurrency: concurrency } = app.config;
  const mirror = mirrorHandler(app, queues);
  const audits = auditHandler(app, queues, onVerdict);
  const workers: Pick<QueueWorker, 'stop'>[] = [
    queues.work('mirror', mirror, { concurrency, onJob }),
    queues.work('audits', audits, { concurrency, onJob }),
  ];
  if (app.config.feeds.length > 0) {
    // All at a time: one whose target hangs must not hold up another.
    const together = { concurrency: app.config.feeds.length, onJob };
    workers.push(queues.work('feeds', feedHandler(app), together));
  }
  if (channels === null) return workers;
  const handler = alertHandler(app, channels);
  const options = { concurrency: ALERTS_AT_A_TIME, onJob };
  return [...workers, queues.work('alerts', handler, options)];
}

function startScheduler(app: App, queues: Queues, log: Log): Scheduler {
  const { sellers, catchUp, keepJobsDays } = app.config;
  return new Scheduler({
    schedules: schedulesOf(sellers),
    store: app.store,
    enqueue: ({ kind, ...task }, jobId) =>
      kind === 'recheck'
        ? queues.add('audits', { kind, ...task }, jobId)
        : queues.add('mirror', { kind, ...task }, jobId),
    log,
    catchUp,
    keepJobsDays,
  });
}

export interface HealthCheck {
  readonly name: string;
  /**
   * Resolves to nothing when it works, and otherwise to the reason, which anybody may read. Of an
   * error only the code is shown, since its text may hold an address with a password.
   */
  readonly check: () => Promise<string | void>;
}

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

/**
 * Tells the store now and every `BEAT_EVERY_MS` that this process lives.
 * @param roles what it does, such as `worker` and `scheduler`
 * @param schedules that it fires
 * @param dashboardUrl where its dashboard is; null when it serves none
 * @returns takes the process off the list, so that nobody waits for it; never throws
 */
export function startHeartbeat(
  processes: Pick<Store['processes'], 'beat' | 'end'>,
  roles: readonly string[],
  log: Log,
  schedules: readonly FiredSchedule[] = [],
  dashboardUrl: string | null = null,
): () => Promise<void> {
  const self = { host: hostname(), pid: process.pid, startedAt: new Date() };
  const info = { processId: randomUUID(), roles, schedules, dashboardUrl, ...self };
  const beat = (): Promise<void> =>
    processes.beat(info).catch((error: unknown) => {
      log.debug('the store could not be told that this process lives', { error });
    });
  let beating = beat();
  const timer = setInterval(() => {
    beating = beating.then(beat);
  }, BEAT_EVERY_MS);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await beating;
    await processes.end(info.processId).catch(() => undefined);
  };
}
