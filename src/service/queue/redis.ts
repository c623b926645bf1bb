import { isUserError, UserError } from '../../domain/user-error.js';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis, type RedisOptions } from 'ioredis';
import { createRedisBackend } from 'bullmq';
import type { RedisTarget } from '../../domain/redis-target.js';
import { withTimeout } from '../concurrency.js';
import { commandError, errorText, type OutageLog } from './errors.js';
import type { QueueSettings, Server } from './server.js';

/**
 * The queue in Redis or Valkey. As BullMQ's documentation says, queues fail fast while the server is gone, and workers
 * wait for it.
 */
export function redisServer(
  target: RedisTarget,
  { applicationName, prefix, log, times }: QueueSettings,
  outages: OutageLog,
): Server {
  const where = `the queue in ${describeTarget(target)}`;
  let lastError: unknown = null;
  let closing = false;
  const open = (more: Partial<Options>): Redis => {
    const client = new Redis({ ...optionsOf(target, applicationName, times), ...more });
    client.on('error', (error: Error) => {
      lastError = error;
      if (!closing) outages.failed(explain(where, error).message);
    });
    client.on('ready', () => (lastError = null));
    return client;
  };
  // Fails pending commands at once when the connection breaks. The server may have run them, so that the callers decide
  // whether to repeat them.
  const forQueues = open({
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    commandTimeout: times.commandMs,
  });
  let forWorkers: Redis | null = null;
  return {
    backend: 'redis',
    forQueues,
    get forWorkers() {
      return (forWorkers ??= open({ maxRetriesPerRequest: null }));
    },
    factory: createRedisBackend as Server['factory'],
    prepare: async () => {
      if (!(await becomesReady(forQueues, times.connectMs))) {
        throw lastError === null ? noAnswer(where) : explain(where, lastError);
      }
      await tryCommands(forQueues, target, prefix, where);
      for (const warning of await warningsOf(forQueues)) log.warn(`${where}: ${warning}`);
    },
    // Writes, because a full server and a replica would answer PING.
    ping: async () => {
      await forQueues.set(`{${prefix}}:ping`, applicationName, 'EX', 60);
    },
    explain: (error) => {
      if (forQueues.status === 'ready') return explain(where, error);
      return lastError === null ? noAnswer(where) : explain(where, lastError);
    },
    close: async () => {
      closing = true;
      const clients = forWorkers === null ? [forQueues] : [forQueues, forWorkers];
      for (const client of clients) {
        if (client.status === 'ready') {
          await withTimeout(times.commandMs, client.quit()).catch(() => undefined);
        }
        client.disconnect();
      }
    },
  };
}

/** Omits an option that the driver declares with contradictory types. */
type Options = Omit<RedisOptions, 'replyMapping'>;

function optionsOf(
  { host, port, username, password, database, tls }: RedisTarget,
  applicationName: string,
  { connectMs, commandMs, blockMs, retryMs }: QueueSettings['times'],
): Options {
  return {
    host,
    port,
    db: database,
    ...(username === null ? {} : { username }),
    ...(password === null ? {} : { password: password.reveal() }),
    ...(tls ? { tls: {} } : {}),
    connectionName: applicationName.replaceAll(/\s+/g, '-'),
    connectTimeout: connectMs,
    keepAlive: 10_000,
    // The check asks INFO, and the driver prints to the terminal if the user may not run it.
    enableReadyCheck: false,
    // Drop the connection if the server stops answering. Workers wait `blockMs` for a job.
    socketTimeout: blockMs + commandMs,
    retryStrategy: (times) => Math.min(100 * 2 ** Math.min(times, 10), retryMs),
  };
}

/** Host, port and database of a target, without secrets. */
function describeTarget({ host, port, database }: RedisTarget): string {
  const place = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  return database === 0 ? `Redis at ${place}` : `Redis at ${place}, database ${database}`;
}

async function becomesReady(client: Redis, ms: number): Promise<boolean> {
  const until = performance.now() + ms;
  while (client.status !== 'ready' && performance.now() < until) await sleep(20);
  return client.status === 'ready';
}

const noAnswer = (where: string): UserError =>
  new UserError(`${where}: the server did not answer`, CHECK_ADDRESS, 'QUEUE');

const CHECK_ADDRESS =
  'Check REDIS_URL (rediss:// is for ports with TLS, redis:// for those without), and that the server is running and accepts connections from this machine.';

/** What servers say, what it means, and what to do. */
const FAULTS: readonly (readonly [RegExp, string, string])[] = [
  [
    /^(?:NOAUTH|ERR operation not permitted)/,
    'it wants a password',
    'Write it into REDIS_URL: redis://:password@host.',
  ],
  [
    /^(?:WRONGPASS|ERR invalid password|ERR AUTH)/,
    'it refused the user name or the password',
    'Correct them in REDIS_URL.',
  ],
  [
    /^READONLY/,
    'it is a read-only replica',
    'Name the server that takes writes in REDIS_URL; after a failover, the new one.',
  ],
  [
    /^OOM/,
    'its memory is full, so that it takes no jobs',
    'Raise maxmemory, or give the queue a server of its own. Nothing is lost: what is due is found in the database.',
  ],
  [
    /^MISCONF/,
    'it can’t save to its disk, so that it takes no jobs',
    'Free space on the disk of the server, and see its log.',
  ],
  [
    /Protocol error|ERR_SSL|SSL routines|wrong version number|packet length/i,
    'one side speaks TLS and the other one does not',
    'Write rediss:// for a port with TLS and redis:// for one without.',
  ],
  [
    /certificate/i,
    'its certificate is not trusted',
    'Name the file of its authority in NODE_EXTRA_CA_CERTS.',
  ],
];

function explain(where: string, error: unknown): UserError {
  if (isUserError(error, 'QUEUE')) return error;
  const text = errorText(error);
  const known = FAULTS.find(([pattern]) => pattern.test(text));
  if (known !== undefined)
    return new UserError(`${where}: ${known[1]} (${text})`, known[2], 'QUEUE');
  if (/ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|closed/i.test(text)) {
    return new UserError(`${where}: ${text}`, CHECK_ADDRESS, 'QUEUE');
  }
  return commandError(where, error);
}

/**
 * Selects the database, and runs each kind of command that BullMQ needs on keys of our own. A server that answers PING
 * may refuse some to its user; one that lacks the database would take the jobs into database 0.
 * @throws {UserError}
 */
async function tryCommands(
  client: Redis,
  { database }: RedisTarget,
  prefix: string,
  where: string,
): Promise<void> {
  // Users with few rights may not run it. Database 0 needs none.
  const selected = database === 0 ? Promise.resolve() : client.select(database);
  await selected.catch((error: unknown) => {
    if (!/out of range|invalid DB index/i.test(errorText(error))) throw explain(where, error);
    throw new UserError(
      `${where}: the server has no database ${database}`,
      'Write a smaller number at the end of REDIS_URL, or raise `databases` in the settings of the server.',
      'QUEUE',
    );
  });
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
        if (!/^(?:NOPERM|ERR unknown command|ERR .*not allowed)/.test(reason)) {
          throw explain(where, error);
        }
        throw new UserError(
          `${where}: its user may not ${what}`,
          `Allow it, for example with ACL SETUSER the_user +@all ~{${prefix}}:*`,
          'QUEUE',
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
 * Warns about servers that are too old, or that delete keys of the queue. What the report leaves out causes no warning.
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
  return warnings;
}

async function warningsOf(client: Redis): Promise<string[]> {
  return await client
    .info()
    .then(warningsIn, (error: unknown) => [
      `its version and settings can’t be checked, because INFO failed (${errorText(error)}); version ${OLDEST_VERSION} and maxmemory-policy noeviction are needed`,
    ]);
}
