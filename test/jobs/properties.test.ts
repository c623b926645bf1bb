import fc from 'fast-check';
import { expect, it } from 'vitest';
import { syncCatalogue } from '../../src/jobs/sync-catalogue.js';
import {
  notationQuirks,
  seededCatalogue,
  type Catalogue,
  type Fault,
  type Simulator,
} from '../../src/simulator/index.js';
import { KEY, never, useMirror, type ItemRow } from '../support/mirror.js';

const mirror = useMirror();
const FIRST = 1001;
const COUNT = 30;

/** Something that happens between two nights, or during one. */
type Event =
  | { kind: 'change' | 'remove' | 'restore' | 'pend' | 'unlist' | 'duplicate'; id: number }
  | { kind: 'shuffle'; seed: number }
  | { kind: 'notation'; other: boolean }
  | { kind: 'fault'; operation: 'account' | 'list' | 'item'; fault: Fault }
  | { kind: 'revoke-after'; requests: number };

const id = fc.integer({ min: FIRST, max: FIRST + COUNT - 1 });
const fault = fc.constantFrom<Fault>(
  { kind: 'rate-limited', retryAfter: 3600 },
  { kind: 'server-error' },
  { kind: 'maintenance' },
  { kind: 'html', status: 200 },
  { kind: 'switched-off', body: 'html' },
  { kind: 'switched-off', body: 'json' },
  { kind: 'challenge', status: 403 },
  { kind: 'empty' },
  { kind: 'wrong-type', json: 'null' },
  { kind: 'reset' },
  { kind: 'truncate', how: 'clean', fraction: 0.5 },
  { kind: 'truncate', how: 'destroy', fraction: 0.9 },
  { kind: 'prefix', text: 'php-warnings' },
  { kind: 'translated', language: 'de' },
  { kind: 'key-refused' },
  { kind: 'redirect', to: 'home' },
);
const event: fc.Arbitrary<Event> = fc.oneof(
  fc.record({
    kind: fc.constantFrom('change', 'remove', 'restore', 'pend', 'unlist', 'duplicate'),
    id,
  }),
  fc.record({ kind: fc.constant('shuffle'), seed: fc.nat(1000) }),
  fc.record({ kind: fc.constant('notation'), other: fc.boolean() }),
  fc.record({
    kind: fc.constant('fault'),
    operation: fc.constantFrom('account', 'list', 'item'),
    fault,
  }),
  fc.record({ kind: fc.constant('revoke-after'), requests: fc.nat(6) }),
);
const nights = fc.array(fc.array(event, { maxLength: 6 }), { minLength: 2, maxLength: 6 });

let changes = 0;

/** The night in which something happens; what was planned for a night that is over does not. */
interface Night {
  over: boolean;
}

function happen(sim: Simulator, catalogue: Catalogue, what: Event, night: Night): void {
  switch (what.kind) {
    case 'change':
      return catalogue.change(what.id, { name: `Change ${++changes}` });
    case 'remove':
      return catalogue.remove(what.id);
    case 'restore':
      return catalogue.restore(what.id);
    case 'pend':
      return catalogue.setState(what.id, 'pending');
    case 'unlist':
      return catalogue.setState(what.id, 'unlisted');
    case 'duplicate':
      return catalogue.duplicate(what.id);
    case 'shuffle':
      return catalogue.shuffle(what.seed);
    case 'notation':
      return sim.setProfile('documented', what.other ? notationQuirks : {});
    case 'fault':
      return sim.faults.next(what.operation, what.fault);
    case 'revoke-after':
      return sim.afterRequests(what.requests, () => {
        if (!night.over) sim.revoke(KEY);
      });
  }
}

function content(rows: readonly ItemRow[]): object[] {
  return rows.map((row) => ({
    id: Number(row.item_id),
    name: row['name'],
    price: row['price_regular'],
  }));
}

function listed(catalogue: Catalogue): object[] {
  return [...catalogue.truth()]
    .map((item) => ({
      id: item.id,
      name: item.name,
      price: ((item.priceRegularCents ?? 0) / 100).toFixed(2),
    }))
    .sort((a, b) => a.id - b.id);
}

it('keeps its promise through any sequence of states and faults', async () => {
  await fc.assert(
    fc.asyncProperty(nights, async (sequence) => {
      await mirror().reset();
      const catalogue = seededCatalogue({ seed: 7, count: COUNT });
      const seller = { key: KEY, username: 'ada', catalogue };
      const sim = await mirror().simulate({ sellers: [seller] });
      const deps = mirror().deps(sim.url, { removalGuard: { items: COUNT, percent: 100 } });
      await syncCatalogue(deps, never);
      for (const events of sequence) {
        const night: Night = { over: false };
        const before = await mirror().items();
        for (const what of events) happen(sim, catalogue, what, night);
        const report = await syncCatalogue(deps, never);
        const after = await mirror().items();
        if (report.state === 'failed') {
          expect(after, 'a failed run changes no item').toEqual(before);
        } else {
          const ids = new Set(listed(catalogue).map((item) => (item as { id: number }).id));
          const mirrored = after.filter((row) => ids.has(Number(row.item_id)));
          expect(content(mirrored), 'a successful run equals the list').toEqual(listed(catalogue));
          expect(mirrored.every((row) => row.state === 'live')).toBe(true);
        }
        for (const row of after.filter(({ state }) => state === 'removed')) {
          const wasRemoved =
            before.find(({ item_id }) => item_id === row.item_id)?.state === 'removed';
          const answers = catalogue.answers(Number(row.item_id));
          expect(answers && !wasRemoved, 'nothing is removed that would be answered for').toBe(
            false,
          );
        }
        // The weather clears: a run and a second one, which has nothing left to write.
        night.over = true;
        sim.faults.clear();
        sim.addSeller(seller);
        expect(await syncCatalogue(deps, never)).toMatchObject({ state: 'succeeded' });
        const settled = await mirror().items();
        expect(await syncCatalogue(deps, never)).toMatchObject({ state: 'succeeded' });
        expect(await mirror().items(), 'a second run writes no item row').toEqual(settled);
        catalogue.shuffle(changes);
        sim.setProfile('documented', changes % 2 === 0 ? notationQuirks : {});
        await syncCatalogue(deps, never);
        expect(await mirror().items(), 'order and notation write no item row').toEqual(settled);
      }
    }),
    {
      numRuns: 25,
      // Once an item was taken for removed because one look-up was refused.
      examples: [
        [
          [
            [
              { kind: 'unlist', id: FIRST },
              { kind: 'fault', operation: 'item', fault: { kind: 'key-refused' } },
            ],
          ],
        ],
      ],
    },
  );
}, 180_000);
