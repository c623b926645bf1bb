import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../src/domain/item.js';
import type { ItemSession } from '../../src/store/session.js';
import { HistoryBook, prepared, type Night } from './history-book.js';

let book: HistoryBook;
beforeAll(async () => {
  book = await HistoryBook.open();
});
afterEach(() => book.empty());
afterAll(() => book.close());

const IDS = [1, 2, 3, 4, 5];
type Change = 'list' | 'missing' | 'removed' | 'found';

/** What becomes of an item in a night; many differ in but one field, or in none. */
const fate = fc.record({
  change: fc.constantFrom<Change>('list', 'list', 'list', 'missing', 'removed', 'found'),
  name: fc.constantFrom('A', 'B', ''),
  price: fc.constantFrom(10, 10.5, null),
  tags: fc.constantFrom(['x'], ['x', 'y'], []),
  rating: fc.constantFrom(1, 2),
});
const fates = fc.array(fc.option(fate), { minLength: IDS.length, maxLength: IDS.length });
const nights = fc.array(fc.record({ fates, isKilled: fc.boolean() }), {
  minLength: 1,
  maxLength: 8,
});
type Fates = (typeof nights extends fc.Arbitrary<infer T> ? T : never)[number];

/** An item without a fate is not spoken of: it stays as it is. */
function nightOf({ fates, isKilled }: Fates): Night {
  const ids = (wanted: Change): number[] => IDS.filter((_, n) => fates[n]?.change === wanted);
  const listed = IDS.flatMap((id, n): Json[] => {
    const one = fates[n] ?? null;
    if (one?.change !== 'list') return [];
    const { name, price, tags, rating } = one;
    return [{ id, name, tags: [...tags], rating, price: { regular: price } }];
  });
  const left = { missing: ids('missing'), removed: ids('removed'), found: ids('found') };
  return { listed, ...left, isKilled };
}

const at = (night: number, ms = 0): string =>
  new Date(Date.UTC(2026, 0, 1 + night, 2, 0, 0, ms)).toISOString();

describe('the catalogue as of a moment', () => {
  it('is what it was then, through any sequence of states', async () => {
    await fc.assert(
      fc.asyncProperty(nights, async (sequence) => {
        await book.empty();
        const truth = [];
        for (const [number, night] of sequence.entries()) {
          await book.night(at(number), nightOf(night));
          truth.push(await book.present());
        }
        expect(await book.asOf(at(-1)), 'before the first night').toEqual([]);
        for (const [number, state] of truth.entries()) {
          expect(await book.asOf(at(number)), `night ${number}`).toEqual(state);
          const soon = new Date(Date.parse(at(number + 1)) - 1).toISOString();
          expect(await book.asOf(soon), `until night ${number + 1}`).toEqual(state);
        }
      }),
      { numRuns: 25 },
    );
  });

  it('has one state of each item at any time, even where clocks stand still or go back', async () => {
    const moments = fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 8, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(nights, moments, async (sequence, steps) => {
        await book.empty();
        let now = 0;
        for (const [number, night] of sequence.entries()) {
          now += steps[number] ?? 0;
          await book.night(at(0, now), nightOf(night));
        }
        const overlapping = await book.rows(
          `SELECT FROM reporting.item_history a JOIN reporting.item_history b
             USING (seller_id, item_id)
            WHERE a.valid_from < b.valid_from AND coalesce(a.valid_to, 'infinity') <> b.valid_from
              AND NOT EXISTS (SELECT FROM reporting.item_history c
                               WHERE c.seller_id = a.seller_id AND c.item_id = a.item_id
                                 AND c.valid_from > a.valid_from AND c.valid_from < b.valid_from)`,
        );
        expect(overlapping).toEqual([]);
        expect(await book.asOf('infinity')).toEqual(await book.present());
      }),
      { numRuns: 20 },
    );
  });

  it('tells sellers apart', async () => {
    await book.night(at(0), { listed: [{ id: 1, name: 'Ada’s' }] }, 'ada');
    await book.night(at(1), { listed: [{ id: 1, name: 'Bob’s' }] }, 'bob');
    await book.night(at(2), { listed: [{ id: 1, name: 'Ada’s new' }] }, 'ada');
    const names = async (night: number): Promise<unknown[]> =>
      (await book.asOf(at(night))).map(({ name }) => name);
    expect(await names(0)).toEqual(['Ada’s']);
    expect(await names(1)).toEqual(['Ada’s', 'Bob’s']);
    expect(await names(2)).toEqual(['Ada’s new', 'Bob’s']);
  });

  it('is read through views, whose rights are their owner’s: who may read reports may ask', async () => {
    const functions = await book.rows<{ prosrc: string }>(
      `SELECT prosrc FROM pg_proc WHERE pronamespace = 'reporting'::regnamespace`,
    );
    expect(functions.length).toBeGreaterThanOrEqual(2);
    for (const { prosrc } of functions) expect(prosrc).not.toContain('mirror');
  });
});

describe('what is kept', () => {
  const count = async (table: string): Promise<number> =>
    Number((await book.rows<{ count: string }>(`SELECT count(*) FROM mirror.${table}`))[0]?.count);
  const kept = async (): Promise<number[]> => [
    await count('item_versions'),
    await count('item_changes'),
  ];
  const catalogue = (names: readonly string[]): Json[] =>
    names.map((name, n) => ({ id: n + 1, name }));

  it('is nothing of copies within one list, which no one ever saw', async () => {
    await book.write(await book.begin(at(0)), takeBoth);
    expect(await kept()).toEqual([0, 0]);
    expect((await book.present()).map(({ changed_at }) => changed_at)).toEqual([new Date(at(0))]);
  });

  it('is one state for each change, with the runs that wrote it and the next', async () => {
    await book.night(at(0), { listed: catalogue(['A']) });
    await book.night(at(1), { listed: catalogue(['B']) });
    await book.night(at(2), { listed: [], removed: [1] });
    const versions = await book.rows(
      `SELECT name, state, valid_from, valid_to, superseded_run_id - synced_run_id AS runs
         FROM mirror.item_versions ORDER BY valid_from`,
    );
    expect(versions).toEqual([
      {
        name: 'A',
        state: 'live',
        valid_from: new Date(at(0)),
        valid_to: new Date(at(1)),
        runs: '1',
      },
      {
        name: 'B',
        state: 'live',
        valid_from: new Date(at(1)),
        valid_to: new Date(at(2)),
        runs: '1',
      },
    ]);
  });

  async function takeBoth(session: ItemSession): Promise<void> {
    await session.loadKnown();
    const [a, b] = [prepared({ id: 1, name: 'A' }), prepared({ id: 1, name: 'B' })];
    const aIsGreater = Buffer.compare(a.contentHash, b.contentHash) > 0;
    await session.insert([aIsGreater ? b : a]);
    await session.stage([{ prepared: aIsGreater ? a : b, rival: true }]);
    expect(await session.apply()).toMatchObject({ changed: 0, written: 0 });
    session.markListLoaded();
  }
});
