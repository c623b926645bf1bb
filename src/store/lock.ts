import type { PoolClient } from 'pg';
import { type HeldLock, type LockPools, tryLock } from './advisory-lock.js';

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
export interface SellerLock extends HeldLock {
  readonly sellerId: string;
}

const LOCK_PREFIX = 'seller-mirror/seller/';

/** SQL: whether a run works for a seller now. @param seller SQL of the seller's name */
export const sellerIsLocked = (seller: string): string => `EXISTS (
       SELECT FROM pg_locks
        WHERE locktype = 'advisory' AND granted AND objsubid = 1
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND (classid::bigint << 32) | objid::bigint
              = hashtextextended('${LOCK_PREFIX}' || ${seller}, 0))`;

/** @throws {SellerBusyError} when another run holds the lock, naming the holder */
export async function lockSeller(pools: LockPools, sellerId: string): Promise<SellerLock> {
  const lock = await tryLock(pools, LOCK_PREFIX + sellerId, (client) => busy(client, sellerId));
  return { sellerId, ...lock };
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

/**
 * SQL of a call of this advisory lock function on the lock of a seller's items. A run shares it while
 * its transaction writes them, since it finds rows by their place, and who moves rows without being a
 * run takes it alone. The lock of the seller is another one: it is held for as long as a run lasts.
 * @param seller SQL of the seller's name
 */
export function itemsLockSql(lockFunction: string, seller: string): string {
  return `${lockFunction}(hashtextextended('seller-mirror/items/' || ${seller}, 0))`;
}
