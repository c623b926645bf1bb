import { setTimeout as sleep } from 'node:timers/promises';
import { createRedisBackend } from 'bullmq';
import { Redis, type RedisOptions } from 'ioredis';
import type { RedisTarget } from '../../domain/redis-target.js';
import { isUserError, UserError } from '../../domain/user-error.js';
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
  // Writes, because a full server and a replica would answer PING; in a script, as BullMQ does.
  const ping = async (): Promise<void> => {
    const script = `return redis.call('SET', KEYS[1], ARGV[1], 'EX', 60)`;
    await forQueues.eval(script, 1, `{${prefix}}:ping`, applicationName);
  };
  return {
    backend: 'redis',
    forQueues,
    get forWorkers() {
      return (forWorkers ??= open({ maxRetriesPerRequest: null }));
    },
    factory: createRedisBackend as Server['factory'],
    prepare: async () => {
      const until = performance.now() + times.connectMs;
      while (forQueues.status !== 'ready' && performance.now() < until) await sleep(20);
      // A server that lacks the database would take the jobs into database 0. Database 0 needs no right to select one.
      if (target.database !== 0) await forQueues.select(target.database);
      await ping();
      for (const warning of await warningsOf(forQueues)) log.warn(`${where}: ${warning}`);
    },
    ping,
    explain: (error) =>
      explain(where, forQueues.status === 'ready' ? error : (lastError ?? NO_ANSWER)),
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

const NO_ANSWER = new Error('the server did not answer');

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

/** What servers say, what it means (null: just that), and what to do. */
const FAULTS: readonly (readonly [RegExp, string | null, string])[] = [
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
    /^NOPERM|ACL failure in script|user executing the script/,
    'its user may not do all that a queue needs',
    'Allow it, for example with ACL SETUSER the_user +@all ~*.',
  ],
  [
    /out of range|invalid DB index/i,
    'the server has no such database',
    'Write a smaller number at the end of REDIS_URL, or raise `databases` in the settings of the server.',
  ],
  [
    /\bREADONLY\b/,
    'it is a read-only replica',
    'Name the server that takes writes in REDIS_URL; after a failover, the new one.',
  ],
  [
    /\bOOM\b/,
    'its memory is full, so that it takes no jobs',
    'Raise maxmemory, or give the queue a server of its own. Nothing is lost: what is due is found in the database.',
  ],
  [
    /\bMISCONF\b/,
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
  [
    /ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|closed|did not answer/i,
    null,
    'Check REDIS_URL (rediss:// is for ports with TLS, redis:// for those without), and that the server is running and accepts connections from this machine.',
  ],
];

function explain(where: string, error: unknown): UserError {
  if (isUserError(error, 'QUEUE')) return error;
  const text = errorText(error);
  const [, meaning, remedy] = FAULTS.find(([pattern]) => pattern.test(text)) ?? [];
  if (remedy === undefined) return commandError(where, error);
  return new UserError(`${where}: ${meaning ? `${meaning} (${text})` : text}`, remedy, 'QUEUE');
}

/** The oldest Redis with all commands that BullMQ uses. */
const OLDEST_VERSION = '6.2';

/** Warns about servers that are too old, or that delete keys of the queue. */
async function warningsOf(client: Redis): Promise<string[]> {
  let info: string;
  try {
    info = await client.info();
  } catch (error) {
    return [
      `its version and settings can’t be checked, because INFO failed (${errorText(error)}); version ${OLDEST_VERSION} and maxmemory-policy noeviction are needed`,
    ];
  }
  const fact = (name: string): string | undefined =>
    new RegExp(`^${name}:(.*)`, 'm').exec(info)?.[1]?.trim();
  const version = fact('redis_version') ?? OLDEST_VERSION;
  const policy = fact('maxmemory_policy') ?? 'noeviction';
  const isOld = version.localeCompare(OLDEST_VERSION, 'en', { numeric: true }) < 0;
  return [
    ...(isOld ? [`version ${version} is too old; at least ${OLDEST_VERSION} is required`] : []),
    ...(policy === 'noeviction'
      ? []
      : [`maxmemory-policy is ${policy}, which may delete jobs; set it to noeviction`]),
  ];
}
