import { Pool, type PoolClient } from 'pg';
import { explainDatabaseError, shownUrl, type StoreError } from './errors.js';
import { assertWritable } from './pools.js';

export interface QueuePoolOptions {
  /** Name of the sessions on the server. */
  readonly applicationName: string;
  /** The schema in which the queue's own tables are. */
  readonly schema: string;
  /** Milliseconds to wait for a connection. */
  readonly connectMs: number;
  /** Milliseconds to wait for an answer; then the connection counts as dead. */
  readonly queryMs: number;
}

/** The queue's connections to PostgreSQL: few, beside those of the store, and never waited on for ever. */
export interface QueuePool {
  readonly pool: Pool;
  /** The database without user and password. */
  readonly where: string;
  /** What an error of the driver means; null when it is not about the connection. */
  explain(error: unknown): StoreError | null;
  /** @throws {Error} when the database can't be used */
  ping(): Promise<void>;
  /** Ends the connections; those that do not end in time are cut off. */
  close(timeoutMs: number): Promise<void>;
}

/**
 * For BullMQ's removal of old jobs, which looks for each in the list of those that stay: half a minute
 * for 20,000 of them when that list does not fit, which 4 MB only just does.
 */
const WORK_MEMORY = '32MB';

/**
 * Three for statements (more would wait for each other in the queue's tables anyway), and one for
 * each of the three workers of a process, which listens on it for new jobs.
 */
const CONNECTIONS = 3 + 3;

/** Longer than the pause between two looks for stalled jobs, so that looks need no new login. */
const IDLE_MS = 60_000;

/** A connection that only listens learns within minutes that its server is gone. */
const KEEP_ALIVE_MS = 10_000;

/**
 * Opens nothing yet; connections are made when they are needed and made again when they broke. A
 * connection that says nothing within `queryMs` (its server is gone without a goodbye, or a firewall
 * forgot it) is thrown away, which is what lets the next query go through.
 */
export function openQueuePool(url: string, options: QueuePoolOptions): QueuePool {
  const { applicationName, schema, connectMs, queryMs } = options;
  const clients = new Set<PoolClient>();
  const pool = new Pool({
    connectionString: url,
    application_name: applicationName,
    max: CONNECTIONS,
    idleTimeoutMillis: IDLE_MS,
    connectionTimeoutMillis: connectMs,
    query_timeout: queryMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    // Not as a start-up option: one in the URL would win over it, and pgbouncer refuses them.
    // oxlint-disable-next-line typescript/no-misused-promises -- the pool awaits it; its types don't tell
    onConnect: async (client) => {
      await client.query(
        `SELECT set_config('search_path', $1, false), set_config('statement_timeout', $2, false),
                set_config('idle_in_transaction_session_timeout', $2, false),
                set_config('work_mem', $3, false)`,
        [schema, String(2 * queryMs), WORK_MEMORY],
      );
    },
  });
  // Broken while idle: replaced at the next use. Unheard, it would end the process.
  pool.on('error', () => undefined);
  // Every queue object adds a listener of its own.
  pool.setMaxListeners(0);
  pool.on('connect', (client) => {
    // BullMQ borrows connections without listening to them; its query fails, which is enough.
    client.on('error', () => undefined);
    clients.add(client);
    client.once('end', () => clients.delete(client));
  });
  return {
    pool,
    where: shownUrl(url),
    explain: (error) => explainDatabaseError(error, url),
    ping: () => assertWritable(pool),
    close: (timeoutMs) => endPool(pool, clients, timeoutMs),
  };
}

async function endPool(
  pool: Pool,
  clients: ReadonlySet<PoolClient>,
  timeoutMs: number,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeoutMs);
  });
  try {
    await Promise.race([pool.end(), late]);
  } finally {
    clearTimeout(timer);
    // Half-open connections never say goodbye; they would keep the process from ending.
    for (const client of clients) destroySocket(client);
  }
}

/** The driver has no public way to drop a connection without waiting for the other side. */
function destroySocket(client: PoolClient): void {
  const { connection } = client as unknown as {
    readonly connection?: { readonly stream?: { destroy(): void } };
  };
  connection?.stream?.destroy();
}
