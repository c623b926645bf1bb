import { describe, expect, it } from 'vitest';
import { syncCatalogue } from '../../src/jobs/sync-catalogue.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import { run } from './support.js';

const mirror = useMirror();
const items = (...args: string[]) =>
  run(['items', ...args], { DATABASE_URL: mirror().databaseUrl });

interface Row {
  readonly item_id: number;
  readonly name: string;
  readonly state: string;
}

const rows = async (...args: string[]): Promise<Row[]> =>
  JSON.parse((await items('--json', ...args)).stdout) as Row[];

/** Five items; then one is renamed, one is removed, and one is new. Returns a moment in between. */
async function history(): Promise<string> {
  const catalogue = seededCatalogue({ seed: 3, count: 5 });
  const sim = await mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
  const deps = mirror().deps(sim.url);
  await syncCatalogue(deps, never);
  const [now] = await mirror().rows<{ at: Date }>('SELECT clock_timestamp() AS at');
  const [item] = catalogue.truth();
  if (item === undefined || now === undefined) throw new Error('there is nothing to change');
  catalogue.change(1001, { name: 'Renamed' });
  catalogue.remove(1002);
  catalogue.add({ ...item, id: 2001, name: 'New' });
  await new Promise((resolve) => setTimeout(resolve, 2)); // moments are told to the millisecond
  await syncCatalogue(deps, never);
  return now.at.toISOString();
}

describe('items', () => {
  it('lists the live ones, others when they are asked for', async () => {
    await history();
    const { code, stdout } = await items();
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^item_id +name +price_regular +price_extended +currency +version +state/,
    );
    expect(stdout.trimEnd().split('\n')).toHaveLength(6);
    expect(await rows('--state', 'removed')).toMatchObject([{ item_id: 1002, state: 'removed' }]);
    expect(await rows('--state', 'all', '--limit', '4')).toHaveLength(4);
    expect(await rows('--item', '1002')).toHaveLength(1);
    expect((await items('--format', 'csv', '--item', '2001')).stdout).toMatch(
      /^seller_id,item_id,name,.*\r\nmain,2001,New,/,
    );
  });

  it('lists them as they were, exactly', async () => {
    const moment = await history();
    const were = await rows('--as-of', moment, '--state', 'all');
    expect(were.map(({ item_id }) => item_id)).toEqual([1001, 1002, 1003, 1004, 1005]);
    expect(were.every(({ state }) => state === 'live')).toBe(true);
    expect(were[0]?.name).not.toBe('Renamed');
    expect((await rows('--state', 'all')).map(({ name }) => name)).toContain('Renamed');
  });

  it('of a moment before the first list says since when there is history', async () => {
    await history();
    const [first] = await mirror().rows<{ at: Date }>(
      'SELECT min(first_seen_at) AS at FROM mirror.items',
    );
    const begin = first?.at.toISOString() ?? '';
    const early = await items('--as-of', '2001-01-01');
    expect(early).toMatchObject({ code: 1, stdout: '' });
    expect(early.stderr).toContain(`history of seller "main" begins at ${begin}`);
    expect(await rows('--as-of', begin)).toHaveLength(5);
    // Of what is deleted after a time nothing is known any more, too.
    await mirror().rows(`UPDATE mirror.sellers SET history_since = now() - interval '1 second'`);
    expect((await items('--as-of', '1h')).code).toBe(1);
  });

  it('of a seller that was added later warns, and lists the others', async () => {
    const moment = await history();
    await mirror().store.sellers.ensure('second', 'market.example');
    const { code, stderr, stdout } = await items('--as-of', moment, '--json');
    expect(stderr).toBe('warning: of seller "second" no list was mirrored yet\n');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toHaveLength(5);
  });

  it.each([
    [['--as-of', '2999-01-01'], /still to come/],
    [['--as-of', 'once'], /"once" is not a moment/],
    [['--seller', 'nobody'], /no seller "nobody"/],
    [['--json', '--format', 'csv'], /cannot be used with/],
  ])('with %j ends with 2 and says why', async (args, why) => {
    const { code, stderr } = await items(...args);
    expect(stderr).toMatch(why);
    expect(code).toBe(2);
  });
});

describe('items view', () => {
  it('shows an item whole, with what it cost since when, and as JSON with the record as received', async () => {
    const catalogue = seededCatalogue({ seed: 3, count: 3 });
    catalogue.change(1002, { name: 'Basalt \u001B[31mKit', priceRegularCents: 1900 });
    const sim = await mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
    const deps = mirror().deps(sim.url);
    await syncCatalogue(deps, never);
    catalogue.change(1002, { version: '9.9' });
    await syncCatalogue(deps, never);
    catalogue.change(1002, { priceRegularCents: 2150 });
    await syncCatalogue(deps, never);

    const { code, stdout } = await items('view', '1002');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^item 1002 · Basalt Kit · live\n/);
    expect(stdout).toMatch(/\nversion +9\.9\n/);
    expect(stdout).toMatch(/\npurchases +0\n/);
    const prices = stdout.slice(stdout.indexOf('\nprices\n')).trimEnd().split('\n').slice(3);
    expect(prices.map((line) => line.split(/ {2,}/)[1])).toEqual(['19.00', '21.50']);

    const [listed] = await rows('--item', '1002');
    const json = JSON.parse((await items('view', '1002', '--json')).stdout) as object;
    expect(json).toMatchObject({
      ...listed,
      purchases: 0,
      raw: { id: 1002, name: 'Basalt \u001B[31mKit' },
      price_history: [{ currency: 'USD' }, { currency: 'USD' }],
    });
  });

  it('says so when there is no such item', async () => {
    const { code, stderr } = await items('view', '4711');
    expect(stderr).toMatch(/^error: there is no item 4711\n {2}→ .*items --state all/);
    expect(code).toBe(1);
  });
});
