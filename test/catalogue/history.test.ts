import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { notationQuirks } from '../../src/simulator/index.js';
import { start } from '../cli/support.js';
import { KEY, useMirror } from '../support/mirror.js';
import { openMarket, openSynced, type RunDeps } from './market.js';

const mirror = useMirror();

const market = (count: number, deps: Partial<RunDeps> = {}) =>
  openMarket(mirror(), count, {}, deps);
const synced = (count: number, deps: Partial<RunDeps> = {}) =>
  openSynced(mirror(), count, {}, deps);

/** Every row of history, with the system column that a write would change. */
async function history(): Promise<unknown[]> {
  return mirror().rows(
    `SELECT 'version' AS what, item_id, xmin::text FROM mirror.item_versions
     UNION ALL SELECT 'change', item_id, xmin::text FROM mirror.item_changes
     UNION ALL SELECT 'account', 0, xmin::text FROM mirror.account_versions
     UNION ALL SELECT 'seller', loaded_seq, null FROM mirror.sellers ORDER BY 1, 2, 3`,
  );
}

async function changeLines(): Promise<string[]> {
  const changes = await mirror().rows<{ line: string }>(
    `SELECT concat_ws(' ', item_id, class, field) AS line FROM reporting.item_changes ORDER BY seq`,
  );
  return changes.map(({ line }) => line);
}

describe('history', () => {
  it('starts after the first load, and grows by nothing when only the notation changes', async () => {
    const { sim, catalogue, sync } = await synced(20);
    const first = await history();
    expect(first).toMatchObject([{ what: 'seller' }]);
    catalogue.shuffle(3);
    sim.setProfile('documented', notationQuirks);
    await sync();
    expect(await history()).toEqual(first);
  });

  it('records an item that is mirrored by itself, before any list and after', async () => {
    const { catalogue, syncItem, sync } = await market(3);
    await syncItem(1001);
    expect(await changeLines()).toEqual(['1001 added state']);
    await sync();
    expect(await changeLines()).toHaveLength(1);
    catalogue.change(1002, { demoLink: 'https://example.com/demo' });
    await syncItem(1002);
    catalogue.remove(1003);
    await syncItem(1003);
    expect((await changeLines()).slice(1)).toEqual(['1002 text demo_link', '1003 removed state']);
  });

  it('restarts when the table was emptied, as with a first load', async () => {
    const { sync } = await synced(5);
    const loaded = async (): Promise<unknown> =>
      (await mirror().rows('SELECT loaded_seq::int AS at FROM mirror.sellers'))[0]?.['at'];
    const before = await loaded();
    await mirror().pool.query('TRUNCATE mirror.items');
    await sync();
    expect(await changeLines()).toEqual([]);
    expect(await loaded()).toBeGreaterThan(before as number);
  });
});

describe('a wide change', () => {
  it('is not recorded when most items only returned unchanged', async () => {
    const { catalogue, sync } = await market(40);
    // Every item that stayed has another price, but they are few.
    const reprice = (cents: number): void =>
      [1039, 1040].forEach((id) => catalogue.change(id, { priceRegularCents: cents }));
    const ids = Array.from({ length: 38 }, (_, n) => 1001 + n);
    await sync();
    for (const id of ids) catalogue.remove(id);
    expect(await sync()).toMatchObject({ state: 'held' });
    for (const id of ids) catalogue.restore(id);
    reprice(111);
    expect((await sync()).counts).toMatchObject({ changed: 2, restored: 0, unchanged: 38 });
    await mirror().pool.query(`UPDATE mirror.items SET state = 'removed' WHERE item_id < 1039`);
    reprice(222);
    expect((await sync()).counts).toMatchObject({ changed: 2, restored: 38, unchanged: 0 });
    const marks = `SELECT run_id FROM reporting.sync_runs WHERE wide_fields <> '{}'`;
    expect(await mirror().rows(marks)).toEqual([]);
  });
});

describe('the history of an account', () => {
  it('keeps superseded versions, and adds none without a change', async () => {
    const { sim, catalogue, syncAccount } = await market(1);
    const truth: unknown[][] = [];
    const night = async (): Promise<void> => {
      await syncAccount();
      truth.push(await mirror().rows('SELECT * FROM reporting.accounts'));
    };
    await night();
    await night();
    const count = async (): Promise<number> =>
      (await mirror().rows('SELECT FROM mirror.account_versions')).length;
    expect(await count()).toBe(0);
    sim.addSeller({ key: KEY, username: 'ada', catalogue, account: { balanceCents: 4711 } });
    await night();
    expect(await count()).toBe(1);
    const runs = await mirror().rows<{ started_at: Date }>(
      'SELECT started_at FROM mirror.runs ORDER BY run_id',
    );
    for (const [n, { started_at }] of runs.entries()) {
      const then = await mirror().rows('SELECT * FROM reporting.accounts_as_of($1)', [started_at]);
      expect(then).toEqual(truth[n]);
    }
  });
});

it('a file of items is a picture of one moment, however long its reader takes', async () => {
  await synced(2_000);
  const command = start(['items', '--format', 'csv'], { DATABASE_URL: mirror().databaseUrl });
  const { stdout } = command.process;
  await once(stdout, 'data');
  stdout.pause();
  await mirror().rows(`UPDATE mirror.items SET name = 'Later'`);
  stdout.resume();
  const { code, stdout: file } = await command.ended;
  expect(code).toBe(0);
  expect(file.match(/^main,\d+,/gm)).toHaveLength(2_000);
  expect(file).not.toContain('Later');
});
