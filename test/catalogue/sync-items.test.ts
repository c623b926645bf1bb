import { describe, expect, it } from 'vitest';
import {
  notationQuirks,
  type Fault,
  type SimItem,
  type Simulator,
} from '../../src/simulator/index.js';
import { contentOf, KEY, useMirror, type ItemRow } from '../support/mirror.js';
import { openMarket, openSynced } from './market.js';

const mirror = useMirror();
const market = (count: number, options = {}) => openMarket(mirror(), count, options);
const synced = (count: number) => openSynced(mirror(), count);

const cents = (value: unknown): number | null =>
  value === null ? null : Math.round(Number(value) * 100);

/** A row in the form of the simulator's items. */
function toSimItem(row: ItemRow): object {
  return {
    id: Number(row.item_id),
    name: row['name'],
    description: row['description'],
    category: row['category'],
    subCategory: row['sub_category'],
    options: row['options'],
    version: row['version'],
    demoLink: row['demo_link'],
    tags: row['tags'],
    thumbnail: row['thumbnail_url'],
    previewImage: row['preview_image_url'],
    previewVideo: row['preview_video_url'],
    previewAudio: row['preview_audio_url'],
    screenshots: row['screenshots'],
    priceRegularCents: cents(row['price_regular']),
    priceExtendedCents: cents(row['price_extended']),
    currency: row['currency'],
    publishedAt: (row['published_at'] as Date).toISOString().replace('.000Z', 'Z'),
  };
}

function truth(sim: Simulator): SimItem[] {
  return [...sim.truth(KEY)].map(({ extra: _extra, ...item }) => item).sort((a, b) => a.id - b.id);
}

async function liveItems(): Promise<object[]> {
  return (await mirror().items()).filter((row) => row.state === 'live').map(toSimItem);
}

describe('a run of items', () => {
  it.each(['documented', 'field-1', 'field-2'] as const)(
    'makes the store equal the marketplace of profile %s',
    async (profile) => {
      const { sim, sync } = await market(57, { profile });
      const report = await sync();
      expect(report).toMatchObject({
        state: 'succeeded',
        problem: null,
        counts: { listed: 57, added: 57, quarantined: 0 },
      });
      expect(await liveItems()).toEqual(truth(sim));
    },
  );

  it('stores no change when only order and notation change, and does not parse the new notation again', async () => {
    const { sim, catalogue, sync } = await synced(40);
    const before = await mirror().items();
    catalogue.shuffle(3);
    sim.setProfile('documented', notationQuirks);
    const unchanged = { unchanged: 40, added: 0, changed: 0, extraChanged: 0 };
    const first = await sync();
    expect(first.counts).toMatchObject(unchanged);
    const after = await mirror().items();
    expect(after.map(contentOf)).toEqual(before.map(contentOf));
    const second = await sync();
    expect(second.counts).toMatchObject(unchanged);
    // No record was parsed: only the list's own notation is counted.
    expect(second.counts.tolerated).toEqual({ 'envelope.items-object': 1 });
    expect(await mirror().items()).toEqual(after);
  });

  it('writes only the changed rows, with the time of the change; an unknown field is no change', async () => {
    const { catalogue, sync } = await synced(20);
    const before = await mirror().items();
    catalogue.change(1005, { name: 'Renamed', priceRegularCents: 4200 });
    const report = await sync();
    expect(report.counts).toMatchObject({ changed: 1, unchanged: 19 });
    const after = await mirror().items();
    const written = after.filter((row, i) => row['written_by'] !== before[i]?.['written_by']);
    expect(written.map((row) => row.item_id)).toEqual(['1005']);
    expect(written[0]).toMatchObject({
      name: 'Renamed',
      price_regular: '42.00',
      synced_run_id: String(report.runId),
    });
    expect(written[0]?.['changed_at']).not.toEqual(before[4]?.['changed_at']);
    expect(written[0]?.['first_seen_at']).toEqual(before[4]?.['first_seen_at']);
    catalogue.change(1001, { extra: { rating: 5 } });
    expect((await sync()).counts).toMatchObject({ changed: 0, extraChanged: 1 });
    expect((await mirror().items())[0]).toMatchObject({
      extra: { rating: 5 },
      changed_at: before[0]?.['changed_at'],
    });
  });
});

describe('a record that can’t be read', () => {
  it('is quarantined with its reason; the known item stays unchanged and not missing', async () => {
    const { sim, catalogue, sync } = await market(300);
    catalogue.breakRecord(1300, '{"id":1300,"name":{"broken":true}}');
    const report = await sync();
    expect(report).toMatchObject({ state: 'succeeded', counts: { added: 299, quarantined: 1 } });
    expect(report.warnings.join()).toMatch(/1 of 300 records could not be read/);
    const rows = await mirror().rows('SELECT item_id, reason, raw FROM mirror.quarantine');
    expect(rows).toEqual([
      {
        item_id: '1300',
        reason: expect.stringMatching(/^name is not text/),
        raw: '{"id":1300,"name":{"broken":true}}',
      },
    ]);
    const before = await mirror().items();
    catalogue.breakRecord(1003, '{"id":1003,"name":null}');
    const { counts } = await sync();
    expect(counts).toMatchObject({ quarantined: 2, missing: 0, removed: 0, unchanged: 298 });
    expect(await mirror().items()).toEqual(before);
    expect(sim.log.filter(({ operation }) => operation === 'item')).toEqual([]);
    for (let id = 1001; id <= 1200; id++) catalogue.breakRecord(id, `{"identifier":${id}}`);
    expect(await sync()).toMatchObject({ state: 'failed', problem: { code: 'unreadable' } });
    expect(await mirror().items()).toEqual(before);
  });

  it('does not hide a sound copy of the item: it is no longer missing', async () => {
    const { sim, catalogue, sync } = await synced(20);
    const { name } = catalogue.find(1003)?.item ?? { name: '' };
    catalogue.setState(1003, 'pending');
    sim.faults.always('item', { kind: 'server-error' });
    expect((await sync()).counts).toMatchObject({ missing: 1 });
    catalogue.restore(1003);
    catalogue.setWire(1003, { name: null });
    catalogue.duplicate(1003, { name });
    expect((await sync()).counts).toMatchObject({ quarantined: 1, duplicates: 0, unchanged: 20 });
    expect((await mirror().items()).map(({ state }) => state)).toEqual(Array(20).fill('live'));
  });
});

describe('an odd record', () => {
  it('is stored as well as PostgreSQL can: long texts, NUL characters, large ids and odd numbers', async () => {
    const { catalogue, sync, syncItem } = await market(6);
    // An id above 2^31, and 16 MB of description.
    catalogue.setWire(1001, { id: 9007199254740991 });
    const description = `<p>${'ä"\\\n'.repeat(4 << 20)}</p>`;
    catalogue.change(1002, { description });
    catalogue.change(1003, { name: 'a\0b', extra: { 'k\0': ['\0'] } });
    const range = '"big":1e999999,"small":1e-99999,"\\ud800":1';
    catalogue.breakRecord(1004, `{"id":1004,"name":"x",${range}}`);
    const numbers =
      '"big":12345678901234567890,"in":{"fine":0.12345678901234567890123},"ok":[1.50,21.099999999999998]';
    const name = 'x 12345678901234567890';
    catalogue.breakRecord(1005, `{"id":1005,"name":"${name}",${numbers}}`);
    expect((await sync()).counts).toMatchObject({ added: 6, quarantined: 0 });
    const stored = (id: number) =>
      mirror().rows(
        'SELECT name, extra, raw::text, length(description) AS length FROM mirror.items WHERE item_id = $1',
        [id],
      );
    expect((await mirror().items()).map((row) => row.item_id)).toContain('9007199254740991');
    expect(await stored(1002)).toMatchObject([{ length: description.length }]);
    expect(await stored(1003)).toMatchObject([
      { name: 'a\uFFFDb', extra: { 'k\uFFFD': ['\uFFFD'] } },
    ]);
    // Numbers that a double does not hold keep every digit, from the list and from a look-up.
    const extra = {
      big: '12345678901234567890',
      in: { fine: '0.12345678901234567890123' },
      ok: [1.5, 21.099999999999998],
    };
    expect(await stored(1005)).toMatchObject([
      { name, extra, raw: expect.stringContaining(numbers) as string },
    ]);
    expect((await syncItem(1005)).counts).toMatchObject({ unchanged: 1 });
    expect(await stored(1005)).toMatchObject([{ name, extra }]);
  });

  it('of several records of an item the last one counts, whatever was stored before, and the run says so', async () => {
    const { catalogue, sync } = await market(5);
    catalogue.duplicate(1002, { name: 'Second' });
    catalogue.duplicate(1002, { name: 'Last' });
    const nameOf = async (): Promise<unknown> => (await mirror().items())[1]?.['name'];
    const first = await sync();
    expect(first.counts).toMatchObject({ listed: 7, added: 5, changed: 0, duplicates: 2 });
    expect(first.warnings).toEqual([
      '2 records repeat an item of the list; the last record of an item counts',
    ]);
    expect(await nameOf()).toBe('Last');
    const settled = await mirror().items();
    // The first record differs from the stored row, and the last one is that row.
    const same = { listed: 7, changed: 0, unchanged: 5, duplicates: 2 };
    expect((await sync()).counts).toMatchObject(same);
    expect((await mirror().items()).map(contentOf)).toEqual(settled.map(contentOf));
    catalogue.duplicate(1002, { name: 'Newer' });
    catalogue.add({ ...catalogue.original(0), id: 9007, name: 'First' });
    catalogue.duplicate(9007, { name: 'Last' });
    const changed = { listed: 10, added: 1, changed: 1, unchanged: 4, duplicates: 4 };
    expect((await sync()).counts).toMatchObject(changed);
    expect(await nameOf()).toBe('Newer');
    expect((await mirror().items()).at(-1)).toMatchObject({ item_id: '9007', name: 'Last' });
    expect(
      await mirror().rows('SELECT class, old_value, new_value FROM mirror.item_changes ORDER BY 2'),
    ).toEqual([
      { class: 'text', old_value: 'Last', new_value: 'Newer' },
      { class: 'added', old_value: null, new_value: 'live' },
    ]);
  });
});

describe('an incomplete list changes nothing', () => {
  // `list.test.ts` cuts at each byte.
  const CUTS = (['destroy', 'clean', 'short'] as const).map(
    (how) => [{ kind: 'truncate', how, fraction: 0.6 }, expect.any(String)] as const,
  );

  it('wherever and however it is cut off, and whatever is sent instead', async () => {
    const { sim, catalogue, sync } = await synced(30);
    const before = await mirror().items();
    catalogue.touchShare(100, 'price');
    const faults: readonly (readonly [Fault, unknown])[] = [
      ...CUTS,
      [{ kind: 'html', status: 200 }, 'unavailable'],
      [{ kind: 'empty' }, 'unreadable'],
      [{ kind: 'reset', afterBytes: 5000 }, 'unavailable'],
      // Last: the client makes no further request until it is over.
      [{ kind: 'rate-limited', retryAfter: 3600 }, 'limited'],
    ];
    for (const [fault, code] of faults) {
      sim.faults.always('list', fault);
      const report = await sync();
      expect(report, JSON.stringify(fault)).toMatchObject({ state: 'failed', problem: { code } });
      expect(await mirror().items()).toEqual(before);
      sim.faults.clear();
    }
  });
});
