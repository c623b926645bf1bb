import { describe, expect, it } from 'vitest';
import { syncCatalogue } from '../../src/jobs/sync-catalogue.js';
import type { JobDeps } from '../../src/jobs/types.js';
import {
  notationQuirks,
  seededCatalogue,
  type Fault,
  type SimItem,
  type Simulator,
} from '../../src/simulator/index.js';
import { KEY, never, useMirror, type ItemRow } from '../support/mirror.js';

const mirror = useMirror();

async function market(
  count: number,
  options: object = {},
): Promise<{ sim: Simulator; deps: JobDeps; sync: () => ReturnType<typeof syncCatalogue> }> {
  const catalogue = seededCatalogue({ seed: 7, count });
  const sim = await mirror().simulate({
    sellers: [{ key: KEY, username: 'ada', catalogue }],
    ...options,
  });
  const deps = mirror().deps(sim.url);
  return { sim, deps, sync: () => syncCatalogue(deps, never) };
}

const catalogueOf = (sim: Simulator) => sim.seller(KEY).catalogue;
const cents = (value: unknown): number | null =>
  value === null ? null : Math.round(Number(value) * 100);

function asTold(row: ItemRow): object {
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
  return (await mirror().items()).filter((row) => row.state === 'live').map(asTold);
}

describe('a catalogue run', () => {
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

  it('reports what it did in mirror.runs, in figures', async () => {
    const { sync } = await market(5);
    const { runId } = await sync();
    const [run] = await mirror().rows('SELECT * FROM mirror.runs WHERE run_id = $1', [runId]);
    expect(run).toMatchObject({
      state: 'succeeded',
      kind: 'items',
      listed: 5,
      added: 5,
      api_calls: 2,
      problem: null,
    });
    expect(run?.['finished_at']).toBeInstanceOf(Date);
  });

  it('writes no item row on an unchanged night', async () => {
    const { sync } = await market(40);
    await sync();
    const before = await mirror().items();
    expect((await sync()).counts).toMatchObject({ unchanged: 40, added: 0, changed: 0 });
    expect(await mirror().items()).toEqual(before);
  });

  it('writes no item row when only order and notation change, since nothing has changed', async () => {
    const { sim, sync } = await market(40);
    await sync();
    const before = await mirror().items();
    catalogueOf(sim).shuffle(3);
    sim.setProfile('documented', notationQuirks);
    const report = await sync();
    expect(report.counts).toMatchObject({ unchanged: 40, changed: 0, extraChanged: 0 });
    expect(await mirror().items()).toEqual(before);
  });

  it('writes exactly the changed rows, and says when they changed', async () => {
    const { sim, sync } = await market(20);
    await sync();
    const before = await mirror().items();
    catalogueOf(sim).change(1005, { name: 'Renamed', priceRegularCents: 4200 });
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

  it('updates unknown fields without calling the item changed', async () => {
    const { sim, sync } = await market(3);
    await sync();
    const [before] = await mirror().items();
    catalogueOf(sim).change(1001, { extra: { rating: 5 } });
    expect((await sync()).counts).toMatchObject({ changed: 0, extraChanged: 1 });
    const [after] = await mirror().items();
    expect(after).toMatchObject({ extra: { rating: 5 }, changed_at: before?.['changed_at'] });
  });
});

describe('a record that can’t be read', () => {
  it('is quarantined with its reason while the other 9,999 are mirrored', async () => {
    const { sim, sync } = await market(10_000);
    catalogueOf(sim).breakRecord(5000, '{"id":5000,"name":{"broken":true}}');
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

  it('may even be no JSON, as long as its brackets balance', async () => {
    const { sim, sync } = await market(20);
    catalogueOf(sim).breakRecord(1003, '{"id":1003,"name":}');
    expect((await sync()).counts).toMatchObject({ added: 19, quarantined: 1 });
  });

  it('leaves the known item as it was and does not make it missing', async () => {
    const { sim, sync } = await market(20);
    await sync();
    const before = await mirror().items();
    catalogueOf(sim).breakRecord(1003, '{"id":1003,"name":null}');
    const report = await sync();
    expect(report.counts).toMatchObject({ quarantined: 1, missing: 0, removed: 0, unchanged: 19 });
    expect(await mirror().items()).toEqual(before);
    expect(sim.log.filter(({ operation }) => operation === 'item')).toEqual([]);
  });

  it('makes one row of quarantine, however often it comes', async () => {
    const { sim, sync } = await market(20);
    catalogueOf(sim).breakRecord(1003, '{"id":1003,"name":null}');
    const first = await sync();
    const last = await sync();
    const rows = await mirror().rows('SELECT first_run_id, last_run_id FROM mirror.quarantine');
    expect(rows).toEqual([{ first_run_id: String(first.runId), last_run_id: String(last.runId) }]);
  });

  it('fails the run when most records are like that: another format is no catalogue', async () => {
    const { sim, sync } = await market(20);
    await sync();
    const before = await mirror().items();
    for (let id = 1001; id <= 1015; id++) catalogueOf(sim).breakRecord(id, `{"identifier":${id}}`);
    const report = await sync();
    expect(report).toMatchObject({ state: 'failed', problem: { code: 'unreadable' } });
    expect(await mirror().items()).toEqual(before);
  });
});

describe('odd records', () => {
  it.each([
    ['an id as text', 1002, { id: '1002' }],
    ['an id as a float', 1002, { id: '1002.0' }],
    ['a negative price', 1002, { price: { regular: -5, extended: 1 } }],
    ['null prices', 1002, { price: null }],
  ] as const)('%s is read', async (_title, id, wire) => {
    const { sim, sync } = await market(5);
    catalogueOf(sim).setWire(id, wire);
    expect((await sync()).counts).toMatchObject({ added: 5, quarantined: 0 });
  });

  it('an id above 2^31 is kept exactly', async () => {
    const { sim, sync } = await market(3);
    catalogueOf(sim).setWire(1002, { id: 9007199254740991 });
    await sync();
    expect((await mirror().items()).map((row) => row.item_id)).toContain('9007199254740991');
  });

  it('a huge price is quarantined, since no column could hold it', async () => {
    const { sim, sync } = await market(20);
    catalogueOf(sim).setWire(1002, { price: { regular: 1e20, extended: 1 } });
    expect((await sync()).counts).toMatchObject({ added: 19, quarantined: 1 });
  });

  it('a description of 16 MB is mirrored whole', async () => {
    const { sim, sync } = await market(3);
    const description = `<p>${'ä"\\\n'.repeat(4 << 20)}</p>`;
    catalogueOf(sim).change(1002, { description });
    expect((await sync()).counts).toMatchObject({ added: 3 });
    const rows = await mirror().rows(
      'SELECT md5(description) AS md5, length(description) AS length FROM mirror.items WHERE item_id = 1002',
    );
    expect(rows[0]?.['length']).toBe(description.length);
  });

  it('NUL characters, which PostgreSQL refuses, are replaced where they can be seen', async () => {
    const { sim, sync } = await market(3);
    catalogueOf(sim).change(1002, { name: 'a\0b', extra: { 'k\0': ['\0'] } });
    expect((await sync()).counts).toMatchObject({ added: 3, quarantined: 0 });
    const rows = await mirror().rows('SELECT name, extra FROM mirror.items WHERE item_id = 1002');
    expect(rows[0]).toEqual({ name: 'a\uFFFDb', extra: { 'k\uFFFD': ['\uFFFD'] } });
  });

  it('numbers that only JSON can write do not stop the run', async () => {
    const { sim, sync } = await market(3);
    catalogueOf(sim).breakRecord(
      1002,
      '{"id":1002,"name":"x","big":1e999999,"small":1e-99999,"\\ud800":1}',
    );
    expect((await sync()).counts).toMatchObject({ added: 3, quarantined: 0 });
  });

  it('a copy of a record in the list is counted and changes nothing', async () => {
    const { sim, sync } = await market(5);
    catalogueOf(sim).duplicate(1002);
    expect((await sync()).counts).toMatchObject({ listed: 6, added: 5, duplicates: 1 });
    expect((await sync()).counts).toMatchObject({ unchanged: 5, duplicates: 1, changed: 0 });
  });

  it('of contradicting copies the same one counts whatever the order, so that nothing flickers', async () => {
    const { sim, sync } = await market(5);
    catalogueOf(sim).duplicate(1002, { name: 'Other' });
    catalogueOf(sim).duplicate(1002, { name: 'Third' });
    await sync();
    const settled = await mirror().items();
    expect(settled).toHaveLength(5);
    for (const seed of [1, 2, 3, 4]) {
      catalogueOf(sim).shuffle(seed);
      await sync();
      expect(await mirror().items()).toEqual(settled);
    }
  });
});

describe('a list that is not whole changes nothing', () => {
  it.each([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999])(
    'cut off after %d of its bytes',
    async (fraction) => {
      const { sim, sync } = await market(30);
      await sync();
      const before = await mirror().items();
      catalogueOf(sim).touchShare(100, 'price');
      for (const how of ['destroy', 'clean', 'short'] as const) {
        sim.faults.always('list', { kind: 'truncate', how, fraction });
        const report = await sync();
        expect(report.state).toBe('failed');
        expect(await mirror().items()).toEqual(before);
        sim.faults.clear();
      }
    },
  );

  const failures: readonly [string, Fault, string][] = [
    ['429', { kind: 'rate-limited', retryAfter: 3600 }, 'limited'],
    ['500', { kind: 'server-error' }, 'unavailable'],
    ['503', { kind: 'maintenance' }, 'unavailable'],
    ['maintenance by redirect', { kind: 'maintenance-redirect' }, 'unavailable'],
    ['HTML at 200', { kind: 'html', status: 200 }, 'unavailable'],
    ['HTML at 404', { kind: 'switched-off', body: 'html' }, 'unavailable'],
    ['JSON at 404 without the envelope', { kind: 'switched-off', body: 'json' }, 'unavailable'],
    ['a bot challenge', { kind: 'challenge', status: 403 }, 'unavailable'],
    ['an empty body', { kind: 'empty' }, 'unreadable'],
    ['JSON of another kind', { kind: 'wrong-type', json: 'array' }, 'unreadable'],
    ['a reset connection', { kind: 'reset', afterBytes: 5000 }, 'unavailable'],
    ['a redirect to the home page', { kind: 'redirect', to: 'home' }, 'unavailable'],
  ];
  it.each(failures)('%s', async (_title, fault, code) => {
    const { sim, sync } = await market(30);
    await sync();
    const before = await mirror().items();
    sim.faults.always('list', fault);
    expect(await sync()).toMatchObject({ state: 'failed', problem: { code } });
    expect(await mirror().items()).toEqual(before);
  });

  it('not even mirror.quarantine, whenever the list ends', async () => {
    const { sim, sync } = await market(400);
    for (let id = 1001; id <= 1150; id++) {
      catalogueOf(sim).breakRecord(id, `{"id":${id},"name":null}`);
    }
    for (const fraction of [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99]) {
      sim.faults.always('list', { kind: 'truncate', how: 'clean', fraction });
      const report = await sync();
      expect(report).toMatchObject({ state: 'failed', counts: { added: 0, quarantined: 0 } });
      sim.faults.clear();
      expect(await mirror().rows('SELECT * FROM mirror.quarantine')).toEqual([]);
    }
  });

  it('one broken item that turns the whole list into a 500', async () => {
    const { sim, sync } = await market(30);
    await sync();
    catalogueOf(sim).poison(1007);
    const before = await mirror().items();
    expect(await sync()).toMatchObject({ state: 'failed', problem: { code: 'unavailable' } });
    expect(await mirror().items()).toEqual(before);
  });

  it('but a passing fault is overcome within the run', async () => {
    const { sim, sync } = await market(30);
    sim.faults.next('list', { kind: 'truncate', how: 'destroy', fraction: 0.5 });
    expect(await sync()).toMatchObject({ state: 'succeeded', counts: { listed: 30, added: 30 } });
    expect(await liveItems()).toEqual(truth(sim));
  });
});

describe('what stands before or around the JSON is no matter', () => {
  const prefixes: readonly [string, Fault][] = [
    ['a byte order mark', { kind: 'prefix', text: 'bom' }],
    ['white space', { kind: 'prefix', text: 'whitespace' }],
    ['PHP warnings', { kind: 'prefix', text: 'php-warnings' }],
    ['gzip', { kind: 'encoding', encoding: 'gzip' }],
    ['brotli', { kind: 'encoding', encoding: 'br' }],
    ['a slow body', { kind: 'slow', chunkBytes: 3000, pauseMs: 2 }],
  ];
  it.each(prefixes)('%s', async (_title, fault) => {
    const { sim, sync } = await market(30);
    sim.faults.always('any', fault);
    const report = await sync();
    expect(report.problem).toBeNull();
    expect(report).toMatchObject({ state: 'succeeded', counts: { added: 30 } });
    expect(await liveItems()).toEqual(truth(sim));
  });

  it('translated status and messages', async () => {
    const { sim, sync } = await market(30, { language: 'de' });
    const report = await sync();
    expect(report.problem).toBeNull();
    expect(report).toMatchObject({ state: 'succeeded', counts: { added: 30 } });
    expect(await liveItems()).toEqual(truth(sim));
  });
});
