import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { printed } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { openMarket } from './market.js';

const mirror = useMirror();

const IDS = [1001, 1002, 1003, 1004, 1005, 1006];
const DAY_MS = 86_400_000;
/** Random sequences of nights for each rule. */
const RUNS = Number(process.env['RUNS'] ?? 8);

/** An item in one night. Many states differ in one field, or in none. Null: it stays as it is. */
const itemInNight = fc.option(
  fc.record({
    state: fc.constantFrom('listed', 'listed', 'listed', 'unlisted', 'removed'),
    name: fc.constantFrom('A', 'B', ''),
    price: fc.constantFrom(10, 10.5, null),
    tags: fc.constantFrom(['x'], ['x', 'y'], []),
    rating: fc.constantFrom(1, 2),
  }),
);
const night = fc.record({
  items: fc.array(itemInNight, { minLength: IDS.length, maxLength: IDS.length }),
  /** Look-ups that get no answer, and whether the run ends before it stores anything. */
  unanswered: fc.constantFrom(0, 0, 2),
  isEnded: fc.constantFrom(false, false, true),
});
const nights = fc.array(night, { minLength: 1, maxLength: 8 });
type Night = typeof night extends fc.Arbitrary<infer T> ? T : never;

/** Mirrors six items night by night; a seventh always stays, so that the key is proven. */
async function openNights() {
  await mirror().reset();
  const guard = { removalGuard: { items: 100, percent: 100 } };
  const { sim, catalogue, sync } = await openMarket(mirror(), IDS.length + 1, {}, guard);
  return async (at: Date, { items, unanswered, isEnded }: Night): Promise<void> => {
    for (const [n, item] of items.entries()) {
      if (item === null) continue;
      const id = IDS[n] ?? 0;
      const { state, name, price, tags, rating } = item;
      catalogue.restore(id);
      const fields = { id, name, tags, rating, price: { regular: price } };
      if (state === 'listed') catalogue.breakRecord(id, JSON.stringify(fields));
      else catalogue.setState(id, state);
    }
    if (unanswered > 0) sim.faults.next('item', { kind: 'server-error' }, unanswered);
    const ending = new AbortController();
    if (isEnded) sim.afterRequests(2, () => ending.abort(new Error('ended')));
    // The clock of the runs.
    await mirror().rows(
      `ALTER TABLE mirror.runs ALTER started_at SET DEFAULT '${at.toISOString()}'`,
    );
    await sync(ending.signal).catch(() => undefined);
    sim.faults.clear();
  };
}

const realClock = () => mirror().rows('ALTER TABLE mirror.runs ALTER started_at SET DEFAULT now()');

afterEach(realClock);

/** Changes of unknown fields make no history: a state has those of its end. */
const withoutExtra = (rows: readonly Record<string, unknown>[]): object[] =>
  rows.map(({ extra: _extra, ...row }) => row);
const present = async () =>
  withoutExtra(await mirror().rows('SELECT * FROM reporting.items ORDER BY item_id'));
const asOf = async (at: Date | 'infinity') =>
  withoutExtra(
    await mirror().rows('SELECT * FROM reporting.items_as_of($1) ORDER BY item_id', [at]),
  );

describe('the catalogue as of a time', () => {
  it('is what it was then, after any sequence of nights', async () => {
    await fc.assert(
      fc.asyncProperty(nights, async (sequence) => {
        const mirrorNight = await openNights();
        const at = (number: number): Date => new Date(Date.UTC(2026, 0, 1 + number, 2));
        const truth = [];
        for (const [number, one] of sequence.entries()) {
          await mirrorNight(at(number), one);
          truth.push(await present());
        }
        expect(await asOf(at(-1)), 'before the first night').toEqual([]);
        for (const [number, state] of truth.entries()) {
          expect(await asOf(at(number)), `night ${number}`).toEqual(state);
          const soon = new Date(at(number + 1).getTime() - 1);
          expect(await asOf(soon), `until night ${number + 1}`).toEqual(state);
        }
      }),
      { numRuns: RUNS },
    );
  });

  it('has exactly one state of each item, even if clocks stop or go back', async () => {
    const steps = fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 8, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(nights, steps, async (sequence, steps) => {
        const mirrorNight = await openNights();
        let now = Date.UTC(2026, 0, 1);
        for (const [number, one] of sequence.entries()) {
          now += steps[number] ?? 0;
          await mirrorNight(new Date(now), one);
        }
        const overlapping = await mirror().rows(
          `SELECT FROM reporting.item_history a JOIN reporting.item_history b
             USING (seller_id, item_id)
            WHERE a.valid_from < b.valid_from AND coalesce(a.valid_to, 'infinity') <> b.valid_from
              AND NOT EXISTS (SELECT FROM reporting.item_history c
                               WHERE c.seller_id = a.seller_id AND c.item_id = a.item_id
                                 AND c.valid_from > a.valid_from AND c.valid_from < b.valid_from)`,
        );
        expect(overlapping).toEqual([]);
        expect(await asOf('infinity')).toEqual(await present());
      }),
      { numRuns: RUNS },
    );
  });

  it('is unchanged by `prune`, from its date on; the same list then writes nothing', async () => {
    await fc.assert(
      fc.asyncProperty(nights, fc.integer({ min: 1, max: 9 }), async (sequence, days) => {
        const mirrorNight = await openNights();
        // Between two nights when `prune` runs.
        const at = (ago: number): Date => new Date(Date.now() - (ago - 0.5) * DAY_MS);
        const begun = sequence.map((_, n) => at(sequence.length - n));
        for (const [n, one] of sequence.entries()) {
          await mirrorNight(begun[n] ?? new Date(), { ...one, isEnded: false });
        }
        const cutOff = Date.now() - days * DAY_MS;
        const times = begun.filter((time) => time.getTime() > cutOff + DAY_MS / 4);
        const states = () => Promise.all([...times.map((time) => asOf(time)), present()]);
        const before = await states();
        const changes = () => mirror().rows('SELECT * FROM mirror.item_changes ORDER BY seq');
        const written = await changes();
        const keep = Object.fromEntries(
          ['RAW', 'RUNS', 'VERSIONS', 'AUDITS'].map((what) => [`KEEP_${what}_DAYS`, String(days)]),
        );
        await realClock();
        await printed(['prune'], { DATABASE_URL: mirror().databaseUrl, ...keep });
        expect(await states()).toEqual(before);
        const kept = await mirror().rows<{ valid_to: Date }>('SELECT * FROM mirror.item_versions');
        expect(kept.every(({ valid_to }) => valid_to.getTime() > cutOff)).toBe(true);
        expect(await changes()).toEqual(written);
        const same: Night = { items: IDS.map(() => null), unanswered: 0, isEnded: false };
        // A first denial removes no item that look-ups had found before, and a list that lacks most items is refused
        // until look-ups have found them in three runs.
        for (let again = 0; again < 4; again++) await mirrorNight(new Date(), same);
        const settled = await mirror().items();
        await mirrorNight(new Date(), same);
        expect(await mirror().items()).toEqual(settled);
      }),
      { numRuns: RUNS },
    );
  });

  it('is read through views with their owner’s rights, so that access to schema reporting suffices', async () => {
    const functions = await mirror().rows<{ prosrc: string }>(
      `SELECT prosrc FROM pg_proc WHERE pronamespace = 'reporting'::regnamespace`,
    );
    expect(functions.length).toBeGreaterThanOrEqual(2);
    for (const { prosrc } of functions) expect(prosrc).not.toContain('mirror');
  });
});
