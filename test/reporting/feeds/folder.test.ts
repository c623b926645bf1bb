import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { textsOfRows } from './places.js';
import { World } from './world.js';

let world: World;
let lake: string;
beforeAll(async () => {
  world = await World.open();
  lake = join(world.folder, 'lake');
  feed();
  await world.sync();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.rows('DELETE FROM mirror.feed_views');
  rmSync(lake, { recursive: true, force: true });
  feed();
});

const feed = (more: object = {}): void =>
  world.feeds({ name: 'lake', folder: 'lake', format: 'ndjson', views: ['items'], ...more });
const path = (...names: string[]): string => join(lake, ...names);

async function expectEqual(): Promise<void> {
  const { columns, rows } = await world.view('items');
  const lines = readFileSync(path('items.ndjson'), 'utf8').split('\n').slice(0, -1);
  const found = lines.map((line) => {
    const row = JSON.parse(line) as Record<string, unknown>;
    return { ...row, extra: JSON.stringify(row['extra']), tags: JSON.stringify(row['tags']) };
  });
  expect(textsOfRows(found, columns)).toEqual(rows);
}

describe('a feed into a folder', () => {
  it('holds one whole file for each view, and replaces it only when its content differs', async () => {
    expect((await world.deliver()).views).toMatchObject([{ view: 'items', rows: 12 }]);
    await expectEqual();
    expect(readdirSync(lake).sort()).toEqual(['_seller_mirror.json', 'items.ndjson']);
    expect((await world.deliver()).views).toMatchObject([{ rows: 0 }]);
    world.catalogues.ada.change([...world.catalogues.ada.truth()][0]?.id ?? 0, { name: 'new' });
    await world.sync();
    expect((await world.deliver()).problem).toBeNull();
    await expectEqual();
  });

  it('writes a file again that somebody changed or deleted, and names a record that is damaged', async () => {
    await world.deliver();
    const before = readFileSync(path('items.ndjson'), 'utf8');
    writeFileSync(path('items.ndjson'), before.replace('live', 'evil'));
    await world.deliver();
    await expectEqual();
    rmSync(path('items.ndjson'));
    expect((await world.deliverQuietly('lake')).problem).toBeNull();
    await expectEqual();
    writeFileSync(path('items.ndjson'), before.slice(100));
    await world.deliverQuietly('lake');
    await expectEqual();
    for (const text of ['', '[]', '{"views": 1}']) {
      writeFileSync(path('_seller_mirror.json'), text);
      expect((await world.deliverQuietly('lake')).problem).toMatch(
        /_seller_mirror.json is damaged: delete it/,
      );
    }
  });

  it('refuses to replace a file of somebody, and stops only that view', async () => {
    mkdirSync(lake);
    writeFileSync(path('items.ndjson'), 'mine');
    feed({ views: ['items', 'accounts'] });
    const { views } = await world.deliver();
    expect(views[0]?.problem?.message).toContain('items.ndjson is a file of yours');
    expect(views[1]).toMatchObject({ rows: 2, problem: null });
    expect(readFileSync(path('items.ndjson'), 'utf8')).toBe('mine');
  });

  it('replaces the parts and the manifest of an earlier version, and keeps other files there', async () => {
    const part = 'items/2026-11-01/part-000001-0123abcd.ndjson';
    mkdirSync(path('items/2026-11-01'), { recursive: true });
    writeFileSync(path(part), '{}');
    writeFileSync(path('items/mine.txt'), 'mine');
    writeFileSync(
      path('items/manifest.json'),
      JSON.stringify({ parts: [{ path: part }, { path: '../../feeds.json' }] }),
    );
    await world.deliver();
    await expectEqual();
    expect(readdirSync(path('items'))).toEqual(['mine.txt']);
    expect(existsSync(join(world.folder, 'feeds.json'))).toBe(true);
  });

  it('has one owner, also of two copies of a store', async () => {
    await world.deliver();
    const copy = await world.copy();
    onTestFinished(() => copy.close());
    copy.feeds({ name: 'lake', folder: lake, format: 'ndjson', views: ['items'] });
    expect((await copy.deliver()).problem).toBeNull();
    expect((await world.deliver()).problem).toContain('another store');
    await world.printed('feed', 'take-over', 'lake');
    expect((await world.deliver()).problem).toBeNull();
  });

  it('changes its format unless somebody has a file of that name, and leaves no draft behind', async () => {
    await world.deliver();
    writeFileSync(path('.items.ndjson.0badc0de'), 'half of a killed delivery');
    writeFileSync(path('items.csv'), 'mine');
    feed({ format: 'csv' });
    expect((await world.deliver()).problem).toContain('items.csv is a file of yours');
    expect(readFileSync(path('items.csv'), 'utf8')).toBe('mine');
    rmSync(path('items.csv'));
    expect((await world.deliver()).problem).toBeNull();
    expect(readdirSync(lake).sort()).toEqual(['_seller_mirror.json', 'items.csv']);
  });
});
