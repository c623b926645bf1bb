import { openApp, type App } from '../app.js';
import { startHeartbeat } from '../app/heartbeat.js';
import { schedulesOf } from '../app/schedules.js';
import { checksOf, startService, type Roles } from '../app/service.js';
import type { Config } from '../config/index.js';
import type { Log } from '../domain/log.js';
import { createLog } from '../log/index.js';
import { openQueues, type Queues } from '../queue/queues.js';
import type { FiredSchedule } from '../store/processes.js';
import { createMetrics, type Metrics } from '../web/metrics.js';
import { startHealthServer } from '../web/server.js';
import { configFor, unlessAborted } from './execute.js';
import { Opened, type Closable } from './opened.js';
import { secretsOf } from './secrets.js';
import type { Serving } from './service.js';

/**
 * Opens store, queue and health endpoints and starts the roles on them.
 * @param name of the command, for logs and database sessions
 * @throws {StoreError | QueueError | HealthListenError} when one of them can't be opened
 */
export async function serve(name: string, roles: Roles, signal: AbortSignal): Promise<Serving> {
  const config = await configFor('sellers');
  const log = logFor(config);
  const parts = new Parts(name, config, roles, log);
  try {
    const facts = await unlessAborted(parts.open(signal), signal);
    log.info('service started', { command: name, ...facts });
  } catch (error) {
    await parts.close();
    throw error;
  }
  return {
    async stop() {
      log.info('stopping; a second signal ends it at once');
      await parts.close();
      log.info('stopped');
    },
  };
}

function logFor(config: Config): Log {
  const pretty = config.logFormat === 'auto' ? process.stdout.isTTY : config.logFormat === 'pretty';
  return createLog({
    level: config.logLevel,
    format: pretty ? 'pretty' : 'json',
    secrets: secretsOf(config),
  });
}

/** The roles that a process has, by name. */
function rolesIn(roles: Roles): readonly string[] {
  return Object.entries(roles).flatMap(([name, has]) => (has === true ? [name] : []));
}

function asFired({ seller, kind, cron, timeZone }: FiredSchedule): FiredSchedule {
  return { seller, kind, cron, timeZone };
}

/** The parts of a service, opened one after the other and closed in reverse. */
class Parts {
  readonly #opened = new Opened();
  readonly #metrics: Metrics;
  #app: App | null = null;
  #queues: Queues | null = null;
  #stopping = false;

  constructor(
    readonly name: string,
    readonly config: Config,
    readonly roles: Roles,
    readonly log: Log,
  ) {
    this.#metrics = createMetrics({
      sellers: config.sellers.map((seller) => seller.name),
      counts: async () => (this.#queues === null ? null : await this.#queues.counts()),
      freshness: async () => (this.#app === null ? [] : await this.#app.store.freshness()),
      audits: async () => (this.#app === null ? [] : await this.#app.store.audits.backlogs()),
    });
  }

  /** @returns what there is to say of it in a log */
  async open(signal: AbortSignal): Promise<Record<string, unknown>> {
    const app = await this.#openApp(signal);
    const queues = await this.#openQueues(app);
    const health = await this.#listen(app, queues);
    const metrics = this.#metrics;
    const service = startService(app, queues, this.roles, this.log, {
      onJob: (event) => metrics.onJob(event),
      onVerdict: (seller, verdict) => metrics.onVerdict(seller, verdict),
    });
    this.#opened.add({ close: () => service.stop() });
    // Closed before the service: who takes no new work is not to be counted on.
    const fired = this.roles.scheduler ? schedulesOf(this.config.sellers).map(asFired) : [];
    const heartbeat = startHeartbeat(app.store.audits, rolesIn(this.roles), this.log, fired);
    this.#opened.add({ close: () => heartbeat.stop() });
    const { sellers } = this.config;
    return {
      queue: queues.backend,
      sellers: sellers.length === 1 ? sellers[0]?.name : sellers.length,
      health: health?.url ?? 'off',
    };
  }

  async close(): Promise<void> {
    this.#stopping = true;
    await this.#opened.close();
  }

  async #openApp(signal: AbortSignal): Promise<App> {
    const metrics = this.#metrics;
    this.#app = await openApp(this.config, this.name, signal, {
      onCall: (seller, call) => metrics.onCall(seller, call),
      onRun: (seller, event) => metrics.onRun(seller, event),
    });
    return this.#opened.add(this.#app);
  }

  async #openQueues(app: App): Promise<Queues> {
    const { config, log } = this;
    this.#queues = await openQueues({
      target: config.redis,
      databaseUrl: app.database.url,
      prefix: config.queuePrefix,
      keepJobsDays: config.keepJobsDays,
      applicationName: `seller-mirror ${this.name}`,
      log,
    });
    return this.#opened.add(this.#queues);
  }

  async #listen(app: App, queues: Queues): Promise<(Closable & { url: string }) | null> {
    const { health } = this.config;
    if (health === null) return null;
    const server = await startHealthServer({
      listen: health,
      checks: checksOf(app, queues, () => this.#stopping),
      metrics: () => this.#metrics.text(),
      log: this.log,
    });
    return this.#opened.add(server);
  }
}
