import type { Pool, PoolClient } from 'pg';
import { StoreConnectionError } from './errors.js';
import type { PrismaClient } from './generated/prisma/client.js';

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

/** A slow list leaves the connection idle, within the transaction too; a server's limits must not end it. */
const NO_TIMEOUTS = `
  SELECT set_config('statement_timeout', '0', false), set_config('idle_session_timeout', '0', false),
         set_config('idle_in_transaction_session_timeout', '0', false)`;

const LOCK_KEY = `hashtextextended('${LOCK_PREFIX}' || $1, 0)`;

/**
 * Takes the seller's advisory lock, without waiting.
 * @throws {SellerBusyError} when another run holds it, naming the holder
 */
export async function lockSeller(pool: Pool, sellerId: string): Promise<SellerLock> {
  const client = await pool.connect();
  // The loss of the connection fails the next query; unheard, it would end the process.
  let lost = false;
  const onLoss = (): void => {
    lost = true;
  };
  client.on('error', onLoss);
  try {
    await client.query(NO_TIMEOUTS);
    const { rows } = await client.query<{ locked: boolean }>(
      `SELECT pg_try_advisory_lock(${LOCK_KEY}) AS locked`,
      [sellerId],
    );
    if (rows[0]?.locked !== true) throw await busy(client, sellerId);
  } catch (error) {
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
      }
    },
  };
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
