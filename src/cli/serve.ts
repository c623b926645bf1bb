import { openApp, type App } from '../app.js';
import { healthChecks, startHeartbeat, startService, type Roles } from '../service/service.js';
import { type Config, processEnvironment, rereadSellers } from '../config/index.js';
import { disk } from '../config/load.js';
import type { Log } from '../domain/log.js';
import { createLog } from '../log/index.js';
import { startApi } from '../api/server.js';
import { startDashboard } from '../dashboard/server.js';
import type { Queues } from '../service/queue/queues.js';
import { openMirror } from '../db/mirror.js';
import { createMetrics } from '../service/metrics.js';
import { startHealthServer } from '../service/health.js';
import type { Db } from '../db/db.js';
import { schedulesOf } from '../service/due.js';
import { readBoard } from '../service/board.js';
import { configFor, openQueuesOf, unlessAborted } from './execute.js';

export interface Serving {
  readonly db: Db;
  /** Null if it serves no dashboard. */
  readonly dashboardUrl: string | null;
  /** Null if it serves no look-up API. */
  readonly apiUrl: string | null;
  stop(): Promise<void>;
}

/**
 * Opens store, queue, health endpoints and dashboard, and starts the roles. If one of them can't be opened, or
 * the signal aborts meanwhile, it closes the others. `stop` closes them in reverse order.
 * @param name of the command, for logs and database sessions
 * @param customConfig used instead of the settings of this process
 * @throws {UserError} when one of them can't be opened
 */
export async function serve(
  name: string,
  roles: Roles,
  signal: AbortSignal,
  customConfig: Config | null = null,
): Promise<Serving> {
  const isDashboardOnly = roles.dashboard && !roles.worker;
  const config = customConfig ?? configFor(isDashboardOnly ? 'store' : 'sellers');
  const log = logFor(config);
  for (const warning of config.exposedSecrets) log.warn(warning);
  const opened: { close(): Promise<void> }[] = [];
  let stopping = false;
  const close = async (): Promise<void> => {
    stopping = true;
    for (const part of opened.splice(0).toReversed()) {
      // An error while closing one part must not leave the others open.
      await part.close().catch(() => undefined);
    }
  };
  let parts: Pick<Serving, 'db' | 'dashboardUrl' | 'apiUrl'>;
  try {
    parts = await unlessAborted(open(), signal);
  } catch (error) {
    await close();
    throw error;
  }
  return {
    ...parts,
    async stop() {
      log.info('stopping; a second signal ends the process at once');
      await close();
      log.info('stopped');
    },
  };

  async function open(): Promise<typeof parts> {
    const { health: listen, sellers } = config;
    let app: App | null = null;
    let queues: Queues | null = null;
    const metrics = createMetrics({
      config,
      board: async () =>
        app === null ? null : await readBoard(app.db, config, new Date(app.db.clock.now())),
      counts: async () => (queues === null ? null : await queues.counts()),
    });
    const onWarning = (warning: string): void => log.warn(warning);
    app = await openApp(config, name, signal, { ...metrics, onWarning });
    opened.push(app);
    queues = await openQueuesOf(app, name, log);
    opened.push(queues);
    const checks = healthChecks(app, queues, () => stopping);
    // A dashboard or an API alone has health endpoints only if HEALTH_LISTEN is set: the default port belongs to `run`.
    const health =
      listen === null || (!roles.scheduler && !roles.worker && !listen.chosen)
        ? null
        : await startHealthServer({ listen, checks, metrics: () => metrics.text(), log });
    if (health !== null) opened.push(health);
    if (customConfig === null) opened.push({ close: followSellersFile(config, log) });
    const dashboard = roles.dashboard ? await openDashboard(app, queues) : null;
    const api = roles.api
      ? await startApi(app, queues, log, (seller, verdict, asked) => {
          metrics.onAnswer(seller, verdict, asked);
        })
      : null;
    if (api !== null) opened.push(api);
    // Everything listens before work begins: a taken port must not end a process that has delivered already.
    const startedAt = new Date(app.db.clock.now());
    const service = startService(app, queues, roles, log, metrics);
    opened.push({ close: () => service.stop() });
    // Started after the service, so stopped before it: a worker that takes no new jobs must not look alive.
    const dashboardUrl = dashboard?.url ?? null;
    const activeRoles = Object.entries({
      ...roles,
      dashboard: dashboard !== null,
      api: api !== null,
    })
      .filter(([, isActive]) => isActive)
      .map(([role]) => role);
    const schedules = () => (roles.scheduler ? schedulesOf(config) : []);
    const heartbeat = { dashboardUrl, schedules, startedAt };
    opened.push({ close: startHeartbeat(app.db, activeRoles, log, heartbeat) });
    log.info('service started', {
      command: name,
      queue: queues.backend,
      sellers: sellers.length === 1 ? sellers[0]?.name : sellers.length,
      health: health?.url ?? 'off',
      dashboard: dashboardUrl ?? 'off',
      api: api?.url ?? 'off',
    });
    return { db: app.db, dashboardUrl, apiUrl: api?.url ?? null };
  }

  async function openDashboard(app: App, queues: Queues) {
    const { database, db } = app;
    const mirror = await openMirror({ databaseUrl: database.url });
    opened.push(mirror);
    const dashboard = await startDashboard({
      config,
      db,
      database,
      mirror,
      queues,
      log,
      withMarketplace: (seller, options, work) => app.withMarketplace(seller, options, work),
    });
    if (dashboard !== null) opened.push(dashboard);
    return dashboard;
  }
}

/** SELLERS_FILE is read again this often (ms). */
const REREAD_MS = 60_000;

/** Takes over changes of SELLERS_FILE. A fault is told once, and the sellers stay as they are. @returns ends it */
function followSellersFile(config: Config, log: Log): () => Promise<void> {
  let told = '';
  const reread = (): void => {
    const options = { cwd: process.cwd(), files: disk, needs: 'sellers' } as const;
    const reading = rereadSellers(config, processEnvironment(), options);
    if (reading === null) return;
    const { problems, added, removed } = reading;
    const text = problems.join('; ');
    if (text !== '' && text !== told) {
      log.warn(`SELLERS_FILE was not read again; the sellers are as before: ${text}`);
    }
    told = text;
    if (added.length + removed.length > 0) log.info('SELLERS_FILE has changed', { added, removed });
  };
  const timer = setInterval(reread, REREAD_MS);
  return () => {
    clearInterval(timer);
    return Promise.resolve();
  };
}

function logFor(config: Config): Log {
  const pretty = config.logFormat === 'auto' ? process.stdout.isTTY : config.logFormat === 'pretty';
  const format = pretty ? 'pretty' : 'json';
  return createLog({ level: config.logLevel, format, secrets: config.secrets });
}
