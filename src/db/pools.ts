import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, Pool, TypeOverrides, types, type PoolConfig } from 'pg';
import { DbClient } from './connection.js';

/** Timeouts (ms). Statements of runs may take any time, and are watched instead of `queryMs`. */
const [CONNECT_MS, QUERY_MS] = [30_000, 60_000];

/** Each run and chunk holds one connection. Far more than one process works on at a time. */
const MAX_LOCKS = 1_000;

/** The pools of a database, opened on first use. */
interface Pools {
  /** For ordinary statements. */
  readonly general: EndablePool;
  /** For locks and long statements. */
  readonly locks: EndablePool;
}

/** Reads int8 as bigint, as Prisma Client does. The driver's default is text. */
const TYPE_PARSERS = new TypeOverrides();
TYPE_PARSERS.setTypeParser(types.builtins.INT8, BigInt);

/** @param url a PostgreSQL connection URL */
export function createPools(url: string, applicationName: string): Pools {
  const create = (config: PoolConfig): EndablePool =>
    createPool({
      connectionString: url,
      application_name: applicationName,
      connectionTimeoutMillis: CONNECT_MS,
      types: TYPE_PARSERS,
      ...config,
    });
  return {
    general: create({ max: 10, query_timeout: QUERY_MS }),
    locks: create({ max: MAX_LOCKS }),
  };
}

export interface EndablePool {
  readonly pool: Pool;
  /** Closes the connections; those that don't close within `timeoutMs` are cut off. */
  readonly end: (timeoutMs: number) => Promise<void>;
}

/** A pool that survives broken connections: only the next statement fails. */
function createPool(config: PoolConfig): EndablePool {
  const sockets = new Set<{ destroy(): void }>();
  const pool = new Pool({ keepAlive: true, Client: DbClient, ...config });
  // The pool replaces a broken idle connection. Without a listener its error would end the process.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => {
    const { stream } = client.connection;
    sockets.add(stream);
    stream.once('close', () => sockets.delete(stream));
  });
  return {
    pool,
    async end(timeoutMs) {
      // A half-open connection would keep the process alive after the pool has ended.
      setTimeout(() => sockets.forEach((socket) => socket.destroy()), timeoutMs).unref();
      const ended = new AbortController();
      const timeout = sleep(timeoutMs, undefined, { signal: ended.signal });
      await Promise.race([pool.end(), timeout]).finally(() => ended.abort());
    },
  };
}

/** Connections on which the server refuses every write. */
export function createReadOnlyPool(url: string, applicationName: string): EndablePool {
  return createPool({
    connectionString: url,
    application_name: applicationName,
    connectionTimeoutMillis: CONNECT_MS,
    // oxlint-disable-next-line typescript/no-misused-promises -- the pool awaits it, but its types don't say so
    onConnect: async (client) => {
      await client.query('SET default_transaction_read_only = on');
    },
  });
}

interface QueuePoolOptions {
  readonly applicationName: string;
  /** Schema of the queue's tables. */
  readonly schema: string;
  readonly connectMs: number;
  /** After this long without a reply the connection counts as dead and is closed. */
  readonly queryMs: number;
}

/**
 * For BullMQ's removal of old jobs, which looks each one up in the list of jobs to keep. If that list does
 * not fit, removing 20,000 jobs takes half a minute; the default of 4 MB is just enough.
 */
const QUEUE_WORK_MEMORY = '32MB';

/** The queue's connections, separate from the store's, with timeouts. */
export function createQueuePool(url: string, options: QueuePoolOptions): EndablePool {
  const { applicationName, schema, connectMs, queryMs } = options;
  const queue = createPool({
    connectionString: url,
    application_name: applicationName,
    // Three for statements (more would only wait for each other's locks), and one for the worker of each of
    // the four queues to listen for new jobs.
    max: 3 + 4,
    // Longer than the interval between two checks for stalled jobs, so that checks need no new login.
    idleTimeoutMillis: 60_000,
    connectionTimeoutMillis: connectMs,
    query_timeout: queryMs,
    // Lets a connection that only listens notice within minutes that its server is gone.
    keepAliveInitialDelayMillis: 10_000,
    // oxlint-disable-next-line typescript/no-misused-promises -- the pool awaits it, but its types don't say so
    onConnect: async (client) => {
      await client.query(
        `SELECT set_config('search_path', $1, false), set_config('statement_timeout', $2, false),
                set_config('idle_in_transaction_session_timeout', $2, false),
                set_config('work_mem', $3, false)`,
        [schema, String(2 * queryMs), QUEUE_WORK_MEMORY],
      );
    },
  });
  // Every queue object adds a listener.
  queue.pool.setMaxListeners(0);
  return queue;
}

/** @param name of the command, shown in pg_stat_activity @param signal closes the connection */
export async function withOwnClient<T>(
  url: string,
  name: string,
  signal: AbortSignal,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const own = await openOwnClient(url, name, signal);
  try {
    return await work(own.client);
  } finally {
    await own.end();
  }
}

/** A connection outside of the pools. */
export interface OwnClient {
  readonly client: Client;
  /** Closes it, also during a query. */
  readonly end: () => Promise<void>;
}

/** @param name of the command, shown in pg_stat_activity @param signal ends the attempt, or the connection */
export async function openOwnClient(
  url: string,
  name: string,
  signal: AbortSignal,
): Promise<OwnClient> {
  signal.throwIfAborted();
  const socket = new Socket();
  const client = new DbClient({
    connectionString: url,
    application_name: `seller-mirror ${name}`,
    connectionTimeoutMillis: CONNECT_MS,
    stream: () => socket,
  });
  const abort = (): void => void socket.destroy(new Error('interrupted'));
  signal.addEventListener('abort', abort, { once: true });
  try {
    await client.connect();
  } catch (error) {
    signal.removeEventListener('abort', abort);
    throw error;
  }
  // Ends a query within a second after its client is gone. Not supported on every system.
  await client.query('SET client_connection_check_interval = 1000').catch(() => undefined);
  return {
    client,
    async end() {
      signal.removeEventListener('abort', abort);
      await client.end().catch(() => undefined);
    },
  };
}
