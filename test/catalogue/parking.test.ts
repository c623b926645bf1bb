import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { performRecheck } from '../../src/codes/enter-list.js';
import { performMirrorTask, type MirrorRequest } from '../../src/catalogue/mirror-task.js';
import { syncAccount } from '../../src/catalogue/account.js';
import { syncItem } from '../../src/catalogue/sync-item.js';
import { syncItems } from '../../src/catalogue/sync-items.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import {
  readParking,
  parkSeller,
  pauseSeller,
  resumeSeller,
} from '../../src/catalogue/sellers-store.js';
import { KEY, never, useMirror } from '../support/mirror.js';

const mirror = useMirror();

async function market() {
  const catalogue = seededCatalogue({ seed: 7, count: 5 });
  return mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
}

const parking = () => readParking(mirror().db, 'main');

function job(kind: 'sync' | 'account' | 'items' = 'sync', byHand = false): MirrorRequest {
  return { kind, dueAt: new Date(), byHand };
}

/** A seller parked because its key was refused, and the call of `park` that does it again. */
async function parked() {
  const sim = await market();
  const deps = mirror().deps(sim.url, { jobId: 'sync.main.1' });
  await performMirrorTask(deps, job(), never);
  sim.faults.always('any', { kind: 'key-refused' });
  const outcome = await performMirrorTask(deps, job(), never);
  const stored = await parking();
  if (stored === null) throw new Error('not parked');
  const parkAgain = () => parkSeller(mirror().db, 'main', stored);
  return { sim, deps, outcome, stored, parkAgain };
}

describe('a seller whose key is refused', () => {
  it('is parked with reason and run; the job is given up', async () => {
    const { outcome, stored } = await parked();
    expect(stored).toMatchObject({
      since: expect.any(Date) as Date,
      code: 'refused',
      reason: expect.stringMatching(/refused the API key/) as string,
    });
    expect(outcome).toMatchObject({ kind: 'give-up' });
  });

  it('is skipped by schedules, so that a wrong key is not tried every night', async () => {
    const { sim, deps } = await parked();
    const requests = sim.log.length;
    const next = { ...deps, jobId: 'sync.main.2' };
    expect(await performMirrorTask(next, job(), never)).toMatchObject({
      kind: 'done',
      result: { parked: { code: 'refused' } },
    });
    expect(sim.log.length).toBe(requests);
  });

  it('is tried again by hand, and keeps its parking date while the key is refused', async () => {
    const { sim, deps, stored: before } = await parked();
    const requests = sim.log.length;
    const outcome = await performMirrorTask(deps, job('sync', true), never);
    expect(outcome).toMatchObject({ kind: 'give-up' });
    expect(sim.log.length).toBeGreaterThan(requests);
    const after = await parking();
    expect(after?.since).toEqual(before.since);
    expect(after?.runId).toBeGreaterThan(before.runId ?? 0n);
  });

  it.each([syncAccount, syncItems])('resumes with the first successful %o', async (sync) => {
    const { sim, deps } = await parked();
    sim.faults.clear();
    await sync(deps, never);
    expect(await parking()).toBeNull();
    expect(await performMirrorTask(deps, job(), never)).toMatchObject({
      kind: 'done',
      result: { account: { state: 'succeeded' } },
    });
  });

  it('does not resume after a run of one item, which proves too little about the key', async () => {
    const { sim, deps } = await parked();
    sim.faults.clear();
    expect((await syncItem(deps, 1002, never)).state).toBe('succeeded');
    expect(await parking()).not.toBeNull();
  });

  it('is not parked because of a run if a later one succeeded', async () => {
    const { sim, deps, parkAgain } = await parked();
    sim.faults.clear();
    await syncAccount(deps, never);
    expect(await parkAgain()).toBe(false);
    expect(await parking()).toBeNull();
  });

  it('is parked or not by the order of runs, even if parking and success are concurrent', async () => {
    for (let round = 0; round < 15; round++) {
      const { sim, deps, parkAgain } = await parked();
      sim.faults.clear();
      await Promise.all([syncAccount(deps, never), sleep(2 * round).then(parkAgain)]);
      expect(await parking()).toBeNull();
      await mirror().reset();
    }
  });
});

describe('a seller whose key opens another account', () => {
  it('is parked too, since every further run would fail the same way', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    await performMirrorTask(deps, job(), never);
    await mirror().rows(`UPDATE mirror.sellers SET bound_username = 'grace'`);
    expect(await performMirrorTask(deps, job(), never)).toMatchObject({
      kind: 'give-up',
    });
    expect(await parking()).toMatchObject({
      code: 'account-changed',
    });
    const accepting = { ...deps, acceptAccount: true };
    expect((await syncAccount(accepting, never)).report.state).toBe('succeeded');
    expect(await parking()).toBeNull();
  });
});

describe('a seller that a person paused', () => {
  async function paused() {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    await performMirrorTask(deps, job(), never);
    expect(await pauseSeller(mirror().db, 'main', 'paused by ada')).toBe(true);
    return { sim, deps };
  }
  const PAUSE = { code: 'paused', reason: 'paused by ada', runId: null };

  it('is skipped by all schedules, without alerts', async () => {
    const { sim, deps } = await paused();
    const requests = sim.log.length;
    for (const kind of ['sync', 'account', 'items'] as const) {
      expect(await performMirrorTask(deps, job(kind), never)).toEqual({
        kind: 'done',
        result: { parked: { code: 'paused', since: expect.any(String) as string, run: null } },
      });
    }
    const enqueue = () => Promise.reject(new Error('nothing to do'));
    const plan = { limit: 9, olderThan: 0, validOnly: false };
    expect(await performRecheck(deps, plan, enqueue)).toMatchObject({
      kind: 'done',
      result: { parked: { code: 'paused' } },
    });
    expect(sim.log.length).toBe(requests);
  });

  it('can be mirrored by hand, which does not end the pause', async () => {
    const { deps } = await paused();
    const asked = await performMirrorTask(deps, job('sync', true), never);
    expect(asked).toMatchObject({ kind: 'done', result: { items: { state: 'succeeded' } } });
    expect(await parking()).toMatchObject(PAUSE);
  });

  it('stays paused if a run’s key is refused, so that only a person ends the pause', async () => {
    const { sim, deps } = await paused();
    sim.faults.always('any', { kind: 'key-refused' });
    const outcome = await performMirrorTask(deps, job('sync', true), never);
    expect(outcome).toMatchObject({ kind: 'give-up' });
    expect(await parking()).toMatchObject(PAUSE);
  });

  it('keeps date and name of the first pause', async () => {
    await paused();
    const before = await parking();
    expect(await pauseSeller(mirror().db, 'main', 'paused by grace')).toBe(false);
    expect(await parking()).toEqual(before);
  });

  it('is mirrored by schedules again after resuming, and parked if its key is refused then', async () => {
    const { sim, deps } = await paused();
    expect(await resumeSeller(mirror().db, 'main')).toBe(true);
    expect(await resumeSeller(mirror().db, 'main')).toBe(false);
    expect(await performMirrorTask(deps, job(), never)).toMatchObject({
      result: { items: { state: 'succeeded' } },
    });
    sim.faults.always('any', { kind: 'key-refused' });
    expect(await performMirrorTask(deps, job(), never)).toMatchObject({
      kind: 'give-up',
    });
  });

  it('may have been parked before: the pause replaces the parking, and resuming ends either', async () => {
    await parked();
    expect(await pauseSeller(mirror().db, 'main', 'paused by ada')).toBe(true);
    expect(await parking()).toMatchObject(PAUSE);
    await mirror().reset();
    await parked();
    expect(await resumeSeller(mirror().db, 'main')).toBe(true);
    expect(await parking()).toBeNull();
  });
});

it.each([
  { kind: 'server-error' },
  { kind: 'rate-limited', retryAfter: 60 },
  { kind: 'reply', status: 200, body: '{"status":"success"}' },
] as const)('a problem that the seller can’t fix parks nobody: $kind', async (fault) => {
  const sim = await market();
  sim.faults.always('any', fault);
  await performMirrorTask(mirror().deps(sim.url), job(), never);
  expect(await parking()).toBeNull();
});
