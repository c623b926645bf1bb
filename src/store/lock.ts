import type { Pool, PoolClient, QueryConfig } from 'pg';
import { StoreConnectionError } from './errors.js';
import type { PrismaClient } from './generated/prisma/client.js';
import { watchConnection, type Backend, type WatchTimes } from './lock-watch.js';

/** Another run works for this seller. */
export class SellerBusyError extends Error {
  override readonly name = 'SellerBusyError';

  constructor(
    readonly sellerId: string,
    readonly holder: string,
    readonly since: Date | null,
  ) {
    super(
      `seller "${sellerId}" is being mirrored already by ${holder}` +
        (since === null ? '' : ` since ${since.toISOString()}`),
    );
  }
}

/**
 * A seller's lock, and the connection that holds it. The run writes on this connection, so that
 * losing it loses the lock and the transaction together.
 */
export interface SellerLock {
  readonly sellerId: string;
  readonly client: PoolClient;
  /** @throws {StoreConnectionError} when the connection is gone, and the lock with it */
  assertHeld(): void;
  release(): Promise<void>;
}

const LOCK_PREFIX = 'seller-mirror/seller/';

/** Whether a run works for this seller now. */
export async function isLocked(prisma: PrismaClient, sellerId: string): Promise<boolean> {
  const [row] = await prisma.$queryRaw<{ locked: boolean }[]>`
    SELECT EXISTS (
      SELECT FROM pg_locks
       WHERE locktype = 'advisory' AND granted AND objsubid = 1
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND (classid::bigint << 32) | objid::bigint
             = hashtextextended(${LOCK_PREFIX} || ${sellerId}, 0)
    ) AS locked`;
  return row?.locked === true;
}

/**
 * A slow list leaves the connection idle, within the transaction too: a server's limits must not
 * end it. A client that has vanished must: its lock is freed within two minutes. (Over a Unix
 * socket, on which nobody can vanish, the server takes no notice of the latter.)
 */
const SESSION = `
  SELECT set_config('statement_timeout', '0', false), set_config('idle_session_timeout', '0', false),
         set_config('idle_in_transaction_session_timeout', '0', false),
         set_config('tcp_keepalives_idle', '30', false),
         set_config('tcp_keepalives_interval', '10', false),
         set_config('tcp_keepalives_count', '3', false),
         set_config('tcp_user_timeout', '60000', false)`;

const BACKEND = `
  SELECT pid, extract(epoch FROM backend_start)::text AS "startedAt" FROM pg_stat_activity WHERE pid = pg_backend_pid()`;

const LOCK_KEY = `hashtextextended('${LOCK_PREFIX}' || $1, 0)`;

/** The connections that locks are held on, and those that everything else is done on. */
export interface LockPools {
  readonly locks: Pool;
  readonly others: Pool;
  readonly times: WatchTimes;
}

/**
 * Takes the seller's advisory lock, without waiting.
 * @throws {SellerBusyError} when another run holds it, naming the holder
 */
export async function lockSeller(pools: LockPools, sellerId: string): Promise<SellerLock> {
  const client = await pools.locks.connect();
  // The loss of the connection fails the next query; unheard, it would end the process.
  let lost = false;
  const onLoss = (): void => {
    lost = true;
  };
  client.on('error', onLoss);
  let endWatch = (): void => undefined;
  try {
    endWatch = await prepare(client, pools);
    const { rows } = await client.query<{ locked: boolean }>(
      `SELECT pg_try_advisory_lock(${LOCK_KEY}) AS locked`,
      [sellerId],
    );
    if (rows[0]?.locked !== true) throw await busy(client, sellerId);
  } catch (error) {
    endWatch();
    client.off('error', onLoss);
    client.release(!(error instanceof SellerBusyError));
    throw error;
  }
  return {
    sellerId,
    client,
    assertHeld() {
      if (!lost) return;
      throw new StoreConnectionError(
        'the connection to the database was cut in the middle of a run',
        'Run it again; nothing is half written.',
      );
    },
    async release() {
      try {
        await client.query(`SELECT pg_advisory_unlock(${LOCK_KEY})`, [sellerId]);
        client.off('error', onLoss);
        client.release();
      } catch {
        // The connection is gone or in doubt, and the lock goes with it.
        client.release(true);
      } finally {
        endWatch();
      }
    },
  };
}

/** Fits a connection for a run of any length; returns what ends the watch over it. */
async function prepare(client: PoolClient, { others, times }: LockPools): Promise<() => void> {
  // It may have died while it was idle, and is not watched yet.
  const { silentMs: query_timeout } = times;
  const bounded = (text: string): QueryConfig & { query_timeout: number } => ({
    text,
    query_timeout,
  });
  await client.query(bounded(SESSION));
  const { rows } = await client.query<Backend>(bounded(BACKEND));
  if (rows[0] === undefined) throw new Error('the store does not know its own session');
  return watchConnection(client, rows[0], others, times);
}

async function busy(client: PoolClient, sellerId: string): Promise<SellerBusyError> {
  const { rows } = await client.query<{ holder: string; started_at: Date }>(
    `SELECT holder, started_at FROM mirror.runs
      WHERE seller_id = $1 AND state = 'running' ORDER BY run_id DESC LIMIT 1`,
    [sellerId],
  );
  return new SellerBusyError(
    sellerId,
    rows[0]?.holder ?? 'another process',
    rows[0]?.started_at ?? null,
  );
}
