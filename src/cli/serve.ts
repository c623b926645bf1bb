import { openApp, type App } from '../app.js';
import { startHeartbeat } from '../app/heartbeat.js';
import { schedulesOf } from '../app/schedules.js';
import { checksOf, startService, type Roles } from '../app/service.js';
import type { Config } from '../config/index.js';
import type { Log } from '../domain/log.js';
import { Secret } from '../domain/secret.js';
import { createLog } from '../log/index.js';
import { openQueues, type Queues } from '../queue/queues.js';
import type { FiredSchedule } from '../store/processes.js';
import { createMetrics, type Metrics } from '../web/metrics.js';
import { startHealthServer } from '../web/server.js';
import { configFor, unlessAborted } from './execute.js';

/**
 * Opens store, queue and health endpoints and starts the roles on them.
 * @param name of the command, for logs and database sessions
 * @throws {StoreError | QueueError | HealthListenError} when one of them can't be opened
 */
export async function serve(name: string, roles: Roles, signal: AbortSignal): Promise<Service> {
  const config = await configFor('sellers');
  const service = new Service(name, config, roles, logFor(config));
  await service.start(signal);
  return service;
}

function logFor(config: Config): Log {
  const pretty = config.logFormat === 'auto' ? process.stdout.isTTY : config.logFormat === 'pretty';
  return createLog({
    level: config.logLevel,
    format: pretty ? 'pretty' : 'json',
    secrets: secretsOf(config),
  });
}

/** All secrets of the configuration: no log line may show them. */
function secretsOf(config: Config): readonly Secret[] {
  const { sellers, databaseUrl, redis, alerts } = config;
  return [
    ...sellers.map(({ key }) => key),
    databaseUrl,
    databaseUrl === null ? null : passwordOf(databaseUrl),
    redis?.password ?? null,
    redis?.sentinelPassword ?? null,
    alerts?.url ?? null,
    alerts?.secret ?? null,
  ].filter((secret) => secret !== null);
}

/** The password alone: a driver's message may show it without the rest of the address. */
function passwordOf(url: Secret): Secret | null {
  if (!URL.canParse(url.reveal())) return null;
  const { password, searchParams } = new URL(url.reveal());
  const text = password === '' ? (searchParams.get('password') ?? '') : decoded(password);
  return text === '' ? null : new Secret(text);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a bare percent sign
  }
}

/** A running scheduler, worker or both: its parts are opened in order and closed in reverse. */
class Service {
  readonly #opened: { close(): Promise<void> }[] = [];
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
      freshness: async () => (this.#app === null ? [] : await this.#app.store.sellers.freshness()),
      audits: async () => (this.#app === null ? [] : await this.#app.store.audits.backlogs()),
    });
  }

  /** Opens all parts; after an error or an abort, closes those that were opened. */
  async start(signal: AbortSignal): Promise<void> {
    try {
      await unlessAborted(this.#open(signal), signal);
    } catch (error) {
      await this.#close();
      throw error;
    }
  }

  /** Stops in order, within the time that the settings give it. */
  async stop(): Promise<void> {
    this.log.info('stopping; a second signal ends it at once');
    await this.#close();
    this.log.info('stopped');
  }

  async #open(signal: AbortSignal): Promise<void> {
    const app = await this.#openApp(signal);
    const queues = await this.#openQueues(app);
    const health = await this.#listen(app, queues);
    const metrics = this.#metrics;
    const service = startService(app, queues, this.roles, this.log, {
      onJob: (event) => metrics.onJob(event),
      onVerdict: (seller, verdict) => metrics.onVerdict(seller, verdict),
    });
    this.#opened.push({ close: () => service.stop() });
    // Opened after the service, so closed before it: a worker that takes no new jobs must not look alive.
    const { sellers } = this.config;
    const schedules = this.roles.scheduler ? schedulesOf(sellers).map(asFired) : [];
    const heartbeat = startHeartbeat(app.store.processes, rolesIn(this.roles), this.log, schedules);
    this.#opened.push({ close: () => heartbeat.stop() });
    this.log.info('service started', {
      command: this.name,
      queue: queues.backend,
      sellers: sellers.length === 1 ? sellers[0]?.name : sellers.length,
      health: health?.url ?? 'off',
    });
  }

  async #close(): Promise<void> {
    this.#stopping = true;
    for (const part of this.#opened.splice(0).toReversed()) {
      // The process ends soon: an error while closing one part must not leave the others open.
      await part.close().catch(() => undefined);
    }
  }

  async #openApp(signal: AbortSignal): Promise<App> {
    const metrics = this.#metrics;
    this.#app = await openApp(this.config, this.name, signal, {
      onCall: (seller, call) => metrics.onCall(seller, call),
      onRun: (seller, event) => metrics.onRun(seller, event),
    });
    this.#opened.push(this.#app);
    return this.#app;
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
    this.#opened.push(this.#queues);
    return this.#queues;
  }

  async #listen(app: App, queues: Queues): Promise<{ readonly url: string } | null> {
    const { health } = this.config;
    if (health === null) return null;
    const server = await startHealthServer({
      listen: health,
      checks: checksOf(app, queues, () => this.#stopping),
      metrics: () => this.#metrics.text(),
      log: this.log,
    });
    this.#opened.push(server);
    return server;
  }
}

/** The roles that a process has, by name. */
function rolesIn(roles: Roles): readonly string[] {
  return Object.entries(roles).flatMap(([name, has]) => (has === true ? [name] : []));
}

function asFired({ seller, kind, cron, timeZone }: FiredSchedule): FiredSchedule {
  return { seller, kind, cron, timeZone };
}
