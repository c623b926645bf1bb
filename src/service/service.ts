import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { App } from '../app.js';
import type { Log } from '../domain/log.js';
import { withTimeout } from './concurrency.js';
import type { AlertChannelName } from './alerts/alerts.js';
import type { Queues } from './queue/queues.js';
import type { JobEvent, QueueWorker } from './queue/worker.js';
import { Scheduler, schedulesOf } from './scheduler.js';
import { migrationState } from '../db/migrate.js';
import { createMail } from './alerts/mail.js';
import type { AlertChannel } from './alerts/message.js';
import { createWebhook } from './alerts/webhook.js';
import { feedHandler, requestFeed, watchFeeds } from './feeds.js';
import { alertHandler, auditHandler, mirrorHandler, type OnVerdict } from './handlers.js';
import { watchAudits, watchFeedLag, watchRetention, watchStaleCopies } from './watches.js';
import { type Db, assertWritable } from '../db/db.js';
import { HEARTBEAT_MS, recordHeartbeat, removeProcess } from './processes-store.js';

/** What a process does: fire schedules, run jobs, serve the dashboard and the look-up API. */
export interface Roles {
  readonly scheduler: boolean;
  readonly worker: boolean;
  readonly dashboard: boolean;
  /** Serves the look-up API, if API_LISTEN is set. */
  readonly api: boolean;
}

export interface Service {
  /** Takes no new jobs. Lets running jobs finish, or hands them back to the queue after the timeout. */
  stop(): Promise<void>;
}

interface ServiceEvents {
  readonly onJob: (event: JobEvent) => void;
  readonly onVerdict: OnVerdict;
}

/** Deliveries at a time. They mostly wait for the network. */
const ALERT_CONCURRENCY = 2;

/** Starts the roles. The caller closes app and queues after `stop`. */
export function startService(
  app: App,
  queues: Queues,
  roles: Roles,
  log: Log,
  events: ServiceEvents,
): Service {
  const { shutdownTimeoutMs } = app.config;
  const channels = openAlertChannels(app.config);
  const hasAlerts = Object.values(channels).some((channel) => channel !== null);
  const workers = roles.worker
    ? startWorkers(app, queues, hasAlerts ? channels : null, events)
    : [];
  const scheduler = roles.scheduler ? startScheduler(app, queues, log) : null;
  const stopWatches = [
    roles.scheduler && hasAlerts ? watchStaleCopies(app, queues, log) : null,
    roles.scheduler && hasAlerts ? watchFeedLag(app, queues, log) : null,
    roles.scheduler ? watchRetention(app, log) : null,
    roles.worker ? watchAudits(app, queues, log) : null,
    roles.scheduler ? watchFeeds(app, queues, log) : null,
  ];
  return {
    async stop() {
      for (const stop of stopWatches) stop?.();
      // All at the same time, so that the timeout applies once.
      const [ends] = await Promise.all([
        Promise.all(workers.map((worker) => worker.stop(shutdownTimeoutMs))),
        // After the timeout, the next start repeats what the scheduler did not finish.
        scheduler && withTimeout(shutdownTimeoutMs, scheduler.stop()).catch(() => undefined),
      ]);
      const jobs = ends.reduce((sum, end) => sum + end.handedBack, 0);
      if (jobs > 0) log.info('handed running jobs back to the queue', { jobs });
    },
  };
}

type AlertChannels = Readonly<Record<AlertChannelName, AlertChannel | null>>;

/** Creates the channels for alerts; null if not configured. */
export function openAlertChannels({
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
    // All feeds at the same time, so that a target that hangs delays only its own feed.
    const options = { concurrency: app.config.feeds.length, onJob };
    workers.push(queues.work('feeds', feedHandler(app), options));
  }
  if (channels !== null) {
    const options = { concurrency: ALERT_CONCURRENCY, onJob };
    workers.push(queues.work('alerts', alertHandler(app, channels), options));
  }
  return workers;
}

function startScheduler({ config, db }: App, queues: Queues, log: Log): Scheduler {
  const { sellers, feeds, catchUp, keepJobsDays } = config;
  return new Scheduler({
    schedules: schedulesOf({ sellers, feeds }),
    db,
    async enqueue({ kind, name, jobId, dueAt }) {
      if (kind === 'feed') {
        const feed = feeds.find((one) => one.name === name);
        if (feed !== undefined) await requestFeed(feed, db, queues);
        return { added: true };
      }
      const tick = dueAt.toISOString();
      const task = { seller: name, tick, askedAt: new Date().toISOString() };
      return kind === 'recheck'
        ? await queues.add('audits', { kind, ...task }, jobId)
        : await queues.add('mirror', { kind, ...task }, jobId);
    },
    log,
    catchUp,
    keepJobsDays,
  });
}

export interface HealthCheck {
  readonly name: string;
  /**
   * Resolves to the reason when the check fails, which anybody may read. When it rejects, only the error's
   * code is shown, because the message may contain a password.
   */
  readonly check: () => Promise<string | void>;
}

export function healthChecks(
  app: App,
  queues: Queues,
  isStopping: () => boolean,
): readonly HealthCheck[] {
  return [
    {
      name: 'running',
      check: () => Promise.resolve(isStopping() ? 'the process is stopping' : undefined),
    },
    { name: 'store', check: () => assertWritable(app.db) },
    {
      name: 'schema',
      check: async () => {
        const { pending, unknown } = await migrationState(app.database.url);
        if (pending.length > 0) return `migrations are pending: ${pending.join(', ')}`;
        return unknown.length > 0 ? 'a newer version migrated the database' : undefined;
      },
    },
    { name: 'queue', check: () => queues.ping() },
  ];
}

/**
 * Sends heartbeats of this process to the store, now and every `HEARTBEAT_MS`.
 * @param roles such as `worker` and `scheduler`
 * @param dashboardUrl null when this process serves no dashboard
 * @returns stops the heartbeat and removes the process from the store; never throws
 */
export function startHeartbeat(
  db: Db,
  roles: readonly string[],
  log: Log,
  dashboardUrl: string | null = null,
): () => Promise<void> {
  const self = { host: hostname(), pid: process.pid, startedAt: new Date() };
  const info = { processId: randomUUID(), roles, dashboardUrl, ...self };
  const sendHeartbeat = (): Promise<void> =>
    recordHeartbeat(db, info).catch((error: unknown) => {
      log.debug('could not send a heartbeat to the store', { error });
    });
  let lastHeartbeat = sendHeartbeat();
  const timer = setInterval(() => {
    lastHeartbeat = lastHeartbeat.then(sendHeartbeat);
  }, HEARTBEAT_MS);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await lastHeartbeat;
    await removeProcess(db, info.processId).catch(() => undefined);
  };
}
