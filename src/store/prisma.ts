import { PrismaPg } from '@prisma/adapter-pg';
import { PrismaClient } from './generated/prisma/client.js';

/**
 * Makes Prisma Client. This module takes a tenth of a second to load, so it is imported where it is needed.
 * The build puts Prisma's own code into it: installed, the product needs none of Prisma's packages.
 * @param database a pool, or how to connect
 */
export function openPrisma(database: ConstructorParameters<typeof PrismaPg>[0]): PrismaClient {
  return new PrismaClient({ adapter: new PrismaPg(database) });
}
