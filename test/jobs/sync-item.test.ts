import { describe, expect, it } from 'vitest';
import { syncItem } from '../../src/jobs/sync-item.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { KEY, never, useMirror } from '../support/mirror.js';

const mirror = useMirror();

async function market(options: object = {}) {
  const catalogue = seededCatalogue({ seed: 7, count: 3 });
  const sim = await mirror().simulate({
    sellers: [{ key: KEY, username: 'ada', catalogue }],
    ...options,
  });
  const deps = mirror().deps(sim.url);
  return { sim, catalogue, sync: (id: number) => syncItem(deps, id, never) };
}

describe('one item', () => {
  it.each(['documented', 'field-1', 'field-2'] as const)(
    'is mirrored from profile %s',
    async (profile) => {
      const { sync } = await market({ profile });
      expect(await sync(1002)).toMatchObject({
        state: 'succeeded',
        kind: 'item',
        counts: { added: 1 },
      });
      expect((await mirror().items()).map((row) => row.item_id)).toEqual(['1002']);
      const before = await mirror().items();
      expect((await sync(1002)).counts).toMatchObject({ unchanged: 1 });
      expect(await mirror().items()).toEqual(before);
    },
  );

  it('is updated when it has changed', async () => {
    const { catalogue, sync } = await market();
    await sync(1002);
    catalogue.change(1002, { version: '9.9.9' });
    expect((await sync(1002)).counts).toMatchObject({ changed: 1 });
    expect((await mirror().items())[0]).toMatchObject({ version: '9.9.9' });
  });

  it('that the mirror never knew and the marketplace denies is an error', async () => {
    const { sync } = await market();
    expect(await sync(77)).toMatchObject({ state: 'failed', problem: { code: 'not-found' } });
    expect(await mirror().items()).toEqual([]);
  });

  it('that is known and denied is removed, between two proofs of the key', async () => {
    const { sim, catalogue, sync } = await market();
    await sync(1002);
    catalogue.setState(1002, 'pending');
    expect(await sync(1002)).toMatchObject({ state: 'succeeded', counts: { removed: 1 } });
    expect(sim.log.slice(-5).map(({ operation }) => operation)).toEqual([
      'account',
      'item',
      'account',
      'item',
      'account',
    ]);
    expect((await mirror().items())[0]).toMatchObject({ state: 'removed' });
  });

  it.each([
    ['the only one known', [1002]],
    ['one of several', [1001, 1002]],
  ])(
    'that is %s stays when the key was bad for its look-up alone, since it is asked for again',
    async (_, known) => {
      const { sim, sync } = await market();
      for (const id of known) await sync(id);
      sim.faults.next('item', { kind: 'key-refused' });
      expect(await sync(1002)).toMatchObject({ state: 'succeeded', counts: { removed: 0 } });
      for (const row of await mirror().items()) expect(row).toMatchObject({ state: 'live' });
    },
  );

  it('stays when the key is refused in between', async () => {
    const { sim, sync } = await market();
    await sync(1002);
    sim.afterRequests(1, () => sim.revoke(KEY));
    expect(await sync(1002)).toMatchObject({ state: 'failed', problem: { code: 'refused' } });
    expect((await mirror().items())[0]).toMatchObject({ state: 'live' });
  });

  it('stays when nothing is answered', async () => {
    const { sim, sync } = await market();
    await sync(1002);
    sim.faults.always('item', { kind: 'switched-off', body: 'json' });
    expect(await sync(1002)).toMatchObject({ state: 'failed', problem: { code: 'unavailable' } });
    expect((await mirror().items())[0]).toMatchObject({ state: 'live' });
  });
});
