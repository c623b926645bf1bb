import { Pool, type PoolConfig } from 'pg';
import type { LockPools } from './advisory-lock.js';
import type { PrismaClient } from './generated/prisma/client.js';
import { WATCH_TIMES, type WatchTimes } from './lock-watch.js';

/** How long the database may take for what; milliseconds. */
export interface StoreTimes {
  /** To connect. */
  readonly connectMs: number;
  /** For an ordinary statement. Those of runs may take any time, and are watched instead. */
  readonly queryMs: number;
  /** To say goodbye. */
  readonly closeMs: number;
  readonly watch: WatchTimes;
}

export const STORE_TIMES: StoreTimes = {
  connectMs: 30_000,
  queryMs: 60_000,
  closeMs: 5_000,
  watch: WATCH_TIMES,
};

/** Far above the runs that one process has at a time; each has a connection as long as it lasts. */
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

/** @param url a PostgreSQL connection URL */
export function createPools(url: string, applicationName: string, times: StoreTimes): Pools {
  const sockets = new Set<{ destroy(): void }>();
  const create = (config: PoolConfig): Pool => {
    const pool = new Pool({
      connectionString: url,
      application_name: applicationName,
      connectionTimeoutMillis: times.connectMs,
      keepAlive: true,
      ...config,
    });
    // A connection that breaks while idle is replaced at the next use; without a listener it would
    // end the process.
    pool.on('error', () => undefined);
    pool.on('connect', (client) => {
      // Nor may one that breaks between two statements of its user: the next of them fails.
      client.on('error', () => undefined);
      const { stream } = client.connection;
      sockets.add(stream);
      stream.once('close', () => sockets.delete(stream));
    });
    return pool;
  };
  const others = create({ max: 10, query_timeout: times.queryMs });
  const locks = create({ max: MOST_LOCKS });
  return {
    locks,
    others,
    times: times.watch,
    async end() {
      // Those that are not gone by then would keep the process alive.
      setTimeout(() => sockets.forEach((socket) => socket.destroy()), times.closeMs).unref();
      await Promise.all([locks.end(), others.end()]);
    },
  };
}
