import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Simulator } from '../../src/simulator/index.js';
import { KEY, useMirror } from '../support/mirror.js';
import { openMarket, openSynced } from './market.js';

const mirror = useMirror();
const market = (
  ...args: Parameters<typeof openMarket> extends [unknown, ...infer Rest] ? Rest : never
) => openSynced(mirror(), ...args);

async function states(): Promise<Record<string, string>> {
  return Object.fromEntries((await mirror().items()).map((row) => [row.item_id, row.state]));
}

const NO_ITEM = '{"status":"error","msg":"Item Not Found"}';

const lookups = (sim: Simulator): number =>
  sim.log.filter(({ operation }) => operation === 'item').length;

afterEach(() => void vi.useRealTimers());

describe('an item that is no longer listed', () => {
  it('is removed when it is denied between two proofs of the key, each with another listed item', async () => {
    const { sim, catalogue, sync } = await market(20);
    catalogue.remove(1004);
    const report = await sync();
    expect(report).toMatchObject({
      state: 'succeeded',
      counts: { removed: 1, missing: 0, unchanged: 19 },
    });
    const [row] = await mirror().rows('SELECT * FROM mirror.items WHERE item_id = 1004');
    expect(row).toMatchObject({
      state: 'removed',
      removed_at: expect.any(Date) as Date,
      name: expect.stringMatching(/1004$/) as string,
    });
    const order = sim.log.slice(2).map(({ operation }) => operation);
    expect(order).toEqual(['account', 'list', 'account', 'item', 'item', 'account', 'item']);
    const asked = sim.log.slice(4).flatMap(({ parameters }) => parameters['item_id'] ?? []);
    expect(asked).toEqual(['1001', '1004', '1002']);
    // Removed, it is not looked up again.
    const before = lookups(sim);
    const rows = await mirror().items();
    await sync();
    expect(lookups(sim)).toBe(before);
    expect(await mirror().items()).toEqual(rows);
  });

  it('is not removed when the key was bad for just a few look-ups in a row', async () => {
    const { sim, catalogue, sync } = await market(20);
    for (const id of [1004, 1005, 1006]) catalogue.setState(id, 'unlisted');
    for (const bad of [1, 2, 3]) {
      await mirror().rows('DELETE FROM mirror.item_lookups');
      sim.faults.next('item', { kind: 'key-refused' }, bad);
      expect(await sync()).toMatchObject({
        state: 'succeeded',
        counts: { removed: 0, missing: 0 },
      });
      expect(Object.values(await states())).not.toContain('removed');
    }
  });

  it('is missing, not removed, after the first denial if look-ups have found it before: its absence is no news', async () => {
    const { sim, catalogue, sync } = await market(20);
    catalogue.setState(1004, 'unlisted');
    await sync();
    // Account, list, and the first proof of the key pass.
    sim.afterRequests(4, () => sim.faults.next('item', { kind: 'key-refused' }));
    expect((await sync()).counts).toMatchObject({ removed: 0, missing: 1 });
    expect((await sync()).counts).toMatchObject({ removed: 0, missing: 0 });
    catalogue.remove(1004);
    expect((await sync()).counts).toMatchObject({ removed: 0, missing: 1 });
    expect((await sync()).counts).toMatchObject({ removed: 1, missing: 0 });
  });

  const listedDenied = { kind: 'reply', status: 404, body: NO_ITEM } as const;
  it.each<[string, (sim: Simulator) => void, RegExp]>([
    [
      'the look-up is not answered',
      (sim) => sim.faults.always('item', { kind: 'server-error' }),
      /look-ups ended early|not proven/,
    ],
    [
      'the marketplace asks for a pause before the second look-up',
      // Account, list, look-up and that of a listed item pass.
      (sim) =>
        sim.afterRequests(4, () =>
          sim.faults.next('item', { kind: 'rate-limited', retryAfter: 3600 }),
        ),
      /look-ups ended early/,
    ],
    [
      'the key is revoked after the list',
      (sim) => sim.afterRequests(2, () => sim.revoke(KEY)),
      /nothing was removed/,
    ],
    [
      'look-ups deny listed items as well',
      (sim) => sim.faults.always('item', listedDenied),
      /can’t be looked up either/,
    ],
  ])('becomes missing, not removed, when %s', async (_, arrange, warning) => {
    const { sim, catalogue, sync } = await market(20);
    catalogue.remove(1004);
    arrange(sim);
    const report = await sync();
    expect(report).toMatchObject({ state: 'succeeded', counts: { removed: 0, missing: 1 } });
    expect(report.warnings.join()).toMatch(warning);
    expect((await states())['1004']).toBe('missing');
  });

  it('becomes missing when the window took longer than two minutes: the key may have failed meanwhile', async () => {
    const { sim, catalogue, sync } = await market(20);
    catalogue.remove(1004);
    vi.useFakeTimers({ toFake: ['performance'] });
    // Account, list, and the first proof of the key pass; in both attempts.
    for (const requests of [4, 9]) {
      sim.afterRequests(requests, () => vi.advanceTimersByTime(121_000));
    }
    const report = await sync();
    expect(report.counts).toMatchObject({ removed: 0, missing: 1 });
    expect(report.warnings.join()).toMatch(/between two proofs of the API key took too long/);
  });
});

describe('look-ups', () => {
  it('are limited in each run, and reach every item in later runs', async () => {
    const { sim, catalogue, sync } = await market(40, {}, { lookupsPerRun: 3 });
    for (let id = 1001; id <= 1008; id++) catalogue.remove(id);
    expect((await sync()).counts).toMatchObject({ removed: 3, missing: 5 });
    expect((await sync()).counts).toMatchObject({ removed: 3, missing: 2 });
    expect((await sync()).counts).toMatchObject({ removed: 2, missing: 0 });
    const asked = sim.log.flatMap(({ parameters }) => parameters['item_id'] ?? []);
    expect(asked.filter((id) => Number(id) <= 1008)).toHaveLength(8);
  });

  it.each([
    ['when no API answers', { kind: 'switched-off', body: 'json' }, 1, /ended early/],
    [
      'at once when the marketplace asks for a long pause',
      { kind: 'rate-limited', retryAfter: 3600 },
      1,
      /too many requests/,
    ],
  ] as const)('end %s, and leave the rest for the next run', async (_, fault, asked, warning) => {
    const { sim, catalogue, sync } = await market(40);
    for (let id = 1001; id <= 1008; id++) catalogue.remove(id);
    sim.faults.always('item', fault);
    const report = await sync();
    expect(report.counts).toMatchObject({ removed: 0, missing: 8 });
    expect(report.warnings.join()).toMatch(warning);
    expect(lookups(sim)).toBe(asked);
  });
});

describe('"No items found"', () => {
  it('does not remove the only item of an account, which servers don’t list, in any language', async () => {
    const { sim, catalogue, sync } = await market(3, { profile: 'field-2' });
    catalogue.remove(1001);
    catalogue.remove(1002);
    sim.language = 'de';
    expect(await sync()).toMatchObject({ state: 'succeeded', counts: { listed: 0, removed: 2 } });
    expect(await states()).toEqual({ '1001': 'removed', '1002': 'removed', '1003': 'live' });
  });

  it.each([
    ['404', 404, '{"status":"error","msg":"No items found"}'],
    ['an empty list', 200, '{"status":"success","items":[]}'],
  ])(
    'and no item found by a look-up holds the run, however few the items: %s',
    async (_, status, body) => {
      const { sim, sync } = await market(3);
      // As with the key of a user who sells nothing.
      sim.faults.always('list', { kind: 'reply', status, body });
      sim.faults.always('item', { kind: 'reply', status: 404, body: NO_ITEM });
      expect(await sync()).toMatchObject({ state: 'held', held: { items: 3, confirmed: 3 } });
      expect(Object.values(await states())).toEqual(['missing', 'missing', 'missing']);
      sim.faults.clear();
      await sync();
      expect(Object.values(await states())).toEqual(['live', 'live', 'live']);
    },
  );

  it('fails the run and changes nothing when the key was revoked after the run began', async () => {
    const { sim, sync } = await market(3);
    const before = await mirror().items();
    sim.afterRequests(1, () => sim.revoke(KEY));
    expect(await sync()).toMatchObject({ state: 'failed', problem: { code: 'refused' } });
    // The list said that there are no items; only then was the key asked about.
    expect(sim.log.slice(2).map(({ operation }) => operation)).toEqual([
      'account',
      'list',
      'account',
    ]);
    expect(await mirror().items()).toEqual(before);
  });

  it('fails the run and changes nothing unless look-ups prove that the items are gone', async () => {
    const { sim, sync } = await market(3);
    const before = await mirror().items();
    const fail = async (arrange: () => void): Promise<void> => {
      sim.faults.clear();
      sim.faults.next('list', { kind: 'key-refused' });
      arrange();
      expect(await sync()).toMatchObject({ state: 'failed', problem: { code: 'unavailable' } });
      expect(await mirror().items()).toEqual(before);
    };
    await fail(() => sim.faults.always('item', { kind: 'switched-off', body: 'json' }));
    await fail(() => sim.afterRequests(4, () => sim.revoke(KEY)));
  });

  it('warns that a single item can be mirrored by its id', async () => {
    const { sync } = await openMarket(mirror(), 1, { profile: 'field-2' });
    const report = await sync();
    expect(report).toMatchObject({ state: 'succeeded', counts: { added: 0 } });
    expect(report.warnings.join()).toMatch(/sync item ID/);
  });
});
