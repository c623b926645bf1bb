import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { App } from '../app.js';
import { hostName } from '../domain/address.js';
import type { Log } from '../domain/log.js';
import { withTimeout } from './concurrency.js';
import type { AlertChannelName } from './alerts/alerts-store.js';
import type { Queues } from './queue/queues.js';
import type { JobEvent, QueueWorker } from './queue/worker.js';
import { Scheduler } from './scheduler.js';
import type { Schedule } from './due.js';
import { migrationState } from '../db/migrate.js';
import { createMail } from './alerts/mail.js';
import type { AlertChannel } from './alerts/message.js';
import { createWebhook } from './alerts/webhook.js';
import { feedHandler } from './feeds.js';
import { alertHandler, auditHandler, mirrorHandler, type OnVerdict } from './handlers.js';
import type { Clock } from '../db/clock.js';
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
  const workers = roles.worker ? startWorkers(app, queues, events) : [];
  const hasSchedules = roles.scheduler;
  const scheduler =
    roles.scheduler || roles.worker
      ? new Scheduler({ app, queues, hasSchedules, startedAt: new Date(app.db.clock.now()), log })
      : null;
  return {
    async stop() {
      // All at the same time, so that the timeout applies once.
      await Promise.all([
        ...workers.map((worker) => worker.stop(shutdownTimeoutMs)),
        // After the timeout, the next start repeats what the scheduler did not finish.
        scheduler && withTimeout(shutdownTimeoutMs, scheduler.stop()).catch(() => undefined),
      ]);
    },
  };
}

type AlertChannels = Readonly<Record<AlertChannelName, AlertChannel | null>>;

/**
 * Creates the channels for alerts; null if not configured.
 * @param clock whose time receivers compare with their own
 * @param timeoutMs longest wait for an answer; absent: the channel's own
 */
export function openAlertChannels(
  { alertWebhook, alertMail }: Pick<App['config'], 'alertWebhook' | 'alertMail'>,
  clock: Pick<Clock, 'now'>,
  timeoutMs?: number,
): AlertChannels {
  return {
    webhook: alertWebhook && createWebhook(alertWebhook, () => clock.now(), timeoutMs),
    mail: alertMail && createMail(alertMail, timeoutMs),
  };
}

function startWorkers(
  app: App,
  queues: Queues,
  { onJob, onVerdict }: ServiceEvents,
): readonly QueueWorker[] {
  const { workerConcurrency: concurrency, feeds } = app.config;
  const mirror = mirrorHandler(app, queues);
  const audits = auditHandler(app, queues, onVerdict);
  // Read for each job, since sellers are added while the worker runs.
  const hostOf = (name: string) => {
    const { sellers } = app.config;
    const seller = sellers.find((one) => one.name === name);
    if (seller === undefined) return null;
    const host = hostName(seller.url);
    return { host, isAlone: sellers.every(({ url }) => hostName(url) === host) };
  };
  const workers: QueueWorker[] = [
    queues.work('mirror', mirror, { concurrency, hostOf, onJob }),
    queues.work('audits', audits, { concurrency, hostOf, onJob }),
  ];
  if (feeds.length > 0) {
    // All feeds at the same time, so that a target that hangs delays only its own feed.
    const options = { concurrency: feeds.length, onJob };
    workers.push(queues.work('feeds', feedHandler(app), options));
  }
  const channels = openAlertChannels(app.config, app.db.clock);
  if (Object.values(channels).some((channel) => channel !== null)) {
    const options = { concurrency: ALERT_CONCURRENCY, onJob };
    workers.push(queues.work('alerts', alertHandler(app, channels), options));
  }
  return workers;
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
 * @returns stops the heartbeat and removes the process from the store; never throws
 */
export function startHeartbeat(
  db: Db,
  roles: readonly string[],
  log: Log,
  {
    dashboardUrl = null,
    schedules = () => [],
    startedAt,
  }: {
    /** Null when this process serves no dashboard. */
    readonly dashboardUrl?: string | null;
    /** Called for each heartbeat, since they may change. */
    readonly schedules?: () => readonly Schedule[];
    /** By the database's clock. */
    readonly startedAt: Date;
  },
): () => Promise<void> {
  const self = { host: hostname(), pid: process.pid, startedAt };
  const info = { processId: randomUUID(), roles, dashboardUrl, ...self };
  const sendHeartbeat = (): Promise<void> =>
    recordHeartbeat(db, { ...info, schedules: schedules() }).catch((error: unknown) => {
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
