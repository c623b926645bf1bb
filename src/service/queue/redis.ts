import { randomUUID } from 'node:crypto';
import { Cluster, Redis, type ClusterOptions, type RedisOptions } from 'ioredis';
import { createRedisBackend } from 'bullmq';
import type { RedisTarget } from '../../domain/redis-target.js';
import { withTimeout } from '../concurrency.js';
import { commandError, type QueueSettings, type Server } from './connection.js';
import { errorText, QueueError, type OutageLog } from './errors.js';
import type { Tuning } from './tuning.js';

/** Omits an option that the driver declares with contradictory types. */
type Options = Omit<RedisOptions, 'replyMapping'>;

/** The queue in Redis or Valkey. Uses one connection (in a cluster, one per node), plus one per worker. */
export function redisServer(
  target: RedisTarget,
  { applicationName, prefix, log, tuning }: QueueSettings,
  outages: OutageLog,
): Server {
  const client = openClient(target, applicationName, tuning);
  // BullMQ's workers wait for jobs on copies of the client. A command there may take `blockMs` longer.
  const blockingTuning = { ...tuning, commandMs: tuning.blockMs + tuning.commandMs };
  // They have a name by which `getWorkers` finds them; a cluster gets its options second.
  const duplicate = (
    options?: { readonly connectionName?: string },
    cluster?: { readonly redisOptions?: { readonly connectionName?: string } },
  ): Redis | Cluster => {
    const { connectionName } = { ...options, ...cluster?.redisOptions };
    const name = connectionName ?? applicationName;
    const copy = openClient(target, name, blockingTuning);
    copy.on('error', () => undefined); // the client's own listener logs the same error
    return copy;
  };
  Object.assign(client, { duplicate });
  let lastError: string | null = null;
  let closing = false;
  const where = `the queue in ${describeTarget(target)}`;
  // The reason why a client is not ready is reported only here.
  client.on('error', (error: Error) => {
    lastError = errorText('lastNodeError' in error ? error.lastNodeError : error);
    if (!closing) outages.failed(`${where}: ${lastError}`);
  });
  client.on('ready', () => {
    lastError = null;
  });
  const unreachable = (): QueueError =>
    new QueueError(
      `${where}: ${lastError ?? 'the server did not answer'}`,
      'Check REDIS_URL, and that the server is running and accepts connections from this machine.',
    );
  return {
    backend: 'redis',
    connection: client,
    factory: createRedisBackend as Server['factory'],
    reach: async () => {
      // The driver should never give up. If it did anyway, reconnect.
      if (client.status === 'end' && !closing) client.connect().catch(() => undefined);
      if (!(await becomesReady(client, tuning.connectMs))) throw unreachable();
    },
    prepare: async () => {
      await tryCommands(client, prefix, where);
      for (const warning of await warningsOf(client)) log.warn(`${where}: ${warning}`);
    },
    // Writes, because a full server, a replica and any node of a cluster would answer PING.
    ping: async () => {
      await client.set(`{${prefix}}:ping`, applicationName, 'EX', 60);
    },
    explain: (error) => (client.status === 'ready' ? commandError(where, error) : unreachable()),
    close: async () => {
      closing = true;
      if (client.status === 'ready') {
        await withTimeout(tuning.commandMs, client.quit()).catch(() => undefined);
      }
      client.disconnect();
    },
  };
}

/** Host, port and name of a target, without secrets. */
function describeTarget({ mode, nodes, masterName, database }: RedisTarget): string {
  const places = nodes.map(({ host, port }) => `${host}:${port}`).join(', ');
  if (mode === 'cluster') return `the Redis cluster at ${places}`;
  if (mode === 'sentinel') return `Redis "${masterName ?? ''}" of the sentinels at ${places}`;
  return database === 0 ? `Redis at ${places}` : `Redis at ${places}, database ${database}`;
}

/** Resolves to true when the client is ready, to false after `ms`. */
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
      // Keep host names instead of resolving them: certificates of managed clusters are for names.
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
    // Fail pending commands at once when a connection breaks. The server may have run them, so the callers
    // decide whether to repeat them.
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    retryStrategy: pause,
  });
}

const keepName: NonNullable<ClusterOptions['dnsLookup']> = (host, callback) => {
  callback(null, host);
};

function nodeOptions(
  { mode, username, password, tls }: RedisTarget,
  applicationName: string,
  { connectMs, commandMs }: Tuning,
): Options {
  const isSentinel = mode === 'sentinel';
  return {
    ...(username === null ? {} : { username }),
    ...(password === null ? {} : { password: password.reveal() }),
    ...(tls ? { tls: {} } : {}),
    connectionName: applicationName.replaceAll(/\s+/g, '-'),
    connectTimeout: connectMs,
    keepAlive: 10_000,
    // The check asks INFO, and the driver prints to the terminal if the user may not run it. Sentinels need it, to
    // recognise a master. While a server loads its data, commands fail and are repeated.
    enableReadyCheck: isSentinel,
    // Drop the connection if the server stops answering. A command that waits for a connection fails a bit later.
    socketTimeout: commandMs,
    commandTimeout: commandMs + 500,
    // The node became a replica: reconnect to the new master and resend the command (2).
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
    // No `failoverDetector`: with it, the client gives up for good if a failover is announced while it looks
    // for the master. Timeouts and the check of the master's role detect failovers too.
  };
}

/**
 * Runs each kind of command that BullMQ needs on keys of our own, and removes them. A server that answers PING may refuse
 * some to its user.
 * @throws {QueueError} that names the refused command
 */
async function tryCommands(client: Redis | Cluster, prefix: string, where: string): Promise<void> {
  const id = randomUUID();
  const keys = ['key', 'stream', 'set'].map((name) => `{${prefix}}:doctor:${id}:${name}`);
  const [key = '', stream = '', set = ''] = keys;
  const kinds: readonly (readonly [string, () => Promise<unknown>])[] = [
    ['write keys (SET)', () => client.set(key, '1', 'EX', 60)],
    ['run scripts (EVAL)', () => client.eval('return redis.call("GET", KEYS[1])', 1, key)],
    ['add to streams (XADD)', () => client.xadd(stream, '*', 'field', 'value')],
    ['add to sorted sets (ZADD)', () => client.zadd(set, 0, 'member')],
    ['wait for jobs (BZPOPMIN)', () => client.bzpopmin(set, 1)],
    ['delete keys (DEL)', () => client.del(keys)],
  ];
  try {
    for (const [what, run] of kinds) {
      await run().catch((error: unknown) => {
        const reason = errorText(error);
        if (!/^(?:NOPERM|ERR unknown command|ERR .*not allowed)/.test(reason)) throw error;
        throw new QueueError(
          `${where}: its user may not ${what}`,
          `Allow it, for example with ACL SETUSER the_user +@all ~{${prefix}}:*`,
        );
      });
    }
  } catch (error) {
    await client.del(keys).catch(() => undefined);
    throw error;
  }
}

/** The oldest Redis with all commands that BullMQ uses. */
const OLDEST_VERSION = '6.2';

/**
 * Warns about server settings that can lose jobs. Settings missing from the report cause no warning.
 * @param info the reply to INFO
 */
export function warningsIn(info: string): string[] {
  const fact = (name: string): string | undefined =>
    new RegExp(`^${name}:(.*)`, 'm').exec(info)?.[1]?.trim();
  const warnings: string[] = [];
  const version = fact('redis_version');
  if (version !== undefined && version.localeCompare(OLDEST_VERSION, 'en', { numeric: true }) < 0) {
    warnings.push(`version ${version} is too old; at least ${OLDEST_VERSION} is required`);
  }
  const policy = fact('maxmemory_policy');
  if (policy !== undefined && policy !== 'noeviction') {
    warnings.push(`maxmemory-policy is ${policy}, which may delete jobs; set it to noeviction`);
  }
  if (fact('aof_enabled') === '0') {
    warnings.push('appendonly is off, so a crash may lose the latest jobs; set it to yes');
  }
  return warnings;
}

/** The warnings about all masters. */
async function warningsOf(client: Redis | Cluster): Promise<string[]> {
  const nodes = client instanceof Cluster ? client.nodes('master') : [client];
  const warnings = await Promise.all(nodes.map((node) => node.info().then(warningsIn, unchecked)));
  return [...new Set(warnings.flat())];
}

function unchecked(error: unknown): string[] {
  return [
    `its version and settings can’t be checked, because INFO failed (${errorText(error)}); version ${OLDEST_VERSION}, maxmemory-policy noeviction and appendonly yes are needed`,
  ];
}
