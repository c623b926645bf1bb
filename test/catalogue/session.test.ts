import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { PreparedItem } from '../../src/catalogue/prepare-item.js';
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
  const rows = session.newRows();
  for (const id of [1, 2]) rows.add(item(id));
  await session.insert(rows);
  expect([...(await session.storedItems([1, 2, 3])).keys()]).toEqual([1, 2]);
  await session.stageItems([item(3)]);
  await session.stageBroken([BROKEN]);
  await session.stageItems([item(5)]);
  await session.apply();
  await session.commit();
  expect(await count('items')).toBe(4);
  expect(await count('quarantine')).toBe(1);
});

it('stages outside of a transaction, since a run may wait for look-ups after the list', async () => {
  const session = await book.begin(AT);
  await session.loadKnown();
  await session.stageItems([item(1)]);
  await session.stageBroken([BROKEN]);
  await session.storedItems([1]);
  const open = await book.rows(
    `SELECT FROM pg_stat_activity WHERE datname = current_database() AND xact_start IS NOT NULL
        AND pid <> pg_backend_pid()`,
  );
  expect(open).toEqual([]);
  await session.discard();
});

it('leaves nothing behind when it is discarded, refuses further steps, and frees the connection', async () => {
  const session = await book.begin(AT);
  await session.stageItems([item(1)]);
  await session.apply();
  await session.discard();
  await expect(session.stageBroken([BROKEN])).rejects.toThrow('over');
  await expect(session.stageItems([item(1)])).rejects.toThrow('over');
  await expect(session.commit()).rejects.toThrow('over');
  const next = await book.begin(AT);
  await next.stageItems([item(2)]);
  await next.apply();
  await next.commit();
  expect(await count('items')).toBe(1);
});
