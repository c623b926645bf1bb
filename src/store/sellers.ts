import type { PrismaClient } from './generated/prisma/client.js';

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
  const seller = await prisma.seller.upsert({
    where: { sellerId },
    create: { sellerId, marketplace },
    update: {},
  });
  return { username: seller.boundUsername, marketplace: seller.marketplace };
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

/** Deletes all that the store holds of a seller. The mirror itself never does; the demo starts afresh with it. */
export async function forgetSeller(prisma: PrismaClient, sellerId: string): Promise<void> {
  const where = { where: { sellerId } };
  await prisma.$transaction([
    prisma.itemLookup.deleteMany(where),
    prisma.quarantinedRecord.deleteMany(where),
    prisma.schedule.deleteMany(where),
    prisma.run.deleteMany(where),
    prisma.item.deleteMany(where),
    prisma.account.deleteMany(where),
    prisma.seller.deleteMany(where),
  ]);
}
