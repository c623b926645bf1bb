/** Baseline: a Prisma upsert per row, of rows that are ready in memory, into the emptied table. */
import { PrismaPg } from '@prisma/adapter-pg';
import { Pool } from 'pg';
import type * as PrismaModule from '../src/store/generated/prisma/client.js';
import { product } from './product.js';
import { given, tell } from './tell.js';

const { PrismaClient, Prisma } = (await product(
  'store/generated/prisma/client.js',
)) as typeof PrismaModule;

const { databaseUrl, rows: take } = given() as { databaseUrl: string; rows: number };
const pool = new Pool({ connectionString: databaseUrl });
const prisma = new PrismaClient({ adapter: new PrismaPg(pool) });
const rows = await prisma.item.findMany({ take });
await pool.query('TRUNCATE mirror.items');
const started = performance.now();
for (const row of rows) {
  const data = { ...row, extra: row.extra ?? Prisma.JsonNull, raw: row.raw ?? Prisma.JsonNull };
  const { sellerId, itemId } = row;
  await prisma.item.upsert({
    where: { sellerId_itemId: { sellerId, itemId } },
    create: data,
    update: data,
  });
}
const ms = performance.now() - started;
await prisma.$disconnect();
await pool.end();
tell({ ms, rows: rows.length });
