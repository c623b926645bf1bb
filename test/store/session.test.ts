import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { PreparedItem } from '../../src/domain/prepare-item.js';
import { HistoryBook, prepared } from './history-book.js';

const AT = '2024-01-02T03:04:05Z';
const BROKEN = { itemId: 4, reason: 'broken', bytes: Buffer.from('{') };

let book: HistoryBook;
beforeAll(async () => {
  book = await HistoryBook.open();
});
afterEach(() => book.empty());
afterAll(() => book.close());

const item = (id: number): PreparedItem => prepared({ id, name: `Item ${id}` });
const count = async (table: string): Promise<number> =>
  (await book.rows(`SELECT FROM mirror.${table}`)).length;

it('finishes a running COPY before any other statement', async () => {
  const session = await book.begin(AT);
  await session.insert([item(1), item(2)]);
  expect([...(await session.rawRecords([1, 2, 3])).keys()]).toEqual([1, 2]);
  await session.insert([item(3)]);
  await session.quarantine([BROKEN]);
  await session.insert([item(5)]);
  await session.commit();
  expect(await count('items')).toBe(4);
  expect(await count('quarantine')).toBe(1);
});

it('leaves nothing behind after a rollback, refuses further steps, and frees the connection', async () => {
  const session = await book.begin(AT);
  await session.insert([item(1)]);
  await session.rollback();
  await expect(session.quarantine([BROKEN])).rejects.toThrow('over');
  await expect(session.insert([item(1)])).rejects.toThrow('over');
  await expect(session.commit()).rejects.toThrow('over');
  expect(await count('quarantine')).toBe(0);
  const next = await book.begin(AT);
  await next.insert([item(2)]);
  await next.commit();
  expect(await count('items')).toBe(1);
});
