import { describe, expect, it } from 'vitest';
import { decideRemovals } from '../../src/catalogue/decide-removals.js';
import { describeAlert } from '../../src/service/alerts/alerts.js';
import type { RunDeps } from '../../src/catalogue/types.js';
import { useMirror } from '../support/mirror.js';
import { getRun } from '../../src/catalogue/runs-store.js';
import { parkSeller, readParking } from '../../src/catalogue/sellers-store.js';
import { readSellerStatuses } from '../../src/catalogue/status-store.js';
import { openSynced } from './market.js';

const mirror = useMirror();
const GONE = Array.from({ length: 12 }, (_, n) => 1001 + n);

/** Mirrors 40 items, then removes 12 of them, which is more than the guard allows. */
async function held(deps: Partial<RunDeps> = {}) {
  const market = await openSynced(mirror(), 40, {}, deps);
  for (const id of GONE) market.catalogue.remove(id);
  return { ...market, report: await market.sync() };
}

const decide = (runId: bigint, decision: 'approved' | 'rejected') =>
  decideRemovals({ db: mirror().db, holder: 'a test', by: 'ada on a test' }, runId, decision);

async function idsIn(state: string): Promise<number[]> {
  const rows = (await mirror().items()).filter((row) => row.state === state);
  return rows.map((row) => Number(row.item_id));
}

const changes = () =>
  mirror().rows(
    `SELECT item_id::int AS id, class::text, run_id::text AS run, old_value AS old, new_value AS new
       FROM mirror.item_changes ORDER BY seq`,
  );

describe('a held run', () => {
  it('mirrors present items and names the items it holds back', async () => {
    const { catalogue, sync, sim } = await held();
    catalogue.change(1030, { priceRegularCents: 9900 });
    const report = await sync();
    expect(report).toMatchObject({
      state: 'held',
      counts: { changed: 1, removed: 0, missing: 12 },
      held: { items: 12, confirmed: 12, present: 40, examples: [{ itemId: 1001 }, {}, {}] },
    });
    expect(report.warnings.join()).toMatch(
      /^needs your decision: 12 of 40 items are no longer listed \(1001 .+, 1002 .+, 1003 .+ and 9 more\)/,
    );
    const [row] = await mirror().rows(
      'SELECT price_regular AS price FROM mirror.items WHERE item_id = 1030',
    );
    expect(row).toEqual({ price: '99.00' });
    expect(sim.log.length).toBeGreaterThan(0);
  });
});

describe('approving', () => {
  it('removes the items proven to be gone, in a run of its own and without requests', async () => {
    const { sim, report } = await held();
    const asked = sim.log.length;
    const done = await decide(report.runId, 'approved');
    expect(done).toMatchObject({
      removed: 12,
      items: 12,
      already: false,
      decidedBy: 'ada on a test',
    });
    expect(sim.log.length).toBe(asked);
    expect(await idsIn('removed')).toEqual(GONE);
    const run = (await getRun(mirror().db, done.approvalRunId ?? 0n))?.run;
    expect(run).toMatchObject({ kind: 'approval', state: 'succeeded', removed: 12 });
    const decided = (await getRun(mirror().db, report.runId))?.run;
    expect(decided).toMatchObject({ decision: 'approved', approvalRunId: done.approvalRunId });
    const removals = (await changes()).filter((row) => row['run'] === String(done.approvalRunId));
    expect(removals).toEqual(
      GONE.map((id) => ({
        id,
        class: 'removed',
        run: String(done.approvalRunId),
        old: 'missing',
        new: 'removed',
      })),
    );
  });

  it('leaves items that were listed, found or removed since, and reports them', async () => {
    const { catalogue, syncItem, sync, report } = await held();
    catalogue.restore(1001);
    catalogue.restore(1002);
    catalogue.remove(1030);
    // Below the guard, so the next run decides about the rest by itself.
    for (const id of [1003, 1004]) catalogue.setState(id, 'unlisted');
    for (const id of [1001, 1003, 1005]) await syncItem(id);
    const done = await decide(report.runId, 'approved');
    expect(done.removed).toBe(9);
    expect(done.left?.found.map(({ itemId }) => itemId)).toEqual([1001, 1003]);
    expect(done.left).toMatchObject({ removed: 1, unproven: 0 });
    expect(await idsIn('missing')).toEqual([]);
    // Item 1002 was removed although it is listed again; the next run restores it.
    expect((await sync()).counts).toMatchObject({ restored: 1, removed: 1 });
  });

  it('leaves an item that returned and went missing again since', async () => {
    const { catalogue, sync, sim, report } = await held();
    catalogue.restore(1001);
    await sync();
    catalogue.remove(1001);
    sim.faults.always('item', { kind: 'server-error' });
    const later = await sync();
    sim.faults.clear();
    expect(later.state).toBe('held');
    await mirror().rows(`UPDATE mirror.runs SET state = 'succeeded' WHERE run_id > $1`, [
      report.runId,
    ]);
    const done = await decide(report.runId, 'approved');
    expect(done.left?.found.map(({ itemId }) => itemId)).toEqual([1001]);
    expect(await idsIn('missing')).toEqual([1001]);
  });

  it('leaves an item whose listed record can’t be read', async () => {
    const { catalogue, sync, report } = await held();
    for (const id of GONE) catalogue.restore(id);
    catalogue.breakRecord(1001, '{"id":1001,"name":"\u0007"}');
    await sync();
    expect(await idsIn('missing')).toEqual([1001]);
    expect((await decide(report.runId, 'approved')).left?.found).toHaveLength(12);
    expect(await idsIn('missing')).toEqual([1001]);
  });

  it('lets later runs remove the rest once it is proven, without being held', async () => {
    const { sync, report } = await held({ lookupsPerRun: 5 });
    const done = await decide(report.runId, 'approved');
    expect(done).toMatchObject({ removed: 5, left: { unproven: 7 } });
    expect(await sync()).toMatchObject({ state: 'succeeded', counts: { removed: 5, missing: 2 } });
    expect(await sync()).toMatchObject({ state: 'succeeded', counts: { removed: 2, missing: 0 } });
    expect(await idsIn('removed')).toEqual(GONE);
  });

  it('keeps the history of an item that returns', async () => {
    const { catalogue, sync, report } = await held();
    await decide(report.runId, 'approved');
    catalogue.restore(1001);
    catalogue.change(1001, { name: 'Back again' });
    expect((await sync()).counts).toMatchObject({ restored: 1, added: 0 });
    const states = await mirror().rows(
      `SELECT state::text, name FROM reporting.item_history WHERE item_id = 1001 ORDER BY valid_from`,
    );
    const name = states[0]?.['name'];
    expect(states).toEqual([
      { state: 'live', name },
      { state: 'missing', name },
      { state: 'removed', name },
      { state: 'live', name: 'Back again' },
    ]);
    const classes = (await changes())
      .filter((row) => row['id'] === 1001)
      .map((row) => row['class']);
    expect(classes).toEqual(['missing', 'removed', 'restored', 'text']);
  });

  it('happens once when two people approve at the same time', async () => {
    const { report } = await held();
    const both = await Promise.allSettled([
      decide(report.runId, 'approved'),
      decide(report.runId, 'approved'),
    ]);
    const removed = both.map((one) => (one.status === 'fulfilled' ? one.value.removed : 0));
    expect(removed.toSorted((a, b) => a - b)).toEqual([0, 12]);
  });

  it('leaves a parked seller parked', async () => {
    const { report } = await held();
    const { db } = mirror();
    await parkSeller(db, 'main', { code: 'refused', reason: 'x', runId: report.runId });
    await decide(report.runId, 'approved');
    expect(await readParking(db, 'main')).not.toBeNull();
  });

  it('is refused for an unknown run and for a run that needs no decision', async () => {
    const { report } = await held();
    await expect(decide(4711n << 32n, 'approved')).rejects.toThrow(/there is no run/);
    await expect(decide(report.runId - 1n, 'approved')).rejects.toThrow(
      /needs no decision: its state is succeeded/,
    );
  });
});

describe('rejecting', () => {
  it('keeps the items missing, and they hold no later run', async () => {
    const { sync, report } = await held();
    const rows = await mirror().items();
    expect(await decide(report.runId, 'rejected')).toMatchObject({ removed: 0, left: null });
    for (let night = 0; night < 2; night++) {
      const later = await sync();
      expect(later).toMatchObject({ state: 'succeeded', counts: { removed: 0, missing: 12 } });
      expect(later.warnings).toEqual([]);
    }
    expect(await mirror().items()).toEqual(rows);
  });

  it('does not apply to further items: the guard counts only those', async () => {
    const { catalogue, sync, report } = await held();
    await decide(report.runId, 'rejected');
    catalogue.remove(1020);
    expect(await sync()).toMatchObject({ state: 'succeeded', counts: { removed: 1, missing: 12 } });
    for (let id = 1021; id <= 1031; id++) catalogue.remove(id);
    const again = await sync();
    expect(again).toMatchObject({ state: 'held', held: { items: 11, present: 39 } });
    expect(await decide(again.runId, 'approved')).toMatchObject({ removed: 11 });
    expect(await idsIn('missing')).toEqual(GONE);
    // The rejection can still be reversed, although a newer run was held.
    expect(await decide(report.runId, 'approved')).toMatchObject({ removed: 12 });
  });

  it('after a partial approval keeps the rest, and reports what was removed', async () => {
    const { sync, report } = await held({ lookupsPerRun: 5 });
    const { approvalRunId } = await decide(report.runId, 'approved');
    expect(await decide(report.runId, 'rejected')).toMatchObject({
      already: false,
      items: 12,
      removed: 0,
      removedBefore: 5,
      missing: 7,
      approvalRunId,
    });
    expect(await sync()).toMatchObject({ state: 'succeeded', counts: { removed: 0, missing: 7 } });
    expect(await idsIn('removed')).toHaveLength(5);
  });

  it('no longer applies to items that were listed again', async () => {
    const { catalogue, sync, report } = await held();
    await decide(report.runId, 'rejected');
    for (const id of GONE) catalogue.restore(id);
    await sync();
    for (const id of GONE) catalogue.remove(id);
    expect(await sync()).toMatchObject({ state: 'held', held: { items: 12 } });
  });
});

it('a decision about an older held run is refused, naming the newer one', async () => {
  const { sync, report } = await held();
  const newer = await sync();
  expect(newer.state).toBe('held');
  await expect(decide(report.runId, 'approved')).rejects.toThrow(
    new RegExp(`run ${newer.runId} is newer`),
  );
  expect(await decide(newer.runId, 'approved')).toMatchObject({ removed: 12 });
});

it('a decision clears the problem in the status and drops the alert', async () => {
  const { report } = await held();
  const { db } = mirror();
  const runId = String(report.runId);
  expect(await readSellerStatuses(db)).toMatchObject([
    { lastProblem: { state: 'held' }, held: { items: 12 } },
  ]);
  await decide(report.runId, 'rejected');
  expect(await readSellerStatuses(db)).toMatchObject([{ lastProblem: null, held: null }]);
  expect(
    await describeAlert({ db, staleAfterHours: 26 }, { kind: 'run-held', runId }, new Date()),
  ).toEqual({
    dropped: `run ${runId} was rejected`,
  });
});
