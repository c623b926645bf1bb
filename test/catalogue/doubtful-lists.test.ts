import { describe, expect, it } from 'vitest';
import { printed, settings } from '../cli/support.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { useMirror } from '../support/mirror.js';
import { openSynced } from './market.js';

const mirror = useMirror();

const NO_ITEM = {
  kind: 'reply',
  status: 404,
  body: '{"status":"error","msg":"Item Not Found"}',
} as const;

/** The JSON of another seller's list, with ids from 5001 on. */
function foreignList(count: number): string {
  const items = Array.from({ length: count }, (_, n) => ({ id: 5001 + n, name: `Foreign ${n}` }));
  return JSON.stringify({ status: 'success', items });
}

describe('a list that lacks more than half of the known items', () => {
  it('is refused unless look-ups speak for it: a cache may have given another seller’s list', async () => {
    const { sim, sync } = await openSynced(mirror(), 30);
    const before = await mirror().items();
    const failure = async (arrange: () => void): Promise<string> => {
      sim.faults.next('list', { kind: 'reply', status: 200, body: foreignList(25) });
      arrange();
      const report = await sync();
      expect(report).toMatchObject({ state: 'failed', problem: { code: 'unavailable' } });
      expect(await mirror().items()).toEqual(before);
      sim.faults.clear();
      return report.problem?.message ?? '';
    };
    expect(await failure(() => sim.faults.always('item', NO_ITEM))).toMatch(
      /^the list lacks 30 of 30 known items, and look-ups deny each of 10 new items that it names/,
    );
    expect(await failure(() => undefined)).toMatch(
      /look-ups found 10 of 10 known items that it lacks/,
    );
    expect(await failure(() => sim.faults.always('item', { kind: 'server-error' }))).toMatch(
      /look-ups of 10 of those got no answer/,
    );
    const noneFound = await failure(() => {
      sim.faults.next('item', NO_ITEM, 19);
      sim.faults.always('item', { kind: 'server-error' });
    });
    expect(noneFound).toMatch(/look-ups found none of 10 new items/);
    expect((await sync()).counts).toMatchObject({ unchanged: 30, missing: 0, changed: 0 });
  });

  it('is used if the known items are denied and a new one is found: the seller replaced the catalogue', async () => {
    const { catalogue, sync } = await openSynced(mirror(), 10);
    for (const { id } of [...catalogue.truth()]) if (id <= 1010) catalogue.remove(id);
    const [item] = seededCatalogue({ seed: 9, count: 1 }).truth();
    if (item === undefined) throw new Error('no item');
    for (let id = 2001; id <= 2005; id++) catalogue.add({ ...item, id });
    expect(await sync()).toMatchObject({ state: 'succeeded', counts: { added: 5, removed: 10 } });
  });

  it('is used in the end if the marketplace hides the items from its list for good', async () => {
    const { catalogue, sync } = await openSynced(mirror(), 6);
    for (let id = 1001; id <= 1004; id++) catalogue.setState(id, 'unlisted');
    const outcomes = [];
    for (let night = 0; night < 4; night++) outcomes.push((await sync()).state);
    expect(outcomes).toEqual(['failed', 'failed', 'succeeded', 'succeeded']);
    expect((await mirror().items()).map(({ state }) => state)).toEqual(Array(6).fill('live'));
  });
});

describe('a list that lacks items which look-ups find', () => {
  it('says nothing about items that were not looked up: they stay as they were', async () => {
    const { catalogue, sync } = await openSynced(mirror(), 60, {}, { lookupsPerRun: 5 });
    for (let id = 1001; id <= 1015; id++) catalogue.setState(id, 'unlisted');
    catalogue.remove(1050);
    for (let night = 0; night < 2; night++) {
      const report = await sync();
      expect(report).toMatchObject({ state: 'succeeded', counts: { missing: 0 } });
      expect(report.warnings.join()).toMatch(
        /the list lacks known items, but look-ups found \d+ of them; \d+ others stay as before/,
      );
    }
    expect(
      await mirror().rows(`SELECT * FROM mirror.item_changes WHERE class = 'missing'`),
    ).toEqual([]);
  });

  it('is whole again for the rules once the items were found in three runs in a row', async () => {
    const { catalogue, sync } = await openSynced(mirror(), 40, {}, { lookupsPerRun: 1 });
    catalogue.setState(1001, 'unlisted');
    for (let night = 0; night < 3; night++) await sync();
    catalogue.remove(1002);
    await mirror().rows(
      `UPDATE mirror.item_lookups SET looked_up_at = looked_up_at - interval '1 year'`,
    );
    await mirror().rows(
      `INSERT INTO mirror.item_lookups VALUES ('main', 1002, now(), 'unanswered', 1, 0)`,
    );
    // Item 1001 is looked up and found, and item 1002 is not asked for.
    expect((await sync()).counts).toMatchObject({ missing: 1 });
  });
});

describe('an answer for one item that lacks fields', () => {
  const columns = 'name, description, price_regular, tags, preview_image_url, category, extra';
  const stored = () => mirror().rows(`SELECT ${columns} FROM mirror.items WHERE item_id = 1001`);

  it.each(['kept', 'pruned'])('keeps what is stored, with the stored record %s', async (how) => {
    const { sim, catalogue, syncItem } = await openSynced(mirror(), 3);
    if (how === 'pruned') await mirror().rows(`UPDATE mirror.items SET raw = '{}'`);
    const before = await stored();
    const { name } = catalogue.find(1001)?.item ?? { name: '' };
    const reply = (item: object) =>
      ({ kind: 'reply', status: 200, body: JSON.stringify({ status: 'success', item }) }) as const;
    sim.faults.next('item', reply({ id: 1001, name }));
    expect((await syncItem(1001)).counts).toMatchObject({ changed: 0, unchanged: 1 });
    expect(await stored()).toEqual(before);
    sim.faults.next('item', reply({ id: 1001, name: 'Renamed', price: { regular: 1.5 } }));
    expect((await syncItem(1001)).counts).toMatchObject({ changed: 1 });
    expect(await stored()).toEqual([{ ...before[0], name: 'Renamed', price_regular: '1.50' }]);
  });
});

it('a record that can’t be read needs somebody after three runs, also if its bytes change each night', async () => {
  const { sim, catalogue, sync } = await openSynced(mirror(), 20);
  const needs = async (): Promise<string[]> => {
    const text = await printed(['status', '--json'], settings(mirror().databaseUrl, sim.url));
    const [seller] = JSON.parse(text) as [{ needs: { kind: string; text: string }[] }];
    return seller.needs.map(({ kind, text: words }) => `${kind}: ${words}`);
  };
  for (let night = 1; night <= 3; night++) {
    expect(await needs()).toEqual([]);
    catalogue.breakRecord(1003, `{"id":1003,"name":"\u0007","night":${night}}`);
    await sync();
  }
  expect(await needs()).toEqual([
    'unreadable: the record of 1 item could not be read in 3 runs or more; the copy keeps the last state that could be read',
  ]);
  catalogue.restore(1003);
  await sync();
  expect(await needs()).toEqual([]);
  catalogue.breakRecord(1003, '{"id":1003,"name":"\u0007"}');
  await sync();
  expect(await needs()).toEqual([]);
});
