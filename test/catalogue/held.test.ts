import { describe, expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { printed, run, settings } from '../cli/support.js';
import { openSynced } from './market.js';

const mirror = useMirror();
const GONE = Array.from({ length: 12 }, (_, n) => 1001 + n);
const store = () => ({ DATABASE_URL: mirror().databaseUrl });

/** Mirrors 40 items, then removes 12 of them, which is more than the guard allows. */
async function held(deps: Parameters<typeof openSynced>[3] = {}) {
  const market = await openSynced(mirror(), 40, {}, deps);
  for (const id of GONE) market.catalogue.remove(id);
  return { ...market, report: await market.sync() };
}

const accept = async (runId: bigint) =>
  JSON.parse(await printed(['sync', '--accept-removals', String(runId), '--json'], store())) as {
    removed: number;
    shown: number;
    rest: string[];
  };
const keep = (runId: bigint) => printed(['sync', '--keep-removals', String(runId)], store());
const refused = async (...args: string[]) => (await run(args, store())).stderr;

async function idsIn(state: string): Promise<number[]> {
  const rows = (await mirror().items()).filter((row) => row.state === state);
  return rows.map((row) => Number(row.item_id));
}

/** What `status` says about the seller. */
async function status(url: string) {
  const text = await printed(['status', '--json'], settings(mirror().databaseUrl, url));
  const [seller] = JSON.parse(text) as [{ held: unknown; needs: { kind: string; text: string }[] }];
  return seller;
}

describe('a run that would remove many items', () => {
  it('holds them back and names them; it is one need until nothing is held, and later runs ask weekly', async () => {
    const { catalogue, sync, sim, report } = await held();
    expect(report).toMatchObject({
      state: 'held',
      counts: { removed: 0, missing: 12 },
      held: { items: 12, confirmed: 12, present: 40, examples: [{ itemId: 1001 }, {}, {}] },
    });
    expect(report.warnings.join()).toMatch(
      /^removals are held: 12 of 40 items are no longer listed \(1001 .+, 1002 .+, 1003 .+ and 9 more\)/,
    );
    catalogue.change(1030, { priceRegularCents: 9900 });
    const asked = sim.log.length;
    const later = await sync();
    expect(later).toMatchObject({
      state: 'succeeded',
      held: null,
      counts: { changed: 1, missing: 12 },
      warnings: ['12 items that were held before stay missing'],
    });
    // The account and the list: no item was asked for.
    expect(sim.log.length - asked).toBe(2);
    const seller = await status(sim.url);
    expect(seller.needs).toMatchObject([{ kind: 'decision' }]);
    expect(seller.held).toMatchObject({ run_id: Number(later.runId), items: 12, present: 40 });
    await mirror().rows(`UPDATE mirror.item_lookups SET looked_up_at = now() - interval '8 days'`);
    catalogue.setState(1001, 'unlisted');
    expect(await sync()).toMatchObject({ state: 'succeeded', counts: { missing: 11 } });
    expect((await status(sim.url)).held).toMatchObject({ items: 11, confirmed: 11 });
  });

  it('proves those that it could not look up in the next runs, and removes none by itself', async () => {
    const { sync, report } = await held({ lookupsPerRun: 5 });
    expect(report.held).toMatchObject({ items: 12, confirmed: 5 });
    expect(report.warnings.join()).toContain(
      'the marketplace denies 5 of them, the others are not proven to be gone',
    );
    const second = await sync();
    expect(second).toMatchObject({ state: 'succeeded', counts: { removed: 0, missing: 12 } });
    await sync();
    expect(await accept(second.runId)).toMatchObject({ removed: 12, shown: 12, rest: [] });
  });
});

describe('accepting', () => {
  it('removes the items proven to be gone, once, in a run of its own and without requests', async () => {
    const { sim, report } = await held();
    const asked = sim.log.length;
    const runId = String(report.runId);
    const both = await Promise.all(
      [1, 2].map(() => run(['sync', '--accept-removals', runId, '--json'], store())),
    );
    const [done, late] = both.toSorted((a, b) => Number(a.code) - Number(b.code));
    expect(late?.stderr).toMatch(
      /shows nothing that can be removed: 12 of 12 were removed before|busy|in progress/,
    );
    expect(JSON.parse(done?.stdout ?? '')).toMatchObject({ removed: 12, shown: 12, rest: [] });
    expect(sim.log.length).toBe(asked);
    expect(await idsIn('removed')).toEqual(GONE);
    expect(
      await mirror().rows(
        `SELECT kind, state, removed, warnings[1] ~ '^accepted by .* on .*: the removals that run' AS told
           FROM reporting.sync_runs WHERE removed > 0`,
      ),
    ).toEqual([{ kind: 'approval', state: 'succeeded', removed: 12, told: true }]);
    expect(
      await mirror().rows(
        `SELECT DISTINCT class::text, old_value AS old, new_value AS new FROM mirror.item_changes WHERE class = 'removed'`,
      ),
    ).toEqual([{ class: 'removed', old: 'missing', new: 'removed' }]);
    expect(await status(sim.url)).toMatchObject({ held: null, needs: [] });
    expect(
      await mirror().rows('SELECT who LIKE $1 AS ok, action FROM mirror.actions', ['% on %']),
    ).toEqual([{ ok: true, action: 'accept removals' }]);
  });

  it('leaves items that were listed or found since, also if they went missing again, and names them', async () => {
    const { catalogue, sync, syncItem, sim, report } = await held();
    catalogue.restore(1001);
    catalogue.restore(1002);
    catalogue.breakRecord(1002, '{"id":1002,"name":"\u0007"}');
    await sync();
    catalogue.setState(1003, 'unlisted');
    await syncItem(1003);
    catalogue.remove(1001);
    sim.faults.always('item', { kind: 'server-error' });
    await sync();
    const done = await accept(report.runId);
    expect(done).toMatchObject({ removed: 9, shown: 12 });
    expect(done.rest.join()).toMatch(/^3 of 12 are back: 1001 .*, 1002 .*, 1003 /);
    expect(await idsIn('missing')).toEqual([1001, 1002, 1003]);
  });

  it('is refused for a run that is unknown or shows nothing', async () => {
    const { report } = await held();
    expect(await refused('sync', '--accept-removals', '471100000')).toMatch(/there is no run/);
    expect(await refused('sync', '--accept-removals', String(report.runId - 1n))).toMatch(
      /shows nothing that can be removed: it held nothing/,
    );
    expect(await refused('sync', 'items', '--accept-removals', '1')).toMatch(/don’t go together/);
  });
});

it('kept items stay missing and need nobody, until they are listed again; a later hold shows only new ones', async () => {
  const { catalogue, sync, sim, report } = await held();
  expect(await keep(report.runId)).toContain('12 items stay missing');
  expect(await keep(report.runId)).toContain('nothing was done');
  expect(await status(sim.url)).toMatchObject({ held: null, needs: [] });
  for (let id = 1021; id <= 1031; id++) catalogue.remove(id);
  const again = await sync();
  expect(again).toMatchObject({ state: 'held', held: { items: 11, present: 28 } });
  expect((await status(sim.url)).held).toMatchObject({ items: 11, present: 28 });
  expect(await accept(again.runId)).toMatchObject({ removed: 11, shown: 11 });
  expect(await idsIn('missing')).toEqual(GONE);
  for (const id of GONE) catalogue.restore(id);
  await sync();
  for (const id of GONE) catalogue.remove(id);
  const third = await sync();
  expect(third).toMatchObject({ state: 'held', held: { items: 12, present: 29 } });
  await keep(third.runId);
  // What was kept by mistake can still be accepted, by the run that held it.
  expect(await accept(third.runId)).toMatchObject({ removed: 12 });
});
