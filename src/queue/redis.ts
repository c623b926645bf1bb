import { Cluster, Redis, type ClusterOptions, type RedisOptions } from 'ioredis';
import { createRedisBackend } from 'bullmq';
import type { RedisTarget } from '../domain/redis-target.js';
import { within } from './concurrency.js';
import { refusal, type QueueSettings, type Server } from './connection.js';
import { QueueError, wordsOf, type Outage } from './errors.js';
import type { Tuning } from './tuning.js';

/** Without an option whose types contradict each other in the driver. */
type Options = Omit<RedisOptions, 'replyMapping'>;

/** The queue in Redis or Valkey, on one connection (one a node in a cluster), and one for each worker. */
export function redisServer(
  target: RedisTarget,
  { applicationName, prefix, log, tuning }: QueueSettings,
  outage: Outage,
): Server {
  const client = openClient(target, applicationName, tuning);
  // BullMQ's workers wait for jobs on copies of the client, whose answers take that much longer.
  const patient = { ...tuning, commandMs: tuning.blockMs + tuning.commandMs };
  const duplicate = (): Redis | Cluster => {
    const copy = openClient(target, applicationName, patient);
    copy.on('error', () => undefined); // the client's own listener has logged it
    return copy;
  };
  Object.assign(client, { duplicate });
  let lastWords: string | null = null;
  let closing = false;
  const where = `the queue in ${shownTarget(target)}`;
  // Only this listener hears why the client is not ready.
  client.on('error', (error: Error) => {
    lastWords = wordsOf('lastNodeError' in error ? error.lastNodeError : error);
    if (!closing) outage.failed(`${where}: ${lastWords}`);
  });
  client.on('ready', () => {
    lastWords = null;
  });
  const unreachable = (): QueueError =>
    new QueueError(
      `${where}: ${lastWords ?? 'there was no answer'}`,
      'Check REDIS_URL, and that the server runs and lets this machine in.',
    );
  return {
    backend: 'redis',
    connection: client,
    factory: createRedisBackend as Server['factory'],
    reach: async () => {
      // The driver should never give up. If it did, it starts again.
      if (client.status === 'end' && !closing) client.connect().catch(() => undefined);
      if (!(await becomesReady(client, tuning.connectMs))) throw unreachable();
    },
    prepare: async () => {
      for (const warning of await warningsOf(client)) log.warn(`${where}: ${warning}`);
    },
    // Not PING: a server that is full, a replica, and any node of a cluster answer it too.
    ping: async () => {
      await client.set(`{${prefix}}:ping`, applicationName, 'EX', 60);
    },
    explain: (error) => (client.status === 'ready' ? refusal(where, error) : unreachable()),
    close: async () => {
      closing = true;
      if (client.status === 'ready') {
        await within(tuning.commandMs, client.quit()).catch(() => undefined);
      }
      client.disconnect();
    },
  };
}

/** Hosts, ports and names of a target, without any secret. */
function shownTarget({ mode, nodes, masterName, database }: RedisTarget): string {
  const places = nodes.map(({ host, port }) => `${host}:${port}`).join(', ');
  if (mode === 'cluster') return `the Redis cluster at ${places}`;
  if (mode === 'sentinel') return `Redis "${masterName ?? ''}" of the sentinels at ${places}`;
  return database === 0 ? `Redis at ${places}` : `Redis at ${places}, database ${database}`;
}

/** Whether the client is ready, or is so within `ms`. */
function becomesReady(client: Redis | Cluster, ms: number): Promise<boolean> {
  if (client.status === 'ready') return Promise.resolve(true);
  return new Promise((resolve) => {
    const end = (ready: boolean): void => {
      clearTimeout(timer);
      client.off('ready', onReady);
      resolve(ready);
    };
    const onReady = (): void => end(true);
    const timer = setTimeout(() => end(false), ms);
    client.on('ready', onReady);
  });
}

function openClient(target: RedisTarget, applicationName: string, tuning: Tuning): Redis | Cluster {
  const node = nodeOptions(target, applicationName, tuning);
  const pause = (times: number): number => Math.min(100 * 2 ** Math.min(times, 10), tuning.retryMs);
  if (target.mode === 'cluster') {
    return new Cluster([...target.nodes], {
      redisOptions: node,
      enableOfflineQueue: false,
      clusterRetryStrategy: pause,
      slotsRefreshTimeout: tuning.connectMs,
      // Certificates of managed clusters are for names, which a look-up here would turn into numbers.
      ...(target.tls ? { dnsLookup: keepName } : {}),
    });
  }
  const [first] = target.nodes;
  const place =
    target.mode === 'sentinel' ? sentinelOptions(target, pause, tuning.connectMs) : { ...first };
  return new Redis({
    ...node,
    ...place,
    db: target.database,
    enableOfflineQueue: false,
    // Commands under way fail at once when a connection breaks: nobody knows whether the server ran
    // them, and the callers decide whether to give them again.
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    retryStrategy: pause,
  });
}

const keepName: NonNullable<ClusterOptions['dnsLookup']> = (host, callback) => {
  callback(null, host);
};

function nodeOptions(
  { username, password, tls }: RedisTarget,
  applicationName: string,
  { connectMs, commandMs }: Tuning,
): Options {
  return {
    ...(username === null ? {} : { username }),
    ...(password === null ? {} : { password: password.reveal() }),
    ...(tls ? { tls: {} } : {}),
    connectionName: applicationName.replaceAll(/\s+/g, '-'),
    connectTimeout: connectMs,
    keepAlive: 10_000,
    // A connection that takes commands and never answers is dropped and opened again; a command
    // without a connection fails a little later.
    socketTimeout: commandMs,
    commandTimeout: commandMs + 500,
    // The node became a replica. Look for the new master, and send the command there.
    reconnectOnError: (error) => (error.message.includes('READONLY') ? 2 : false),
  };
}

function sentinelOptions(
  { nodes, masterName, sentinelPassword, tls }: RedisTarget,
  pause: (times: number) => number,
  connectMs: number,
): Options {
  return {
    sentinels: nodes.map(({ host, port }) => ({ host, port })),
    name: masterName ?? '',
    ...(sentinelPassword === null ? {} : { sentinelPassword: sentinelPassword.reveal() }),
    ...(tls ? { sentinelTLS: {}, enableTLSForSentinelMode: true } : {}),
    sentinelRetryStrategy: pause,
    sentinelCommandTimeout: connectMs,
    // No `failoverDetector`: with it, the client gives up for good when a failover is announced while
    // it looks for the master. Time limits and the check of the master's role notice failovers too.
  };
}

/** The oldest version of Redis that has all commands of BullMQ. */
const OLDEST = '6.2';

/**
 * Warnings about settings of a server that can lose jobs. Empty when all is well, or when the report
 * doesn't say.
 * @param info the reply to INFO
 */
export function warningsIn(info: string): string[] {
  const facts = new Map(
    info.split(/\r?\n/).map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon), line.slice(colon + 1).trim()] as const;
    }),
  );
  const warnings: string[] = [];
  const version = facts.get('redis_version');
  if (version !== undefined && version.localeCompare(OLDEST, 'en', { numeric: true }) < 0) {
    warnings.push(`it is version ${version}; at least ${OLDEST} is needed`);
  }
  const policy = facts.get('maxmemory_policy');
  if (policy !== undefined && policy !== 'noeviction') {
    warnings.push(
      `maxmemory-policy is ${policy}, so that it may throw jobs away; set it to noeviction`,
    );
  }
  if (facts.get('aof_enabled') === '0') {
    warnings.push(
      'it keeps no append-only file, so that a crash may lose the latest jobs; set appendonly yes',
    );
  }
  return warnings;
}

/** The warnings of all masters. A master that doesn't answer INFO has none. */
async function warningsOf(client: Redis | Cluster): Promise<string[]> {
  const nodes = client instanceof Cluster ? client.nodes('master') : [client];
  const infos = await Promise.all(nodes.map((node) => node.info().catch(() => '')));
  return [...new Set(infos.flatMap(warningsIn))];
}
