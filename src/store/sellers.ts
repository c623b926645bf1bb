import type { Pool } from 'pg';
import { type Connections, inTransaction } from './pools.js';

/** The account a seller's key was first seen to open, and where. */
export interface Binding {
  /** Null until the key was first proven. */
  readonly username: string | null;
  /** Host of the marketplace, without `www.`. */
  readonly marketplace: string;
}

// These are asked by every command and worker. Plain SQL, since Prisma's first query takes 60 MB.

/** Enters a configured seller when it is new; returns what it is bound to. */
export async function ensureSeller(
  pool: Pool,
  sellerId: string,
  marketplace: string,
): Promise<Binding> {
  const known = await bindingOf(pool, sellerId);
  if (known !== null) return known;
  await pool.query(
    `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ($1, $2)
     ON CONFLICT (seller_id) DO NOTHING`,
    [sellerId, marketplace],
  );
  return (await bindingOf(pool, sellerId)) ?? { username: null, marketplace };
}

/** What a seller is bound to; null when the store has never seen the seller. */
export async function bindingOf(pool: Pool, sellerId: string): Promise<Binding | null> {
  const { rows } = await pool.query<Binding>(
    'SELECT bound_username AS username, marketplace FROM mirror.sellers WHERE seller_id = $1',
    [sellerId],
  );
  return rows[0] ?? null;
}

/** Remembers which account of which marketplace belongs to a seller. */
export async function bindSeller(
  pool: Pool,
  sellerId: string,
  { username, marketplace }: Binding,
): Promise<void> {
  await pool.query(
    `UPDATE mirror.sellers SET bound_username = $2, marketplace = $3, bound_at = now()
      WHERE seller_id = $1`,
    [sellerId, username, marketplace],
  );
}

/** Why schedules leave a seller alone. */
export interface Parking {
  readonly since: Date;
  /** Code of the problem that only a person can mend. */
  readonly code: string;
  readonly reason: string;
  /** The run that met it. */
  readonly runId: bigint;
}

/** The parking of a seller as its row tells it; null when it is not parked. */
export function parkingIn(seller: {
  readonly parkedAt: Date | null;
  readonly parkedCode: string | null;
  readonly parkedReason: string | null;
  readonly parkedRunId: bigint | null;
}): Parking | null {
  const { parkedAt: since, parkedCode: code, parkedReason: reason, parkedRunId: runId } = seller;
  if (since === null || code === null || reason === null || runId === null) return null;
  return { since, code, reason, runId };
}

/** Whether and why schedules leave a seller alone; null when they don't. */
export async function parkingOf(pool: Pool, sellerId: string): Promise<Parking | null> {
  const { rows } = await pool.query<{
    readonly parked_at: Date | null;
    readonly parked_code: string | null;
    readonly parked_reason: string | null;
    readonly parked_run_id: string | null;
  }>(
    `SELECT parked_at, parked_code, parked_reason, parked_run_id
       FROM mirror.sellers WHERE seller_id = $1`,
    [sellerId],
  );
  const row = rows[0];
  if (row === undefined) return null;
  return parkingIn({
    parkedAt: row.parked_at,
    parkedCode: row.parked_code,
    parkedReason: row.parked_reason,
    parkedRunId: row.parked_run_id === null ? null : BigInt(row.parked_run_id),
  });
}

/**
 * Parks a seller because of what a run met, unless a later run went well: then it is over already.
 * One that is parked already stays so since then, for the newer reason.
 * @returns whether the seller was not parked before and is now
 */
export async function parkSeller(
  pool: Pool,
  sellerId: string,
  { code, reason, runId }: Omit<Parking, 'since'>,
): Promise<boolean> {
  return inTransaction(pool, async (client) => {
    // `finishRun` writes this row too: the statement after this one sees what it has written.
    const { rows } = await client.query<{ parked: boolean }>(
      `SELECT parked_at IS NOT NULL AS parked FROM mirror.sellers WHERE seller_id = $1 FOR UPDATE`,
      [sellerId],
    );
    const { rowCount } = await client.query(
      `UPDATE mirror.sellers
          SET parked_at = coalesce(parked_at, now()), parked_code = $2, parked_reason = $3,
              parked_run_id = $4
        WHERE seller_id = $1 AND NOT EXISTS (
          SELECT FROM mirror.runs r
           WHERE r.seller_id = $1 AND r.run_id > $4 AND r.kind IN ('account', 'items')
             AND r.state IN ('succeeded', 'held'))`,
      [sellerId, code, reason, runId],
    );
    return rowCount === 1 && rows[0]?.parked === false;
  });
}

/** From when on a seller's history is whole; null when nothing of it was ever deleted. */
export async function historySince(pool: Pool, sellerId: string): Promise<Date | null> {
  const { rows } = await pool.query<{ since: Date | null }>(
    'SELECT history_since AS since FROM mirror.sellers WHERE seller_id = $1',
    [sellerId],
  );
  return rows[0]?.since ?? null;
}

/** Deletes all that the store holds of a seller. The mirror itself never does; the demo starts afresh with it. */
export async function forgetSeller({ prisma }: Connections, sellerId: string): Promise<void> {
  const where = { where: { sellerId } };
  await prisma.$transaction([
    prisma.auditEntry.deleteMany(where),
    prisma.auditCode.deleteMany(where),
    prisma.auditChunk.deleteMany(where),
    prisma.audit.deleteMany(where),
    prisma.codeTransition.deleteMany(where),
    prisma.codeCheck.deleteMany(where),
    prisma.purchaseCode.deleteMany(where),
    prisma.itemLookup.deleteMany(where),
    prisma.itemChange.deleteMany(where),
    prisma.itemVersion.deleteMany(where),
    prisma.accountVersion.deleteMany(where),
    prisma.quarantinedRecord.deleteMany(where),
    prisma.schedule.deleteMany(where),
    prisma.run.deleteMany(where),
    prisma.item.deleteMany(where),
    prisma.account.deleteMany(where),
    prisma.seller.deleteMany(where),
  ]);
}
