import { UserError } from '../domain/user-error.js';
import type { Pool, PoolClient } from 'pg';
import { createClock, type Clock } from './clock.js';
import { onlyRow } from './connection.js';
import type { PrismaClient } from './generated/prisma/client.js';
import { createPools } from './pools.js';

/** The mirror's database. The functions that read and write it take it as their first argument. */
export interface Db {
  /** Connection URL with password; never log it. */
  readonly url: string;
  /** Connections for ordinary statements. */
  readonly pool: Pool;
  /** Connections that hold locks, and that run long statements. */
  readonly locks: Pool;
  /** The time by which moments are recorded and compared. */
  readonly clock: Clock;
  /** Prisma Client on `pool`, which is loaded when it is used first. */
  prisma(): Promise<PrismaClient>;
  /** Closes all connections; those that don't close within 5 s are cut off. */
  close(): Promise<void>;
}

const CLOSE_MS = 5_000;

/**
 * Opens the database. Connects on first use.
 * @param url a PostgreSQL connection URL; the schema must be migrated before use
 */
export function openDb(url: string, applicationName: string): Db {
  const { general, locks } = createPools(url, applicationName);
  const clock = createClock(() => readTime(general.pool));
  let prisma: Promise<PrismaClient> | null = null;
  return {
    url,
    pool: general.pool,
    locks: locks.pool,
    clock,
    prisma: () => (prisma ??= loadPrisma(general.pool)),
    async close() {
      clock.stop();
      await (await prisma)?.$disconnect();
      await Promise.all([locks.end(CLOSE_MS), general.end(CLOSE_MS)]);
    },
  };
}

async function readTime(pool: Pool): Promise<number> {
  const found = await pool.query<{ time: number }>(
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS time',
  );
  return onlyRow(found).time;
}

/** Prisma takes 0.45 s and 80 MB, which most runs and audits don't need. */
async function loadPrisma(pool: Pool): Promise<PrismaClient> {
  const { openPrisma } = await import('./prisma.js');
  return openPrisma(pool);
}

/**
 * Runs `work` in one transaction. If it fails, the connection is closed, which rolls back. The isolation
 * level is READ COMMITTED, whatever the server's default.
 * @param settings SET statements for this transaction
 */
export async function inTransaction<T>(
  { pool }: Db,
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
 * Checks that the database accepts writes. After a failover, the former primary may be reachable and
 * refuse them.
 * @throws {UserError} if it refuses them; the driver's error if there is no reply
 */
export async function assertWritable({ pool }: Pick<Db, 'pool'>): Promise<void> {
  const { rows } = await pool.query<{ transaction_read_only: string }>(
    'SHOW transaction_read_only',
  );
  if (rows[0]?.transaction_read_only !== 'on') return;
  throw new UserError(
    'the database takes no writes',
    'Point DATABASE_URL to the primary, and check default_transaction_read_only on the server.',
    'STORE_READ_ONLY',
  );
}
