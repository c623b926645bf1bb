import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Pool, TypeOverrides, types, type PoolClient, type PoolConfig } from 'pg';
import { type LockPools, WATCH_TIMES, type WatchTimes } from './locks.js';
import { StoreReadOnlyError } from './errors.js';
import type { PrismaClient } from './generated/prisma/client.js';

/** How long the database may take for what; milliseconds. */
export interface StoreTimes {
  /** To connect. */
  readonly connectMs: number;
  /** For an ordinary statement. Those of runs may take any time, and are watched instead. */
  readonly queryMs: number;
  readonly closeMs: number;
  readonly watch: WatchTimes;
}

export const STORE_TIMES: StoreTimes = {
  connectMs: 30_000,
  queryMs: 60_000,
  closeMs: 5_000,
  watch: WATCH_TIMES,
};

/** Far above the runs and chunks that one process works on at a time; each has its own connection. */
const MOST_LOCKS = 1_000;

/** The connections of a store; none is opened before it is needed. */
export interface Pools extends LockPools {
  /** Ends all of them. One whose other side does not say goodbye within `closeMs` is cut off. */
  end(): Promise<void>;
}

/** Those of a store, and Prisma Client on `others`. */
export interface Connections extends LockPools {
  readonly prisma: PrismaClient;
}

/** Numbers of runs, codes and changes are bigints, as Prisma Client has them: the driver's default is text. */
const READ_AS = new TypeOverrides();
READ_AS.setTypeParser(types.builtins.INT8, BigInt);

/** @param url a PostgreSQL connection URL */
export function createPools(url: string, applicationName: string, times: StoreTimes): Pools {
  const create = (config: PoolConfig): EndablePool =>
    createPool({
      connectionString: url,
      application_name: applicationName,
      connectionTimeoutMillis: times.connectMs,
      types: READ_AS,
      ...config,
    });
  const others = create({ max: 10, query_timeout: times.queryMs });
  const locks = create({ max: MOST_LOCKS });
  return {
    locks: locks.pool,
    others: others.pool,
    times: times.watch,
    async end() {
      await Promise.all([locks.end(times.closeMs), others.end(times.closeMs)]);
    },
  };
}

export interface EndablePool {
  readonly pool: Pool;
  /** Ends the connections. Those whose other side says no goodbye within `timeoutMs` are cut off. */
  readonly end: (timeoutMs: number) => Promise<void>;
}

/** A pool whose connections may break at any time: the next statement fails, and nothing else. */
function createPool(config: PoolConfig): EndablePool {
  const sockets = new Set<{ destroy(): void }>();
  const pool = new Pool({ keepAlive: true, ...config });
  // A connection that breaks while idle is replaced at the next use; unheard, it would end the process.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => {
    client.on('error', () => undefined);
    const { stream } = client.connection;
    sockets.add(stream);
    stream.once('close', () => sockets.delete(stream));
  });
  return {
    pool,
    async end(timeoutMs) {
      // A half-open connection would keep the process alive though the pool has ended.
      setTimeout(() => sockets.forEach((socket) => socket.destroy()), timeoutMs).unref();
      const isOver = new AbortController();
      const late = sleep(timeoutMs, undefined, { signal: isOver.signal });
      await Promise.race([pool.end(), late]).finally(() => isOver.abort());
    },
  };
}

interface QueuePoolOptions {
  readonly applicationName: string;
  /** The schema in which the queue's own tables are. */
  readonly schema: string;
  /** Milliseconds to wait for a connection. */
  readonly connectMs: number;
  /** Milliseconds to wait for an answer; then the connection counts as dead and is thrown away. */
  readonly queryMs: number;
}

/**
 * For BullMQ's removal of old jobs, which looks for each in the list of those that stay: half a minute
 * for 20,000 of them when that list does not fit, which 4 MB only just does.
 */
const QUEUE_WORK_MEMORY = '32MB';

/** The queue's connections: few, beside those of the store, and never waited on for ever. */
export function createQueuePool(url: string, options: QueuePoolOptions): EndablePool {
  const { applicationName, schema, connectMs, queryMs } = options;
  const queue = createPool({
    connectionString: url,
    application_name: applicationName,
    // Three for statements (more would wait for each other in the queue's tables anyway), and one for
    // each of the three workers of a process, which listens on it for new jobs.
    max: 3 + 3,
    // Longer than the pause between two looks for stalled jobs, so that looks need no new login.
    idleTimeoutMillis: 60_000,
    connectionTimeoutMillis: connectMs,
    query_timeout: queryMs,
    // A connection that only listens learns within minutes that its server is gone.
    keepAliveInitialDelayMillis: 10_000,
    // Not as a start-up option: one in the URL would win over it, and pgbouncer refuses them.
    // oxlint-disable-next-line typescript/no-misused-promises -- the pool awaits it; its types don't tell
    onConnect: async (client) => {
      await client.query(
        `SELECT set_config('search_path', $1, false), set_config('statement_timeout', $2, false),
                set_config('idle_in_transaction_session_timeout', $2, false),
                set_config('work_mem', $3, false)`,
        [schema, String(2 * queryMs), QUEUE_WORK_MEMORY],
      );
    },
  });
  // Every queue object adds a listener of its own.
  queue.pool.setMaxListeners(0);
  return queue;
}

/** @param name of the command, which the server shows @param signal cuts the connection off */
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

/** A connection of its own, and what ends it: at once when a query is under way. */
export interface OwnClient {
  readonly client: Client;
  readonly end: () => Promise<void>;
}

/** @param name of the command, which the server shows @param signal cuts the connection off */
export async function openOwnClient(
  url: string,
  name: string,
  signal: AbortSignal,
): Promise<OwnClient> {
  const client = new Client({ connectionString: url, application_name: `seller-mirror ${name}` });
  // The loss of the connection fails the query under way; unheard, it would end the process.
  client.on('error', () => undefined);
  await client.connect();
  const abort = (): void => void client.end();
  signal.addEventListener('abort', abort, { once: true });
  // A query whose caller is gone ends within a second. Not every system can notice.
  await client.query('SET client_connection_check_interval = 1000').catch(() => undefined);
  return {
    client,
    async end() {
      signal.removeEventListener('abort', abort);
      await client.end().catch(() => undefined);
    },
  };
}

/**
 * Does some work in one transaction, on a connection that is lost, and the transaction with it, when
 * the work fails. The isolation level is READ COMMITTED even where the server's default is another.
 * @param settings statements that set something for this transaction
 */
export async function inTransaction<T>(
  pool: Pool,
  work: (client: PoolClient) => Promise<T>,
  settings = '',
): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query(`BEGIN ISOLATION LEVEL READ COMMITTED;${settings}`);
    const result = await work(client);
    await client.query('COMMIT');
    client.release();
    return result;
  } catch (error) {
    client.release(true);
    throw error;
  }
}

/**
 * Asks the database whether it takes writes: after a failover, the former primary may answer and refuse
 * them.
 * @throws {StoreReadOnlyError} when it takes none; whatever the driver throws when there is no answer
 */
export async function assertWritable(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ transaction_read_only: string }>(
    'SHOW transaction_read_only',
  );
  if (rows[0]?.transaction_read_only !== 'on') return;
  throw new StoreReadOnlyError(
    'the database takes no writes',
    'Name the primary in DATABASE_URL, and look for default_transaction_read_only in its settings.',
  );
}

/** A database as the role of its URL sees it. */
export interface DatabaseLook {
  readonly version: string;
  readonly bytes: number;
  readonly role: string;
  /** A standby, or set to be read only. */
  readonly isReadOnly: boolean;
  readonly mayCreateSchemas: boolean;
  /** False: it may not write to a table of the mirror that is there. */
  readonly mayWrite: boolean;
  readonly hasQueue: boolean;
}

/** Describes a database and changes nothing. @throws {Error} of the driver */
export function describeDatabase(url: string, signal: AbortSignal): Promise<DatabaseLook> {
  return withOwnClient(url, 'doctor', signal, async (client) => {
    const { rows } = await client.query<Omit<DatabaseLook, 'bytes'> & { bytes: string }>(
      `SELECT current_setting('server_version') AS version, current_user AS role,
              pg_database_size(current_database()) AS bytes,
              current_setting('transaction_read_only') = 'on' AS "isReadOnly",
              has_database_privilege(current_database(), 'CREATE') AS "mayCreateSchemas",
              to_regnamespace('bullmq') IS NOT NULL AS "hasQueue",
              NOT EXISTS (
                SELECT FROM pg_class
                 WHERE relnamespace = to_regnamespace('mirror') AND relkind = 'r'
                   AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
                            AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))
              ) AS "mayWrite"`,
    );
    const [look] = rows;
    if (look === undefined) throw new Error('the server did not say what it is');
    return { ...look, bytes: Number(look.bytes) };
  });
}
