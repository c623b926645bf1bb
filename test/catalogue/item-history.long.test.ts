import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../src/domain/item.js';
import { never } from '../support/mirror.js';
import { HistoryBook, type Night } from './history-book.js';

let book: HistoryBook;
beforeAll(async () => {
  book = await HistoryBook.open();
});
afterEach(() => book.empty());
afterAll(() => book.close());

const IDS = [1, 2, 3, 4, 5];
type Change = 'list' | 'missing' | 'removed' | 'found';

/** An item in one night. Many states differ in one field, or in none. */
const itemInNight = fc.record({
  change: fc.constantFrom<Change>('list', 'list', 'list', 'missing', 'removed', 'found'),
  name: fc.constantFrom('A', 'B', ''),
  price: fc.constantFrom(10, 10.5, null),
  tags: fc.constantFrom(['x'], ['x', 'y'], []),
  rating: fc.constantFrom(1, 2),
});
/** Null: the item is not part of the night and stays as it is. */
const items = fc.array(fc.option(itemInNight), { minLength: IDS.length, maxLength: IDS.length });
const night = fc.record({ items, isKilled: fc.boolean() }).map(({ items, isKilled }): Night => {
  const ids = (wanted: Change): number[] => IDS.filter((_, n) => items[n]?.change === wanted);
  const listed = IDS.flatMap((id, n): Json[] => {
    const item = items[n] ?? null;
    if (item?.change !== 'list') return [];
    const { name, price, tags, rating } = item;
    const media = { audio: `x${id}` };
    return [{ id, name, tags: [...tags], rating, price: { regular: price }, media }];
  });
  const unlisted = { missing: ids('missing'), removed: ids('removed'), found: ids('found') };
  return { listed, ...unlisted, isKilled };
});
const nights = fc.array(night, { minLength: 1, maxLength: 8 });

const at = (night: number, ms = 0): string =>
  new Date(Date.UTC(2026, 0, 1 + night, 2, 0, 0, ms)).toISOString();

/** Changes of unknown fields make no history: a state has those of its end. */
const withoutExtra = (rows: readonly object[]): object[] =>
  rows.map((row) => ({ ...row, extra: undefined }));

describe('the catalogue as of a time', () => {
  it('is what it was then, after any sequence of nights', async () => {
    await fc.assert(
      fc.asyncProperty(nights, async (sequence) => {
        await book.empty();
        const truth = [];
        for (const [number, night] of sequence.entries()) {
          await book.night(at(number), night);
          truth.push(withoutExtra(await book.present()));
        }
        expect(await book.asOf(at(-1)), 'before the first night').toEqual([]);
        for (const [number, state] of truth.entries()) {
          expect(withoutExtra(await book.asOf(at(number))), `night ${number}`).toEqual(state);
          const soon = new Date(Date.parse(at(number + 1)) - 1).toISOString();
          const until = withoutExtra(await book.asOf(soon));
          expect(until, `until night ${number + 1}`).toEqual(state);
        }
      }),
      { numRuns: 25 },
    );
  });

  it('has exactly one state of each item, even if clocks stop or go back', async () => {
    const steps = fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 8, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(nights, steps, async (sequence, steps) => {
        await book.empty();
        let now = 0;
        for (const [number, night] of sequence.entries()) {
          now += steps[number] ?? 0;
          await book.night(at(0, now), night);
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

  it('is unchanged after pruning, from the cut-off on; the same list again then writes nothing', async () => {
    const cutOffs = fc.integer({ min: -24, max: 8 * 24 });
    await fc.assert(
      fc.asyncProperty(nights, cutOffs, async (sequence, hours) => {
        await book.empty();
        for (const [number, night] of sequence.entries()) {
          await book.night(at(number), { ...night, isKilled: false });
        }
        const cutOff = new Date(Date.parse(at(0)) + hours * 3_600_000);
        const times = [cutOff, ...sequence.map((_, n) => new Date(at(n)))].filter(
          (time) => time >= cutOff,
        );
        const states = (): Promise<unknown[]> =>
          Promise.all([...times.map((time) => book.asOf(time.toISOString())), book.present()]);
        const before = await states();
        const changes = await book.rows('SELECT * FROM mirror.item_changes ORDER BY seq');
        const versions = await book.rows('SELECT * FROM mirror.item_versions');

        const plan = { raw: cutOff, runs: cutOff, versions: cutOff, audits: cutOff };
        const measured = await book.prune(plan, { dryRun: true, signal: never });
        expect(await book.prune(plan, { signal: never })).toEqual(measured);

        expect(await states()).toEqual(before);
        const kept = await book.rows<{ valid_to: Date }>('SELECT * FROM mirror.item_versions');
        expect(kept.every(({ valid_to }) => valid_to > cutOff)).toBe(true);
        const since = kept.length < versions.length ? cutOff : null;
        expect(await book.rows('SELECT history_since FROM mirror.sellers')).toEqual([
          { history_since: since },
        ]);

        const rowVersions =
          'SELECT item_id, xmin::text, ctid::text FROM mirror.items ORDER BY item_id';
        const written = await book.rows(rowVersions);
        const live = await book.rows<{ item_id: string }>(
          `SELECT item_id FROM mirror.items WHERE state = 'live'`,
        );
        const last = new Map(
          sequence.flatMap(({ listed }) =>
            listed.map((record) => [(record as { id: number }).id, record]),
          ),
        );
        const again = live.flatMap(({ item_id }) => last.get(Number(item_id)) ?? []);
        await book.night(at(sequence.length), { listed: again });
        expect(await book.rows(rowVersions)).toEqual(written);
        expect(await book.rows('SELECT * FROM mirror.item_changes ORDER BY seq')).toEqual(changes);
      }),
      { numRuns: 25 },
    );
  });

  it('is separate for each seller', async () => {
    await book.night(at(0), { listed: [{ id: 1, name: 'Ada’s' }] }, 'ada');
    await book.night(at(1), { listed: [{ id: 1, name: 'Bob’s' }] }, 'bob');
    await book.night(at(2), { listed: [{ id: 1, name: 'Ada’s new' }] }, 'ada');
    const names = async (night: number): Promise<unknown[]> =>
      (await book.asOf(at(night))).map(({ name }) => name);
    expect(await names(0)).toEqual(['Ada’s']);
    expect(await names(1)).toEqual(['Ada’s', 'Bob’s']);
    expect(await names(2)).toEqual(['Ada’s new', 'Bob’s']);
  });

  it('is read through views with their owner’s rights, so that access to schema reporting suffices', async () => {
    const functions = await book.rows<{ prosrc: string }>(
      `SELECT prosrc FROM pg_proc WHERE pronamespace = 'reporting'::regnamespace`,
    );
    expect(functions.length).toBeGreaterThanOrEqual(2);
    for (const { prosrc } of functions) expect(prosrc).not.toContain('mirror');
  });
});

describe('the item history', () => {
  it('has one state for each change, with the run that wrote it and the next one', async () => {
    await book.night(at(0), { listed: [{ id: 1, name: 'A' }] });
    await book.night(at(1), { listed: [{ id: 1, name: 'B' }] });
    await book.night(at(2), { listed: [], removed: [1] });
    const versions = await book.rows(
      `SELECT name, state, valid_from, valid_to, superseded_run_id - synced_run_id AS runs
         FROM mirror.item_versions ORDER BY valid_from`,
    );
    const version = (name: string, night: number) => {
      const times = { valid_from: new Date(at(night)), valid_to: new Date(at(night + 1)) };
      return { name, state: 'live', ...times, runs: '1' };
    };
    expect(versions).toEqual([version('A', 0), version('B', 1)]);
  });
});
