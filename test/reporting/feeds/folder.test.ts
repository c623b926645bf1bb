import { mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { deliverFeed, type ViewReport } from '../../../src/reporting/feeds/deliver.js';
import { folderTarget } from '../../../src/reporting/feeds/folder.js';
import { TargetError } from '../../../src/reporting/feeds/target.js';
import { withExports } from '../../../src/reporting/exports.js';
import { openSynced, type Market } from '../../catalogue/market.js';
import { never, useMirror } from '../../support/mirror.js';

const mirror = useMirror();
let folder: string;
let market: Market;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'smfeed-'));
  market = await openSynced(mirror(), 10);
});
afterEach(() => rm(folder, { recursive: true }));

function deliver(
  target = folderTarget(folder, 'ndjson'),
  views = ['items'],
): Promise<ViewReport[]> {
  const content = { views, sellers: null, deletes: 'delete' } as const;
  return withExports(mirror().databaseUrl, never, (exports) =>
    deliverFeed(exports, target, content, { signal: never }),
  );
}

async function change(version: string): Promise<number> {
  const [first = { id: 0 }] = [...market.catalogue.truth()];
  market.catalogue.change(first.id, { version });
  await market.sync();
  return first.id;
}

/** Reads the parts that the manifest lists, and their lines. */
async function readParts() {
  const text = await readFile(join(folder, 'items/manifest.json'), 'utf8');
  const { parts } = JSON.parse(text) as { parts: { path: string; rows: number }[] };
  const read = parts.map(({ path }) => readFile(join(folder, path), 'utf8'));
  const lines = (await Promise.all(read)).map((part) => part.trim().split('\n'));
  return { parts, lines };
}

async function listFiles(): Promise<string[]> {
  const names = await readdir(join(folder, 'items'), { recursive: true });
  return names.filter((name) => /part-|json/.test(name)).sort();
}

describe('a feed into a folder', () => {
  it('writes a part for each delivery with changes, and a manifest that lists the parts', async () => {
    await deliver();
    const id = await change('9.9');
    await deliver();
    await deliver();
    const { parts, lines } = await readParts();
    expect(parts.map(({ rows }) => rows)).toEqual([10, 1]);
    expect(lines.map((part) => part.length)).toEqual([10, 1]);
    const last = { item_id: id, version: '9.9', _deleted: false };
    expect(JSON.parse(lines[1]?.[0] ?? '')).toMatchObject(last);
  });

  it.each(['', '{}', '[]', 'null', '{"parts": [1]}'])(
    'says which file to delete when people have damaged it: %j',
    async (text) => {
      await deliver();
      const path = join(folder, 'items/manifest.json');
      await writeFile(path, text);
      const failure: unknown = await deliver().catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(TargetError);
      expect(failure).toMatchObject({
        message: `${path} is damaged`,
        remedy: expect.stringContaining('delete it') as string,
      });
      await rm(path);
      expect(await deliver()).toMatchObject([{ kind: 'all', rows: 10 }]);
    },
  );

  it('removes the unfinished part of a failed delivery, so that a full disk gets its space back', async () => {
    const cut = async function* (): AsyncGenerator<Buffer> {
      yield Buffer.from('4711\tf\n');
      await Promise.reject(new TargetError('cut', ''));
    };
    const target = folderTarget(folder, 'ndjson');
    const shape = {
      view: 'items',
      columns: [{ name: 'item_id', type: 'bigint' }],
      key: ['item_id'],
      indexed: [],
      isMarked: false,
      sellers: null,
    };
    const next = () => ({ epoch: '', cursor: null, shape: '', digest: null });
    const nowhere = await target.position('items');
    await expect(target.apply(shape, nowhere, cut(), next)).rejects.toThrow('cut');
    expect(await listFiles()).toEqual([]);
  });

  it('stays complete and lists only existing files when two processes write at once', async () => {
    market = await openSynced(mirror(), 400);
    for (let turn = 0; turn < 8; turn++) {
      const both = [1, 2].map(() => {
        const target = folderTarget(folder, 'ndjson');
        Object.defineProperty(target, 'partBytes', { value: 1 });
        return deliver(target);
      });
      await Promise.all(both);
      const { lines } = await readParts();
      const rows = lines.flat().map((line) => JSON.parse(line) as { item_id: number });
      expect(new Set(rows.map((row) => row.item_id)).size).toBe(400);
      if (turn % 2 === 0) await folderTarget(folder, 'ndjson').reset('items');
      else await change(`${turn}`);
    }
  });

  it('removes old parts and drafts of killed processes once a new load is complete', async () => {
    await deliver();
    const [part = ''] = (await readParts()).parts.map(({ path }) => path);
    const mine = join(folder, 'items/part-1');
    await mkdir(mine);
    await writeFile(join(mine, 'keep.json'), '');
    await writeFile(join(folder, dirname(part), '.part-000002.1a2b3c4d'), '');
    await writeFile(join(folder, 'items/.lock'), '');
    const long = new Date(Date.now() - 60_000);
    await utimes(join(folder, 'items/.lock'), long, long);
    await folderTarget(folder, 'ndjson').reset('items');
    await change('9.9');
    await deliver();
    const listed = (await readParts()).parts.map(({ path }) => path.replace('items/', ''));
    expect(await listFiles()).toEqual(
      [...listed, 'manifest.json', 'part-1', 'part-1/keep.json'].sort(),
    );
  });
});
