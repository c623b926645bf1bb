import { describe, expect, it } from 'vitest';
import type { RunDeps } from '../../src/jobs/types.js';
import { cutLock, useMirror } from '../support/mirror.js';
import { openSynced } from './market.js';

const mirror = useMirror();
const market = (count: number, deps: Partial<RunDeps> = {}) =>
  openSynced(mirror(), count, {}, deps);

type Names = Readonly<Record<string, string>>;
interface Snapshot {
  readonly names: Names;
  readonly states: Names;
  /** `live/missing` according to each table and view. */
  readonly figures: readonly string[];
}

const COUNTS = `SELECT count(*) FILTER (WHERE state = 'live') || '/' || count(*) FILTER (WHERE state = 'missing')`;

/** What one reader sees at one moment, in all tables and views with the state of items. */
async function look(): Promise<Snapshot> {
  const [row] = await mirror().rows<Record<string, never>>(
    `WITH rows AS (SELECT item_id, name, state FROM reporting.items)
     SELECT (SELECT coalesce(jsonb_object_agg(item_id, name), '{}') FROM rows) AS names,
            (SELECT coalesce(jsonb_object_agg(item_id, state), '{}') FROM rows) AS states,
            (SELECT ARRAY[
               (${COUNTS} FROM rows),
               (${COUNTS} FROM mirror.items),
               (${COUNTS} FROM reporting.items_as_of('infinity')),
               (${COUNTS} FROM reporting.item_history WHERE valid_to IS NULL),
               (SELECT live || '/' || missing FROM reporting.items_daily ORDER BY day DESC LIMIT 1),
               (SELECT live_items || '/' || missing_items FROM reporting.freshness),
               (SELECT live_items || '/' || missing_items FROM mirror.sellers)]) AS figures`,
  );
  return row as unknown as Snapshot;
}

/** Polls for as long as `work` takes. */
async function lookDuring(work: Promise<unknown>): Promise<Snapshot[]> {
  let isOver = false;
  void work.finally(() => (isOver = true)).catch(() => undefined);
  const seen: Snapshot[] = [];
  while (!isOver) seen.push(await look());
  await work;
  return seen;
}

describe('an unlisted item', () => {
  it('becomes missing together with the new list: readers see the old list or the new one', async () => {
    const { sim, catalogue, sync } = await market(20);
    const old = await look();
    sim.faults.always('item', { kind: 'stall', ms: 40 });
    for (const id of [1003, 1004]) catalogue.remove(id);
    catalogue.setState(1005, 'unlisted');
    catalogue.change(1001, { name: 'Renamed' });
    const seen = await lookDuring(sync());
    const isOld = (one: Snapshot): boolean => JSON.stringify(one) === JSON.stringify(old);
    const later = seen.filter((one) => !isOld(one));
    expect(later.filter(({ states }) => states['1003'] === 'missing')).not.toEqual([]);
    for (const { names, states, figures } of later) {
      expect(names['1001'], 'the new list').toBe('Renamed');
      expect([states['1003'], states['1004']]).not.toContain('live');
      expect(new Set(figures).size, `all views agree: ${figures.join(', ')}`).toBe(1);
    }
  });
});

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
    sim.faults.next('item', { kind: 'server-error' }, 2);
    catalogue.remove(1002);
    expect((await sync()).counts).toMatchObject({ changed: 1, removed: 1, missing: 1 });
    expect(await statesOf(1003)).toEqual({ changes: [], history: ['live'] });
    expect(await statesOf(1004)).toEqual({ changes: [], history: ['live', 'live'] });
    expect(await statesOf(1005)).toEqual({
      changes: ['live → removed'],
      history: ['live', 'removed'],
    });
    expect(await statesOf(1002)).toEqual({
      changes: ['live → missing'],
      history: ['live', 'missing'],
    });
  });

  it('keeps an unlisted item live if it is found each time, and writes nothing', async () => {
    const { sim, catalogue, sync } = await market(20);
    catalogue.setState(1005, 'unlisted');
    await sync();
    const before = await mirror().items();
    sim.faults.always('item', { kind: 'stall', ms: 40 });
    const seen = await lookDuring(sync());
    expect(new Set(seen.map(({ states }) => states['1005']))).toEqual(new Set(['live']));
    expect(await mirror().items()).toEqual(before);
    // After it was listed again, its absence from a list is news.
    catalogue.restore(1005);
    await sync();
    catalogue.setState(1005, 'unlisted');
    const later = await lookDuring(sync());
    expect(later.map(({ states }) => states['1005'])).toContain('missing');
    expect(await statesOf(1005)).toEqual({ changes: [], history: ['live'] });
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
    sim.afterRequests(requests, () => void cutLock(mirror()));
    await expect(sync()).rejects.toThrow();
    await mirror().rows(
      `UPDATE mirror.runs SET state = 'running', finished_at = NULL WHERE state = 'interrupted'`,
    );
  },
};

describe.each(['interrupted', 'killed'] as const)('a run that is %s during its look-ups', (how) => {
  // The first 25 of 41 unlisted items are saved after 2 + 25 + 1 + 24 + 1 requests.
  const IN_SECOND_BATCH = 60;

  it('leaves undecided items missing, also in the history, and the next run decides', async () => {
    const all = await withdrawn();
    await ENDS[how](all, IN_SECOND_BATCH);
    const left = await look();
    expect(new Set(left.figures)).toEqual(new Set(['60/40']));
    expect(left.names['1001']).toBe('Renamed');
    const [{ at } = { at: new Date() }] = await mirror().rows<{ at: Date }>('SELECT now() AS at');
    all.catalogue.restore(1100);
    expect((await all.sync()).counts).toMatchObject({ removed: 39, missing: 0, unchanged: 60 });
    const then = await mirror().rows(
      'SELECT item_id, state::text FROM reporting.items_as_of($1) ORDER BY item_id',
      [at],
    );
    expect(Object.fromEntries(then.map((row) => [row['item_id'], row['state']]))).toEqual(
      left.states,
    );
    // It was missing while no run was in progress, so item_changes has it, with the run that found it missing.
    expect((await statesOf(1099)).changes).toEqual(['live → missing', 'missing → removed']);
    expect((await statesOf(1100)).changes).toEqual(['live → missing', 'missing → live']);
    expect((await statesOf(1001)).changes).toEqual([]);
    const runs = await mirror().rows(
      `SELECT r.missing, count(c.*)::int AS published FROM mirror.runs r
         JOIN mirror.item_changes c USING (run_id)
        WHERE c.new_value = '"missing"' AND r.state = 'interrupted' GROUP BY r.run_id, r.missing`,
    );
    expect(runs).toEqual([{ missing: 40, published: 40 }]);
  });

  it('has saved its look-ups: the next run makes only the others', async () => {
    const all = await withdrawn();
    await ENDS[how](all, IN_SECOND_BATCH);
    expect((await all.sync()).counts).toMatchObject({ removed: 40, missing: 0 });
    const counts = new Map<number, number>();
    for (const id of all.asks()) counts.set(id, (counts.get(id) ?? 0) + 1);
    const first = [...counts].filter(([id]) => id >= 1061 && id < 1085).map(([, times]) => times);
    expect(first, 'denied twice before the run ended').toEqual(Array.from({ length: 24 }, () => 2));
    expect(counts.get(1001), 'found before the run ended').toBe(1);
    expect(counts.get(1100), 'not reached before').toBeGreaterThanOrEqual(2);
  });
});

describe('a denial that an interrupted run has confirmed', () => {
  const IN_SECOND_BATCH = 60;
  const removedOf = async ({ sync }: Withdrawn) => (await sync()).counts.removed;

  it('counts for an hour', async () => {
    const all = await withdrawn();
    await ENDS.interrupted(all, IN_SECOND_BATCH);
    await mirror().rows(
      `UPDATE mirror.item_lookups SET looked_up_at = looked_up_at - interval '61 minutes'`,
    );
    const before = all.asks().length;
    expect(await removedOf(all)).toBe(40);
    expect(new Set(all.asks().slice(before)).size).toBe(41 + 1);
  });

  it('counts only for the next run: after one has ended, all items are looked up again', async () => {
    const all = await withdrawn({ removalGuard: { items: 1, percent: 1 } });
    await ENDS.interrupted(all, IN_SECOND_BATCH);
    expect((await all.sync()).state).toBe('held');
    const before = all.asks().length;
    expect((await all.sync()).state).toBe('held');
    const again = all.asks().slice(before);
    expect(again.filter((id) => id >= 1061)).toHaveLength(80);
  });

  it('no longer counts when the next run finds a denied item', async () => {
    const all = await withdrawn();
    await ENDS.interrupted(all, IN_SECOND_BATCH);
    all.catalogue.setState(1095, 'unlisted');
    // Account and list pass.
    all.sim.afterRequests(2, () => {
      all.sim.faults.next('item', { kind: 'key-refused' }, 15);
    });
    const { counts, warnings } = await all.sync();
    expect(counts.removed).toBe(0);
    expect(warnings.join()).toMatch(/nothing was removed, since item 1095 was denied/);
  });

  it('does not count if it was not confirmed before the run ended', async () => {
    const all = await withdrawn();
    // The first 25 were looked up, some of them twice.
    await ENDS.interrupted(all, 40);
    const before = all.asks().length;
    expect(await removedOf(all)).toBe(40);
    const again = all.asks().slice(before);
    expect(again.filter((id) => id >= 1061)).toHaveLength(80);
  });
});
