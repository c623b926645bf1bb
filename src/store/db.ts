import type { Pool } from 'pg';
import type { PrismaClient } from './generated/prisma/client.js';
import type { WatchTimes } from './locks.js';
import { createPools, STORE_TIMES, type StoreTimes } from './pools.js';

/** The mirror's database. The functions that read and write it take it as their first argument. */
export interface Db {
  /** Connection URL with password; never log it. */
  readonly url: string;
  /** Connections for ordinary statements. */
  readonly pool: Pool;
  /** Connections that hold locks, and that run long statements. */
  readonly locks: Pool;
  readonly times: WatchTimes;
  /** Prisma Client on `pool`, which is loaded when it is used first. */
  prisma(): Promise<PrismaClient>;
  /** Closes all connections; those that don't close within `closeMs` are cut off. */
  close(): Promise<void>;
}

/**
 * Opens the database. Connects on first use.
 * @param url a PostgreSQL connection URL; the schema must be migrated before use
 */
export function openDb(url: string, applicationName: string, times: StoreTimes = STORE_TIMES): Db {
  const { general, locks } = createPools(url, applicationName, times);
  let prisma: Promise<PrismaClient> | null = null;
  return {
    url,
    pool: general.pool,
    locks: locks.pool,
    times: times.watch,
    prisma: () => (prisma ??= loadPrisma(general.pool)),
    async close() {
      await (await prisma)?.$disconnect();
      await Promise.all([locks.end(times.closeMs), general.end(times.closeMs)]);
    },
  };
}

/** Prisma takes 0.45 s and 80 MB, which most runs and audits don't need. */
async function loadPrisma(pool: Pool): Promise<PrismaClient> {
  const { openPrisma } = await import('./prisma.js');
  return openPrisma(pool);
}
