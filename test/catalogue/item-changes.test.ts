import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ITEM_FIELDS, type Item, type Json } from '../../src/domain/item.js';
import { HistoryBook, canonical, type ItemChange } from './history-book.js';

let book: HistoryBook;
beforeAll(async () => {
  book = await HistoryBook.open();
});
afterEach(() => book.empty());
afterAll(() => book.close());

const at = (night: number): string => new Date(Date.UTC(2026, 0, 1 + night, 2)).toISOString();
const all = (after = 0n): Promise<ItemChange[]> => book.changes({ after });
const summaries = (changes: readonly ItemChange[]): unknown[] =>
  changes.map((change) => [change.class, change.field, change.old, change.new]);

const text = fc.option(fc.constantFrom('', 'a', 'b', 'ä "quoted"\n', 'NULL'));
const list = fc.subarray(['x', 'y,z', '{}', 'NULL']);
const money = fc.option(fc.constantFrom(0, 10, 10.5, -0.01, 999999999999.99));
const record = fc.record({
  name: fc.constantFrom('A', 'B'),
  description: text,
  category: text,
  sub_category: text,
  options: list,
  version: text,
  demo_link: text,
  tags: list,
  currency: fc.option(fc.constantFrom('USD', 'EUR')),
  price: fc.record({ regular: money, extended: money }),
  media: fc.record({ thumbnail: text, preview_image: text, screenshots: list }),
  published_at: fc.option(
    fc.constantFrom('2024-01-02T03:04:05Z', '2024-01-02T03:04:05.120000Z', '1999-12-31'),
  ),
  rating: fc.constantFrom(1, 2),
});

/** The expected changes: all fields whose canonical values differ. */
function differences(before: Item, after: Item): unknown[] {
  const fields = Object.keys(before).filter((key) => key !== 'id') as (keyof Item)[];
  const columnOf = (key: string): string => key.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
  return fields
    .filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]))
    .map((key) => {
      const field = ITEM_FIELDS.find(({ column }) => column === columnOf(key));
      return [field?.class, field?.column, before[key], after[key]];
    });
}

const sorted = (values: unknown[]): string[] => values.map((value) => JSON.stringify(value)).sort();

describe('the numbered changes', () => {
  it('has exactly the canonical fields that differ, with their canonical values', async () => {
    const pairs = fc.array(fc.tuple(record, record, fc.boolean()), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(pairs, async (cases) => {
        await book.empty();
        const catalogue = (which: 0 | 1): Json[] =>
          cases.map(([before, after, same], n): Json => {
            return { id: n + 1, ...(which === 0 || same ? before : after) };
          });
        await book.night(at(0), { listed: catalogue(0) });
        await book.night(at(1), { listed: catalogue(1) });
        const changes = await all();
        for (const [n, before] of catalogue(0).entries()) {
          const after = catalogue(1)[n] as Json;
          const ofItem = changes.filter(({ itemId }) => itemId === BigInt(n + 1));
          expect(sorted(summaries(ofItem))).toEqual(
            sorted(differences(canonical(before), canonical(after))),
          );
        }
      }),
      { numRuns: 25 },
    );
  }, 120_000);

  it('has new items, and each way out of the mirror and back', async () => {
    const a = { id: 1, name: 'A' };
    const b = { id: 2, name: 'B' };
    await book.night(at(0), { listed: [a] });
    await book.night(at(1), { listed: [a, b] });
    await book.night(at(2), { listed: [a], missing: [2] });
    await book.night(at(3), { listed: [a, b] });
    await book.night(at(4), { listed: [a], missing: [2] });
    await book.night(at(5), { listed: [a], removed: [2] });
    await book.night(at(6), { listed: [a, { ...b, name: 'C' }] });
    const changes = await all();
    expect(changes.every(({ itemId, itemName }) => itemId === 2n && itemName === 'C')).toBe(true);
    expect(changes.map(({ changedAt }) => changedAt.toISOString())).toEqual(
      [1, 2, 3, 4, 5, 6, 6].map(at),
    );
    expect(summaries(changes)).toEqual([
      ['added', 'state', null, 'live'],
      ['missing', 'state', 'live', 'missing'],
      ['missing', 'state', 'missing', 'live'],
      ['missing', 'state', 'live', 'missing'],
      ['removed', 'state', 'missing', 'removed'],
      ['restored', 'state', 'removed', 'live'],
      ['text', 'name', 'B', 'C'],
    ]);
  });

  it('has a missing item once, also if earlier look-ups found it', async () => {
    const a = { id: 1, name: 'A' };
    const b = { id: 2, name: 'B' };
    const c = { id: 3, name: 'C' };
    await book.night(at(0), { listed: [a, b, c] });
    await book.night(at(1), { listed: [a, c], found: [2] });
    await book.night(at(2), { listed: [a], missing: [2, 3] });
    const changes = (await all()).map(({ itemId, new: state }) => `${itemId} ${String(state)}`);
    expect(changes.sort()).toEqual(['2 missing', '3 missing']);
  });

  it('can be filtered by class, item, seller and time', async () => {
    const one = (name: string, price: number): Json => ({ id: 1, name, price: { regular: price } });
    await book.night(at(0), { listed: [one('A', 1), { id: 2, name: 'B' }] });
    await book.night(at(1), { listed: [one('A', 2), { id: 2, name: 'C' }] });
    await book.night(at(2), { listed: [one('B', 3)] });
    await book.night(at(0), { listed: [one('A', 1)] }, 'other');
    await book.night(at(3), { listed: [one('A', 9)] }, 'other');
    const prices = await book.changes({ classes: ['price'], sellerIds: ['main'], limit: 9 });
    expect(summaries(prices)).toEqual([
      ['price', 'price_regular', '1.00', '2.00'],
      ['price', 'price_regular', '2.00', '3.00'],
    ]);
    expect(summaries(await book.changes({ itemId: 2, limit: 9 }))).toEqual([
      ['text', 'name', 'B', 'C'],
    ]);
    expect(await book.changes({ from: new Date(at(2)), limit: 9 })).toHaveLength(3);
    expect(await book.changes({ limit: 2 })).toEqual((await all()).slice(0, 2));
    expect(await book.changes({ limit: 2, newest: true })).toEqual((await all()).slice(-2));
  });
});

describe('a follower of the changes', () => {
  it('has the same items as the mirror after every night, if it reads first lists from the view', async () => {
    const ids = [1, 2, 3];
    const itemInNight = fc.record({
      change: fc.constantFrom('list', 'list', 'missing', 'removed', 'found'),
      price: fc.constantFrom(1, 2),
    });
    const seller = fc.constantFrom('ada', 'bob');
    const nights = fc.array(fc.tuple(itemInNight, itemInNight, itemInNight, seller, fc.boolean()), {
      minLength: 1,
      maxLength: 8,
    });
    await fc.assert(
      fc.asyncProperty(nights, async (sequence) => {
        await book.empty();
        const copy = new Map<string, Record<string, unknown>>();
        let cursor = 0n;
        for (const [n, [a, b, c, seller, isKilled]] of sequence.entries()) {
          const items = [a, b, c];
          const having = (what: string): number[] =>
            ids.filter((_, i) => items[i]?.change === what);
          const listed = having('list').map((id) => {
            return { id, name: 'x', price: { regular: items[id - 1]?.price ?? 0 } };
          });
          const unlisted = {
            missing: having('missing'),
            removed: having('removed'),
            found: having('found'),
          };
          await book.night(at(n), { listed, ...unlisted, isKilled }, seller);
          cursor = await follow(copy, cursor);
          const present = sorted((await book.present()).map(values));
          expect(sorted([...copy.values()].map(values))).toEqual(present);
        }
      }),
      { numRuns: 25 },
    );
  }, 120_000);

  /** Updates a copy from the changes. Only new items and first lists are read from the view. */
  async function follow(copy: Map<string, Record<string, unknown>>, cursor: bigint) {
    const rows = await book.rows<Record<string, unknown>>(
      `SELECT i.*, s.loaded_seq > $1 AS first FROM reporting.items i JOIN mirror.sellers s USING (seller_id)`,
      [String(cursor)],
    );
    const end = await book.lastChangeNumber();
    const keyOf = (row: Record<string, unknown>): string =>
      `${String(row['seller_id'])}/${String(row['item_id'])}`;
    for (const change of await all(cursor)) {
      const key = `${change.sellerId}/${change.itemId}`;
      if (change.old === null && change.field === 'state') {
        copy.set(key, { ...rows.find((row) => keyOf(row) === key) });
      }
      const row = copy.get(key);
      if (row === undefined) throw new Error(`${key} changed before it was added`);
      if (change.old !== null) expect(row[change.field]).toBe(change.old);
      row[change.field] = change.new;
    }
    for (const row of rows.filter(({ first }) => first)) copy.set(keyOf(row), { ...row });
    return end;
  }

  function values(row: Record<string, unknown>): unknown[] {
    return [row['seller_id'], row['item_id'], row['state'], row['name'], row['price_regular']];
  }

  it('misses nothing if runs commit in another order than they wrote', async () => {
    // The slow run stops after its changes have numbers and before its commit.
    await book.pool.query(`
      CREATE FUNCTION mirror.wait_when_slow() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF EXISTS (SELECT FROM told WHERE seller_id = 'slow') THEN
          PERFORM pg_advisory_xact_lock(42);
        END IF;
        RETURN NULL;
      END $$;
      CREATE TRIGGER wait_when_slow AFTER INSERT ON mirror.item_changes
        REFERENCING NEW TABLE AS told FOR EACH STATEMENT EXECUTE FUNCTION mirror.wait_when_slow()`);
    const waiting = async (): Promise<number> => {
      const rows = await book.rows(
        `SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      );
      return rows.length;
    };
    const gate = await book.pool.connect();
    try {
      for (const seller of ['slow', 'fast']) {
        await book.night(at(0), { listed: [{ id: 1, name: 'A' }] }, seller);
      }
      await gate.query('SELECT pg_advisory_lock(42)');
      const listed = [{ id: 1, name: 'B' }];
      const slowEnd = book.night(at(1), { listed }, 'slow');
      await expect.poll(waiting).toBe(1);
      let fastIsDone = false;
      const fastEnd = book.night(at(1), { listed }, 'fast').then(() => (fastIsDone = true));
      await expect.poll(async () => fastIsDone || (await waiting()) === 2).toBe(true);
      const first = await all();
      await gate.query('SELECT pg_advisory_unlock(42)');
      await Promise.all([slowEnd, fastEnd]);
      const rest = await all(first.at(-1)?.seq);
      const read = [...first, ...rest].map(({ sellerId }) => sellerId);
      expect(read.sort()).toEqual(['fast', 'slow']);
    } finally {
      await gate.query('SELECT pg_advisory_unlock_all()');
      gate.release();
      await book.pool.query('DROP FUNCTION mirror.wait_when_slow CASCADE');
    }
  });
});
