import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { prepareItem, type PreparedItem } from '../../src/domain/prepare-item.js';
import { ItemSession } from '../../src/store/session.js';
import { lockSeller, type SellerLock, WATCH_TIMES } from '../../src/store/locks.js';
import type { RowStamp } from '../../src/store/item-rows.js';
import { createTestDatabase } from '../support/postgres.js';

const STAMP: RowStamp = { sellerId: 'main', runId: 1n, at: '2024-01-02T03:04:05Z' };

let pool: pg.Pool;
let lock: SellerLock;
let drop: () => Promise<void>;

beforeAll(async () => {
  const database = await createTestDatabase();
  drop = () => database.drop();
  pool = new pg.Pool({ connectionString: database.url });
  await pool.query(`INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'x')`);
  lock = await lockSeller({ locks: pool, general: pool, times: WATCH_TIMES }, 'main');
});
afterEach(() => pool.query('TRUNCATE mirror.items, mirror.quarantine'));
afterAll(async () => {
  await lock.release();
  await pool.end();
  await drop();
});

function item(id: number): PreparedItem {
  const preparation = prepareItem(Buffer.from(JSON.stringify({ id, name: `Item ${id}` })));
  if (!preparation.ok) throw new Error(preparation.reason);
  return preparation.prepared;
}

async function count(table: string): Promise<number> {
  const { rows } = await pool.query<{ count: string }>(`SELECT count(*) FROM mirror.${table}`);
  return Number(rows[0]?.count);
}

it('rows on their way arrive before any other step looks at the table', async () => {
  const session = await ItemSession.begin(lock, STAMP);
  await session.insert([item(1), item(2)]);
  expect([...(await session.rawRecords([1, 2, 3])).keys()]).toEqual([1, 2]);
  await session.insert([item(3)]);
  await session.quarantine([{ itemId: 4, reason: 'broken', bytes: Buffer.from('{') }]);
  await session.insert([item(5)]);
  await session.commit();
  expect(await count('items')).toBe(4);
  expect(await count('quarantine')).toBe(1);
});

it('nothing is left of a transaction that was undone, not even by steps that were under way, and the connection serves on', async () => {
  const session = await ItemSession.begin(lock, STAMP);
  await session.insert([item(1)]);
  await session.rollback();
  const entry = { itemId: 1, reason: 'broken', bytes: Buffer.from('{') };
  await expect(session.quarantine([entry])).rejects.toThrow('over');
  await expect(session.insert([item(1)])).rejects.toThrow('over');
  await expect(session.commit()).rejects.toThrow('over');
  expect(await count('quarantine')).toBe(0);
  const next = await ItemSession.begin(lock, STAMP);
  await next.insert([item(2)]);
  await next.commit();
  expect(await count('items')).toBe(1);
});
