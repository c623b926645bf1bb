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

  it('writes only the changed rows, with the time of the change', async () => {
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
  });

  it('updates unknown fields without counting the item as changed', async () => {
    const { catalogue, sync } = await synced(3);
    const [before] = await mirror().items();
    catalogue.change(1001, { extra: { rating: 5 } });
    expect((await sync()).counts).toMatchObject({ changed: 0, extraChanged: 1 });
    const [after] = await mirror().items();
    expect(after).toMatchObject({ extra: { rating: 5 }, changed_at: before?.['changed_at'] });
  });
});

describe('a record that can’t be read', () => {
  it('is quarantined with its reason, and the other 9,999 are mirrored', async () => {
    const { catalogue, sync } = await market(10_000);
    catalogue.breakRecord(5000, '{"id":5000,"name":{"broken":true}}');
    const report = await sync();
    expect(report).toMatchObject({ state: 'succeeded', counts: { added: 9999, quarantined: 1 } });
    expect(report.warnings.join()).toMatch(/1 of 10000 records could not be read/);
    const rows = await mirror().rows('SELECT item_id, reason, raw FROM mirror.quarantine');
    expect(rows).toEqual([
      {
        item_id: '5000',
        reason: expect.stringMatching(/^name is not text/),
        raw: '{"id":5000,"name":{"broken":true}}',
      },
    ]);
  });

  it('leaves the known item unchanged and not missing', async () => {
    const { sim, catalogue, sync } = await synced(20);
    const before = await mirror().items();
    catalogue.breakRecord(1003, '{"id":1003,"name":null}');
    const report = await sync();
    expect(report.counts).toMatchObject({ quarantined: 1, missing: 0, removed: 0, unchanged: 19 });
    expect(await mirror().items()).toEqual(before);
    expect(sim.log.filter(({ operation }) => operation === 'item')).toEqual([]);
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
    expect(await mirror().items()).toHaveLength(20);
    expect(new Set((await mirror().items()).map(({ state }) => state))).toEqual(new Set(['live']));
  });

  it('fails the run when most records are like that', async () => {
    const { catalogue, sync } = await synced(20);
    const before = await mirror().items();
    for (let id = 1001; id <= 1015; id++) catalogue.breakRecord(id, `{"identifier":${id}}`);
    const report = await sync();
    expect(report).toMatchObject({ state: 'failed', problem: { code: 'unreadable' } });
    expect(await mirror().items()).toEqual(before);
  });
});

describe('odd records', () => {
  it('an id above 2^31 is kept exactly', async () => {
    const { catalogue, sync } = await market(3);
    catalogue.setWire(1002, { id: 9007199254740991 });
    await sync();
    expect((await mirror().items()).map((row) => row.item_id)).toContain('9007199254740991');
  });

  it('a description of 16 MB is mirrored whole', async () => {
    const { catalogue, sync } = await market(3);
    const description = `<p>${'ä"\\\n'.repeat(4 << 20)}</p>`;
    catalogue.change(1002, { description });
    expect((await sync()).counts).toMatchObject({ added: 3 });
    const rows = await mirror().rows(
      'SELECT md5(description) AS md5, length(description) AS length FROM mirror.items WHERE item_id = 1002',
    );
    expect(rows[0]?.['length']).toBe(description.length);
  });

  it('NUL characters, which PostgreSQL rejects, are replaced by U+FFFD', async () => {
    const { catalogue, sync } = await market(3);
    catalogue.change(1002, { name: 'a\0b', extra: { 'k\0': ['\0'] } });
    expect((await sync()).counts).toMatchObject({ added: 3, quarantined: 0 });
    const rows = await mirror().rows('SELECT name, extra FROM mirror.items WHERE item_id = 1002');
    expect(rows[0]).toEqual({ name: 'a\uFFFDb', extra: { 'k\uFFFD': ['\uFFFD'] } });
  });

  it('numbers out of the range of doubles do not stop the run', async () => {
    const { catalogue, sync } = await market(3);
    catalogue.breakRecord(
      1002,
      '{"id":1002,"name":"x","big":1e999999,"small":1e-99999,"\\ud800":1}',
    );
    expect((await sync()).counts).toMatchObject({ added: 3, quarantined: 0 });
  });

  it('numbers that a double does not hold keep every digit, from the list and from a look-up', async () => {
    const { catalogue, sync, syncItem } = await market(3);
    const numbers =
      '"big":12345678901234567890,"in":{"fine":0.12345678901234567890123},"ok":[1.50,21.099999999999998]';
    catalogue.breakRecord(1002, `{"id":1002,"name":"x 12345678901234567890",${numbers}}`);
    expect((await sync()).counts).toMatchObject({ added: 3, quarantined: 0 });
    const extra = {
      big: '12345678901234567890',
      in: { fine: '0.12345678901234567890123' },
      ok: [1.5, 21.099999999999998],
    };
    const stored = 'SELECT name, extra, raw::text FROM mirror.items WHERE item_id = 1002';
    const name = 'x 12345678901234567890';
    expect(await mirror().rows(stored)).toMatchObject([
      { name, extra, raw: expect.stringContaining(numbers) as string },
    ]);
    expect((await syncItem(1002)).counts).toMatchObject({ unchanged: 1 });
    expect(await mirror().rows(stored)).toMatchObject([{ name, extra }]);
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
    const changed = { listed: 8, added: 0, changed: 1, unchanged: 4, duplicates: 3 };
    expect((await sync()).counts).toMatchObject(changed);
    expect(await nameOf()).toBe('Newer');
    expect(await mirror().rows('SELECT old_value, new_value FROM mirror.item_changes')).toEqual([
      { old_value: 'Last', new_value: 'Newer' },
    ]);
  });

  it('a new item that is listed twice is one new item, with its last record', async () => {
    const { catalogue, sync } = await synced(5);
    catalogue.add({ ...catalogue.original(0), id: 7, name: 'First' });
    catalogue.duplicate(7, { name: 'Last' });
    expect((await sync()).counts).toMatchObject({ added: 1, unchanged: 5, duplicates: 1 });
    expect((await mirror().items())[0]).toMatchObject({ item_id: '7', name: 'Last' });
    expect(await mirror().rows('SELECT class FROM mirror.item_changes')).toEqual([
      { class: 'added' },
    ]);
  });
});

describe('an incomplete list changes nothing', () => {
  const CUTS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999].flatMap((fraction) =>
    (['destroy', 'clean', 'short'] as const).map(
      (how) => [{ kind: 'truncate', how, fraction }, expect.any(String)] as const,
    ),
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
