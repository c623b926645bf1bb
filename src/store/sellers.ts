import type { Pool } from 'pg';
import type { PrismaClient } from './generated/prisma/client.js';
import { inTransaction } from './transaction.js';

/** The account a seller's key was first seen to open, and where. */
export interface Binding {
  /** Null until the key was first proven. */
  readonly username: string | null;
  /** Host of the marketplace, without `www.`. */
  readonly marketplace: string;
}

/** Enters a configured seller when it is new; returns what it is bound to. */
export async function ensureSeller(
  prisma: PrismaClient,
  sellerId: string,
  marketplace: string,
): Promise<Binding> {
  const known = await bindingOf(prisma, sellerId);
  if (known !== null) return known;
  // Prisma's upsert fails when another process enters the same seller at this moment.
  await prisma.seller.createMany({ data: { sellerId, marketplace }, skipDuplicates: true });
  return (await bindingOf(prisma, sellerId)) ?? { username: null, marketplace };
}

/** What a seller is bound to; null when the store has never seen the seller. */
export async function bindingOf(prisma: PrismaClient, sellerId: string): Promise<Binding | null> {
  const seller = await prisma.seller.findUnique({ where: { sellerId } });
  return seller && { username: seller.boundUsername, marketplace: seller.marketplace };
}

/** Remembers which account of which marketplace belongs to a seller. */
export async function bindSeller(
  prisma: PrismaClient,
  sellerId: string,
  binding: Binding,
): Promise<void> {
  const { username, marketplace } = binding;
  await prisma.seller.update({
    where: { sellerId },
    data: { boundUsername: username, marketplace, boundAt: new Date() },
  });
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
export async function parkingOf(prisma: PrismaClient, sellerId: string): Promise<Parking | null> {
  const seller = await prisma.seller.findUnique({ where: { sellerId } });
  return seller && parkingIn(seller);
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
           WHERE r.seller_id = $1 AND r.run_id > $4 AND r.kind <> 'item'
             AND r.state IN ('succeeded', 'held'))`,
      [sellerId, code, reason, runId],
    );
    return rowCount === 1 && rows[0]?.parked === false;
  });
}

/** Deletes all that the store holds of a seller. The mirror itself never does; the demo starts afresh with it. */
export async function forgetSeller(prisma: PrismaClient, sellerId: string): Promise<void> {
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
