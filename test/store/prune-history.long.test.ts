import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../src/domain/item.js';
import { openStore, type Store } from '../../src/store/store.js';
import { never } from '../support/mirror.js';
import { HistoryBook, type Night } from './history-book.js';

let book: HistoryBook;
let store: Store;
beforeAll(async () => {
  book = await HistoryBook.open();
  store = openStore(book.url, 'test');
});
afterAll(async () => {
  await store.close();
  await book.close();
});

const IDS = [1, 2, 3, 4];
const fate = fc.record({
  change: fc.constantFrom<'list' | 'missing' | 'removed'>('list', 'list', 'missing', 'removed'),
  name: fc.constantFrom('A', 'B'),
  price: fc.constantFrom(10, 10.5),
  rating: fc.constantFrom(1, 2),
});
const nights = fc.array(
  fc.array(fc.option(fate), { minLength: IDS.length, maxLength: IDS.length }),
  { minLength: 1, maxLength: 7 },
);

function nightOf(fates: (typeof nights extends fc.Arbitrary<infer T> ? T : never)[number]): Night {
  const ids = (wanted: string): number[] => IDS.filter((_, n) => fates[n]?.change === wanted);
  const listed = IDS.flatMap((id, n): Json[] => {
    const one = fates[n] ?? null;
    if (one?.change !== 'list') return [];
    const { name, price, rating } = one;
    return [{ id, name, rating, price: { regular: price }, media: { audio: `x${id}` } }];
  });
  return { listed, missing: ids('missing'), removed: ids('removed') };
}

const at = (night: number): string => new Date(Date.UTC(2026, 0, 1 + night, 2)).toISOString();

it('after pruning up to any moment, what was as of it or later is unchanged, the moment is known, and the same list again writes nothing', async () => {
  await fc.assert(
    fc.asyncProperty(
      nights,
      fc.double({ min: -1, max: 8, noNaN: true }),
      async (sequence, when) => {
        await book.empty();
        for (const [number, fates] of sequence.entries())
          await book.night(at(number), nightOf(fates));
        const horizon = new Date(Math.floor(Date.parse(at(0)) + when * 86_400_000));
        const moments = [horizon, ...sequence.map((_, n) => new Date(at(n)))].filter(
          (moment) => moment >= horizon,
        );
        const states = (): Promise<unknown[]> =>
          Promise.all([...moments.map((one) => book.asOf(one.toISOString())), book.present()]);
        const before = await states();
        const changes = await book.rows('SELECT * FROM mirror.item_changes ORDER BY seq');
        const versions = await book.rows('SELECT * FROM mirror.item_versions');

        const plan = { raw: horizon, runs: horizon, versions: horizon, audits: horizon };
        const told = await store.measurePrune(plan, { signal: never });
        expect(await store.prune(plan, { signal: never })).toEqual(told);

        expect(await states()).toEqual(before);
        const kept = await book.rows<{ valid_to: Date }>('SELECT * FROM mirror.item_versions');
        expect(kept.every(({ valid_to }) => valid_to > horizon)).toBe(true);
        const since = kept.length < versions.length ? horizon : null;
        expect(await book.rows('SELECT history_since FROM mirror.sellers')).toEqual([
          { history_since: since },
        ]);

        const places = 'SELECT item_id, xmin::text, ctid::text FROM mirror.items ORDER BY item_id';
        const written = await book.rows(places);
        const listed = await book.rows<{ item_id: string }>(
          `SELECT item_id FROM mirror.items WHERE state = 'live'`,
        );
        const last = new Map<number, Json>();
        for (const fates of sequence) {
          for (const record of nightOf(fates).listed)
            last.set((record as { id: number }).id, record);
        }
        const again = listed.flatMap(({ item_id }) => last.get(Number(item_id)) ?? []);
        await book.night(at(sequence.length), { listed: again });
        expect(await book.rows(places)).toEqual(written);
        expect(await book.rows('SELECT * FROM mirror.item_changes ORDER BY seq')).toEqual(changes);
      },
    ),
    { numRuns: 25 },
  );
});
