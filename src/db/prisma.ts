import { PrismaPg } from '@prisma/adapter-pg';
import type { Pool } from 'pg';
import { PrismaClient } from './generated/prisma/client.js';

/**
 * Creates a Prisma Client. Loading this module takes 0.1 s, so import it only when needed.
 * @param pool of sessions in UTC: Prisma drops the offsets of times
 */
export function openPrisma(pool: Pool): PrismaClient {
  return new PrismaClient({ adapter: new PrismaPg(pool), errorFormat: 'minimal' });
}
