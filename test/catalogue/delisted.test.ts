import { describe, expect, it } from 'vitest';
import { cutLock, useMirror } from '../support/mirror.js';
import { openSynced, type RunDeps } from './market.js';

const mirror = useMirror();
const market = (count: number, deps: Partial<RunDeps> = {}) =>
  openSynced(mirror(), count, {}, deps);

describe('the item counts in mirror.sellers', () => {
  it('equal a count of the items, whatever changed their states', async () => {
    const { sim, catalogue, sync, syncItem } = await market(20);
    const add = (id: number): void => catalogue.add({ ...catalogue.original(0), id });
    const steps: [what: string, act: () => Promise<unknown>, expected: string][] = [
      ['a first list', () => Promise.resolve(), '20/0/0'],
      ['new items', () => (add(1), add(2), sync()), '22/0/0'],
      [
        'an item that is missing, since its look-up failed',
        () => {
          catalogue.remove(1003);
          sim.faults.next('item', { kind: 'server-error' }, 2);
          return sync();
        },
        '21/1/0',
      ],
      [
        'an item that is found again, with another name',
        () => {
          catalogue.restore(1003);
          catalogue.change(1003, { name: 'Renamed' });
          return sync();
        },
        '22/0/0',
      ],
      [
        'an item that its look-up finds',
        () => (catalogue.setState(1004, 'unlisted'), sync()),
        '22/0/0',
      ],
      ['a removed item', () => (catalogue.remove(1005), sync()), '21/0/1'],
      ['a removed item, by itself', () => (catalogue.remove(1006), syncItem(1006)), '20/0/2'],
      ['a restored item, by itself', () => (catalogue.restore(1006), syncItem(1006)), '21/0/1'],
      ['a restored item', () => (catalogue.restore(1005), sync()), '22/0/0'],
      ['a new item, by itself', () => (add(3), syncItem(3)), '23/0/0'],
      [
        'a count that is wrong',
        async () => {
          await mirror().pool.query('UPDATE mirror.sellers SET live_items = 7');
          return sync();
        },
        '23/0/0',
      ],
    ];
    for (const [what, act, expected] of steps) {
      await act();
      const [row] = await mirror().rows(
        `SELECT concat_ws('/', s.live_items, s.missing_items, s.removed_items) AS kept,
                (SELECT concat_ws('/', count(*) FILTER (WHERE state = 'live'),
                                  count(*) FILTER (WHERE state = 'missing'),
                                  count(*) FILTER (WHERE state = 'removed'))
                   FROM mirror.items) AS counted
           FROM mirror.sellers s`,
      );
      expect({ what, ...row }).toEqual({ what, kept: expected, counted: expected });
    }
  });
});

/** The changes of state in item_changes, and the states in the history, of one item. */
async function statesOf(id: number): Promise<{ changes: string[]; history: string[] }> {
  const changes = await mirror().rows<{ line: string }>(
    `SELECT concat(old_value #>> '{}', ' → ', new_value #>> '{}') AS line
       FROM mirror.item_changes WHERE item_id = $1 AND field = 'state' ORDER BY seq`,
    [id],
  );
  const history = await mirror().rows<{ state: string }>(
    'SELECT state::text FROM reporting.item_history WHERE item_id = $1 ORDER BY valid_from',
    [id],
  );
  return { changes: changes.map(({ line }) => line), history: history.map(({ state }) => state) };
}

describe('the result of look-ups', () => {
  it('is published once: found items have no entry, the others only their final state', async () => {
    const { sim, catalogue, sync } = await market(20);
    catalogue.setState(1003, 'unlisted');
    catalogue.setState(1004, 'unlisted');
    catalogue.change(1004, { name: 'Renamed' });
    catalogue.remove(1005);
    catalogue.remove(1002);
    // Account, list, and the first proof of the key pass.
    sim.afterRequests(4, () => sim.faults.next('item', { kind: 'server-error' }, 2));
    expect((await sync()).counts).toMatchObject({ changed: 1, removed: 1, missing: 0 });
    expect(await statesOf(1003)).toEqual({ changes: [], history: ['live'] });
    expect(await statesOf(1004)).toEqual({ changes: [], history: ['live', 'live'] });
    expect(await statesOf(1005)).toEqual({
      changes: ['live → removed'],
      history: ['live', 'removed'],
    });
    // Its look-up got no answer, and those that did found items: the list is not whole.
    expect(await statesOf(1002)).toEqual({ changes: [], history: ['live'] });
  });
});

const asked = (log: readonly { operation: string | null; parameters: object }[]): number[] =>
  log.flatMap(({ operation, parameters }) =>
    operation === 'item' ? [Number((parameters as { item_id: string }).item_id)] : [],
  );

const GONE = Array.from({ length: 40 }, (_, n) => 1061 + n);

/** Of 100 items, removes 40 and unlists one that look-ups still find; the guard allows all of it. */
async function withdrawn(options: Partial<RunDeps> = {}) {
  const guard = { removalGuard: { items: 100, percent: 100 } };
  const all = await market(100, { ...guard, ...options });
  all.catalogue.setState(1001, 'unlisted');
  all.catalogue.change(1001, { name: 'Renamed' });
  for (const id of GONE) all.catalogue.remove(id);
  const before = all.sim.log.length;
  return { ...all, asks: () => asked(all.sim.log.slice(before)) };
}

type Withdrawn = Awaited<ReturnType<typeof withdrawn>>;

const ENDS = {
  /** Ends cleanly. */
  interrupted: async ({ sim, sync }: Withdrawn, requests: number) => {
    const ending = new AbortController();
    sim.afterRequests(requests, () => ending.abort(new Error('interrupted')));
    await expect(sync(ending.signal)).rejects.toThrow();
  },
  /** Leaves its run in state `running`. */
  killed: async ({ sim, sync }: Withdrawn, requests: number) => {
    sim.afterRequests(requests, () => {
      // Look-ups that are under way end after the run has noticed.
      sim.faults.always('item', { kind: 'stall', ms: 500 });
      return cutLock(mirror());
    });
    await expect(sync()).rejects.toThrow();
    sim.faults.clear();
    await mirror().rows(
      `UPDATE mirror.runs SET state = 'running', finished_at = NULL WHERE state = 'interrupted'`,
    );
  },
};

// The first 25 of 41 unlisted items are saved after 2 + 2 + 25 + 2 requests.
const IN_SECOND_WINDOW = 38;

it.each(['interrupted', 'killed'] as const)(
  'a run that is %s during its look-ups changes nothing; the next one stores list and look-ups, and asks for no proven item again',
  async (how) => {
    const all = await withdrawn();
    const before = await mirror().items();
    await ENDS[how](all, IN_SECOND_WINDOW);
    expect(await mirror().items()).toEqual(before);
    all.catalogue.restore(1100);
    expect((await all.sync()).counts).toMatchObject({ removed: 39, missing: 0, unchanged: 60 });
    expect((await statesOf(1099)).changes).toEqual(['live → removed']);
    for (const id of [1100, 1001]) expect((await statesOf(id)).changes).toEqual([]);
    const timesOf = (id: number): number => all.asks().filter((one) => one === id).length;
    expect(GONE.slice(0, 24).map(timesOf), 'proven before the run ended').toEqual(
      Array.from({ length: 24 }, () => 1),
    );
    expect(timesOf(1001), 'found, but its content was not stored').toBe(2);
    expect(timesOf(1099), 'not reached before').toBe(1);
  },
);

it.each([
  ['was confirmed, but more than an hour ago', IN_SECOND_WINDOW, '61 minutes'],
  ['was not confirmed before the run ended', 20, '0'],
])('a denial of an interrupted run does not count if it %s', async (_, requests, age) => {
  const all = await withdrawn();
  await ENDS.interrupted(all, requests);
  await mirror().rows(
    `UPDATE mirror.item_lookups SET looked_up_at = looked_up_at - interval '${age}'`,
  );
  const before = all.asks().length;
  expect((await all.sync()).counts.removed).toBe(40);
  const again = all.asks().slice(before);
  expect(again.filter((id) => GONE.includes(id))).toHaveLength(40);
});
