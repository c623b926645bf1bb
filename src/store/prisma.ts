import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from './generated/prisma/client.js';

/**
 * Creates a Prisma Client. Loading this module takes 0.1 s, so import it only when needed.
 * @param database a pool or connection options
 */
export function openPrisma(database: ConstructorParameters<typeof PrismaPg>[0]): PrismaClient {
  return new PrismaClient({ adapter: new PrismaPg(database) });
}
