import type { PrismaClient } from './generated/prisma/client.js';

/** Enters a configured seller when it is new, and keeps its marketplace current. */
export async function ensureSeller(
  prisma: PrismaClient,
  sellerId: string,
  marketplace: string,
): Promise<void> {
  await prisma.seller.upsert({
    where: { sellerId },
    create: { sellerId, marketplace },
    update: { marketplace },
  });
}

/** The username of the account that this seller's key was first seen to open; null before that. */
export async function boundUsername(
  prisma: PrismaClient,
  sellerId: string,
): Promise<string | null> {
  const seller = await prisma.seller.findUnique({ where: { sellerId } });
  return seller?.boundUsername ?? null;
}

/** Remembers which account belongs to a seller. */
export async function bindUsername(
  prisma: PrismaClient,
  sellerId: string,
  username: string,
): Promise<void> {
  await prisma.seller.update({
    where: { sellerId },
    data: { boundUsername: username, boundAt: new Date() },
  });
}

/** Deletes all that the store holds of a seller. The mirror itself never does; the demo starts afresh with it. */
export async function forgetSeller(prisma: PrismaClient, sellerId: string): Promise<void> {
  const where = { where: { sellerId } };
  await prisma.$transaction([
    prisma.itemLookup.deleteMany(where),
    prisma.quarantinedRecord.deleteMany(where),
    prisma.run.deleteMany(where),
    prisma.item.deleteMany(where),
    prisma.account.deleteMany(where),
    prisma.seller.deleteMany(where),
  ]);
}
