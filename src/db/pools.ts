import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, type ClientBase, Pool, TypeOverrides, types, type PoolConfig } from 'pg';
import { DbClient } from './connection.js';

/** Longest time to connect (ms). */
const CONNECT_MS = 30_000;

export interface EndablePool {
  readonly pool: Pool;
  /** Closes the connections; those that don't close within `timeoutMs` are cut off. */
  readonly end: (timeoutMs: number) => Promise<void>;
}

interface Settings extends Omit<PoolConfig, 'connectionString' | 'onConnect'> {
  readonly application_name: string;
  /** Prepares each new connection. */
  readonly onConnect?: (client: ClientBase) => Promise<unknown>;
}

/** A pool that survives broken connections: only the next statement fails. Opened on first use. */
export function createPool(url: string, settings: Settings): EndablePool {
  const sockets = new Set<{ destroy(): void }>();
  const pool = new Pool({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    Client: DbClient,
    // The pool awaits `onConnect`, but its types don't say so.
    ...(settings as PoolConfig),
  });
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

/** Reads int8 as bigint, as Prisma Client does. The driver's default is text. */
const TYPE_PARSERS = new TypeOverrides();
TYPE_PARSERS.setTypeParser(types.builtins.INT8, BigInt);

/** The connections of a process to its store. */
export function createPools(url: string, applicationName: string) {
  const common = { application_name: applicationName, types: TYPE_PARSERS };
  return {
    /** For ordinary statements. */
    general: createPool(url, { ...common, max: 10, query_timeout: 60_000 }),
    /** For locks and long statements, one for each run and chunk: far more than one process works on at a time. */
    locks: createPool(url, { ...common, max: 1_000 }),
  };
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
  const queue = createPool(url, {
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
    onConnect: (client) =>
      client.query(
        `SELECT set_config('search_path', $1, false), set_config('statement_timeout', $2, false),
                set_config('idle_in_transaction_session_timeout', $2, false),
                set_config('work_mem', $3, false)`,
        [schema, String(2 * queryMs), QUEUE_WORK_MEMORY],
      ),
  });
  // Every queue object adds a listener.
  queue.pool.setMaxListeners(0);
  return queue;
}

/**
 * Runs `work` on a connection of its own, and closes it.
 * @param name of the command, shown in pg_stat_activity
 * @param signal ends the attempt to connect, or the connection, also during a query; null: nothing does
 */
export async function withOwnClient<T>(
  url: string,
  name: string,
  signal: AbortSignal | null,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const socket = new Socket();
  const client = new DbClient({
    connectionString: url,
    application_name: `seller-mirror ${name}`,
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    stream: () => socket,
  });
  const abort = (): void => void socket.destroy(new Error('interrupted'));
  signal?.addEventListener('abort', abort, { once: true });
  try {
    await client.connect();
    // Ends a query within a second after its client is gone. Not supported on every system.
    await client.query('SET client_connection_check_interval = 1000').catch(() => undefined);
    return await work(client);
  } finally {
    signal?.removeEventListener('abort', abort);
    await client.end().catch(() => undefined);
  }
}
