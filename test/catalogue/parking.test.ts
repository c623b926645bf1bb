import { describe, expect, it } from 'vitest';
import type { Fault } from '../../src/simulator/index.js';
import { startJobs, useServices } from '../service/support.js';
import { useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { openMarket } from './market.js';

const mirror = useMirror();
// After `useMirror`, because what is registered last is called first.
useServices();

/** Why schedules leave the seller alone; null if they don't. */
async function parking() {
  const [row] = await mirror().rows<{ code: string | null; reason: string; at: Date; run: string }>(
    `SELECT parked_code AS code, parked_reason AS reason, parked_at AS at, parked_run_id AS run
       FROM mirror.sellers`,
  );
  return row === undefined || row.code === null ? null : row;
}

/** A worker, and what it does for schedules and people. */
async function worker() {
  const market = await openMarket(mirror(), 5);
  const { queues } = await startJobs(mirror(), market.sim.url, {}, { scheduler: false });
  const ended = async (): Promise<number> => {
    const { completed, failed, delayed } = (await queues.counts()).mirror;
    return completed + failed + delayed;
  };
  /** Performs a job to its end. @returns how many requests it made */
  const job = async (byHand: boolean, kind: 'sync' | 'account' | 'items'): Promise<number> => {
    const [before, requests] = [await ended(), market.sim.log.length];
    await queues.add('mirror', { kind, seller: 'main', dueAt: new Date().toISOString(), byHand });
    await until(async () => (await ended()) > before);
    return market.sim.log.length - requests;
  };
  return {
    ...market,
    tick: (kind: 'sync' | 'account' | 'items' = 'sync') => job(false, kind),
    ask: () => job(true, 'sync'),
  };
}

/** The same, once the seller is mirrored. */
async function mirrored() {
  const all = await worker();
  expect(await all.tick()).toBe(2);
  return all;
}

/** The same, after its key was refused. */
async function parked() {
  const all = await mirrored();
  all.sim.faults.always('any', { kind: 'key-refused' });
  await all.tick();
  return all;
}

describe('a seller whose key is refused', () => {
  it('is parked with reason and run, and not tried every night; by hand it is, and keeps its date', async () => {
    const { tick, ask } = await parked();
    const before = await parking();
    // With the run's end in one transaction: a kill in between would leave the seller to its schedule.
    const isOne =
      'SELECT s.xmin = r.xmin AS one FROM mirror.sellers s JOIN mirror.runs r ON run_id = parked_run_id';
    expect(await mirror().rows(isOne)).toEqual([{ one: true }]);
    expect(before).toMatchObject({
      code: 'refused',
      reason: expect.stringMatching(/refused the API key/) as string,
    });
    expect(await tick()).toBe(0);
    expect(await ask()).toBeGreaterThan(0);
    const after = await parking();
    expect(after?.at).toEqual(before?.at);
    expect(Number(after?.run)).toBeGreaterThan(Number(before?.run));
  });

  it('resumes with the first success; a run of one item proves too little about the key', async () => {
    const market = await parked();
    for (const how of ['syncAccount', 'sync'] as const) {
      market.sim.faults.clear();
      expect((await market.syncItem(1002)).state).toBe('succeeded');
      expect(await parking()).not.toBeNull();
      await market[how]();
      expect(await parking()).toBeNull();
      market.sim.faults.always('any', { kind: 'key-refused' });
      await market.tick();
      expect(await parking()).not.toBeNull();
    }
  });

  it('is not parked by a run that was already marked as interrupted: a later one may know better', async () => {
    const { sim, tick } = await mirrored();
    sim.faults.next('account', { kind: 'stall', ms: 1_500 });
    sim.faults.always('account', { kind: 'key-refused' });
    const requests = sim.log.length;
    const ended = tick('account');
    await until(() => sim.log.length > requests);
    // As another process does with a run that seems to be dead.
    const marked = await mirror().rows(
      `UPDATE mirror.runs SET state = 'interrupted', finished_at = now()
        WHERE state = 'running' RETURNING kind::text`,
    );
    expect(marked).toEqual([{ kind: 'account' }]);
    await ended;
    const [run] = await mirror().rows(
      'SELECT problem_code FROM mirror.runs ORDER BY run_id DESC LIMIT 1',
    );
    expect(run).toEqual({ problem_code: 'refused' });
    expect(await parking()).toBeNull();
  });
});

it('a seller whose key opens another account is parked, too: every further run would fail the same way', async () => {
  const { tick, syncAccount } = await mirrored();
  await mirror().rows(`UPDATE mirror.sellers SET bound_username = 'grace'`);
  await tick();
  expect(await parking()).toMatchObject({ code: 'account-changed' });
  expect((await syncAccount({ acceptAccount: true })).state).toBe('succeeded');
  expect(await parking()).toBeNull();
});

it('a problem that the seller can’t fix parks nobody', async () => {
  const { sim, tick } = await worker();
  for (const fault of [
    { kind: 'server-error' },
    { kind: 'reply', status: 200, body: '{"status":"success"}' },
    // Last: the client makes no further request until it is over.
    { kind: 'rate-limited', retryAfter: 3_600 },
  ] satisfies Fault[]) {
    sim.faults.clear();
    sim.faults.always('any', fault);
    await tick();
    const [run] = await mirror().rows(
      'SELECT state::text FROM mirror.runs ORDER BY run_id DESC LIMIT 1',
    );
    expect(run, fault.kind).toEqual({ state: 'failed' });
    expect(await parking()).toBeNull();
  }
});
