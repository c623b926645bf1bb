import { describe, expect, it } from 'vitest';
import { performRecheck } from '../../src/jobs/codes/recheck.js';
import { performMirrorTask, type MirrorJob } from '../../src/jobs/mirror-task.js';
import { syncAccount } from '../../src/jobs/account.js';
import { syncCatalogue } from '../../src/jobs/sync-catalogue.js';
import { syncItem } from '../../src/jobs/sync-item.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { KEY, never, useMirror } from '../support/mirror.js';

const mirror = useMirror();

async function market() {
  const catalogue = seededCatalogue({ seed: 7, count: 5 });
  return mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
}

function job(kind: 'sync' | 'account' | 'items' = 'sync', byHand = false): MirrorJob {
  return { kind, askedAt: new Date(), byHand };
}

/** A seller parked because its key was refused. */
async function parked() {
  const sim = await market();
  const deps = mirror().deps(sim.url, { jobId: 'sync.main.1' });
  await performMirrorTask(deps, job(), never);
  sim.faults.always('any', { kind: 'key-refused' });
  const outcome = await performMirrorTask(deps, job(), never);
  return { sim, deps, outcome };
}

describe('a seller whose key is refused', () => {
  it('is parked with the reason and the run, the job is given up, and people are told', async () => {
    const { outcome } = await parked();
    const parking = await mirror().store.sellers.parkingOf('main');
    expect(parking).toMatchObject({
      since: expect.any(Date) as Date,
      code: 'refused',
      reason: expect.stringMatching(/refused the API key/) as string,
    });
    const alert = { kind: 'seller-parked', seller: 'main', runId: String(parking?.runId) };
    expect(outcome).toMatchObject({ kind: 'give-up', alert });
  });

  it('is left alone by schedules, so that a wrong key is not tried night after night', async () => {
    const { sim, deps } = await parked();
    const requests = sim.log.length;
    const next = { ...deps, jobId: 'sync.main.2' };
    expect(await performMirrorTask(next, job(), never)).toMatchObject({
      kind: 'done',
      result: { parked: { code: 'refused' } },
      alert: null,
    });
    expect(sim.log.length).toBe(requests);
  });

  it('is told of again by the job that parked it, which may have been killed before it could', async () => {
    const { deps, outcome } = await parked();
    const again = await performMirrorTask(deps, job(), never);
    expect(again).toMatchObject({ alert: 'alert' in outcome ? outcome.alert : null });
  });

  it('is tried again when a person asks, and stays parked since then while the key is bad', async () => {
    const { sim, deps } = await parked();
    const before = await mirror().store.sellers.parkingOf('main');
    const requests = sim.log.length;
    const outcome = await performMirrorTask(deps, job('sync', true), never);
    expect(outcome).toMatchObject({ kind: 'give-up', alert: { kind: 'run-failed' } });
    expect(sim.log.length).toBeGreaterThan(requests);
    const after = await mirror().store.sellers.parkingOf('main');
    expect(after?.since).toEqual(before?.since);
    expect(after?.runId).toBeGreaterThan(before?.runId ?? 0n);
  });

  it('resumes with the first run that goes well, whoever starts it', async () => {
    for (const sync of [syncAccount, syncCatalogue]) {
      const { sim, deps } = await parked();
      sim.faults.clear();
      await sync(deps, never);
      expect(await mirror().store.sellers.parkingOf('main')).toBeNull();
      expect(await performMirrorTask(deps, job(), never)).toMatchObject({
        kind: 'done',
        result: { account: { state: 'succeeded' } },
      });
      await mirror().reset();
    }
  });

  it('does not resume for one item, which says too little of the key', async () => {
    const { sim, deps } = await parked();
    sim.faults.clear();
    expect((await syncItem(deps, 1002, never)).state).toBe('succeeded');
    expect(await mirror().store.sellers.parkingOf('main')).not.toBeNull();
  });

  it('is not parked for a run that a later one has outdone already', async () => {
    const { sim, deps } = await parked();
    const late = await mirror().store.sellers.parkingOf('main');
    sim.faults.clear();
    await syncAccount(deps, never);
    const { code = '', reason = '' } = late ?? {};
    const runId = late?.runId ?? 0n;
    expect(await mirror().store.sellers.park('main', { code, reason, runId })).toBe(false);
    expect(await mirror().store.sellers.parkingOf('main')).toBeNull();
  });

  it('is parked or not as the order of runs says, even when parking and success meet', async () => {
    for (let round = 0; round < 15; round++) {
      const { sim, deps } = await parked();
      const late = await mirror().store.sellers.parkingOf('main');
      sim.faults.clear();
      const { code = '', reason = '' } = late ?? {};
      const runId = late?.runId ?? 0n;
      await Promise.all([
        syncAccount(deps, never),
        new Promise((resolve) => setTimeout(resolve, 2 * round)).then(() =>
          mirror().store.sellers.park('main', { code, reason, runId }),
        ),
      ]);
      expect(await mirror().store.sellers.parkingOf('main')).toBeNull();
      await mirror().reset();
    }
  });
});

describe('a seller whose key opens another account', () => {
  it('is parked too, since every further run would meet the same', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    await performMirrorTask(deps, job(), never);
    await mirror().rows(`UPDATE mirror.sellers SET bound_username = 'grace'`);
    expect(await performMirrorTask(deps, job(), never)).toMatchObject({
      kind: 'give-up',
      alert: { kind: 'seller-parked' },
    });
    expect(await mirror().store.sellers.parkingOf('main')).toMatchObject({
      code: 'account-changed',
    });
    const accepting = { ...deps, acceptAccount: true };
    expect((await syncAccount(accepting, never)).report.state).toBe('succeeded');
    expect(await mirror().store.sellers.parkingOf('main')).toBeNull();
  });
});

describe('a seller that a person paused', () => {
  async function paused() {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    await performMirrorTask(deps, job(), never);
    expect(await mirror().store.sellers.pause('main', 'paused by ada')).toBe(true);
    return { sim, deps };
  }
  const parking = () => mirror().store.sellers.parkingOf('main');
  const PAUSE = { code: 'paused', reason: 'paused by ada', runId: null };

  it('is left alone by schedules of every kind, and nobody is alerted', async () => {
    const { sim, deps } = await paused();
    const requests = sim.log.length;
    for (const kind of ['sync', 'account', 'items'] as const) {
      expect(await performMirrorTask(deps, job(kind), never)).toEqual({
        kind: 'done',
        result: { parked: { code: 'paused', since: expect.any(String) as string, run: null } },
        alert: null,
      });
    }
    const recheck = { ...deps, enqueueChunk: () => Promise.reject(new Error('nothing to do')) };
    const plan = { requestsPerMinute: 60, limit: 9, olderThan: 0, validOnly: false };
    expect(await performRecheck(recheck, plan)).toMatchObject({
      kind: 'done',
      result: { parked: { code: 'paused' } },
    });
    expect(sim.log.length).toBe(requests);
  });

  it('is mirrored when a person asks, which does not end the pause', async () => {
    const { deps } = await paused();
    const asked = await performMirrorTask(deps, job('sync', true), never);
    expect(asked).toMatchObject({ kind: 'done', result: { items: { state: 'succeeded' } } });
    expect(await parking()).toMatchObject(PAUSE);
  });

  it('stays paused when a run finds its key refused, so that only a person ends the pause', async () => {
    const { sim, deps } = await paused();
    sim.faults.always('any', { kind: 'key-refused' });
    const outcome = await performMirrorTask(deps, job('sync', true), never);
    expect(outcome).toMatchObject({ kind: 'give-up', alert: { kind: 'run-failed' } });
    expect(await parking()).toMatchObject(PAUSE);
  });

  it('keeps the moment and the name of who paused it first', async () => {
    await paused();
    const before = await parking();
    expect(await mirror().store.sellers.pause('main', 'paused by grace')).toBe(false);
    expect(await parking()).toEqual(before);
  });

  it('is mirrored by schedules again when it is resumed, and parked if its key is refused then', async () => {
    const { sim, deps } = await paused();
    expect(await mirror().store.sellers.resume('main')).toBe(true);
    expect(await mirror().store.sellers.resume('main')).toBe(false);
    expect(await performMirrorTask(deps, job(), never)).toMatchObject({
      result: { items: { state: 'succeeded' } },
    });
    sim.faults.always('any', { kind: 'key-refused' });
    expect(await performMirrorTask(deps, job(), never)).toMatchObject({
      alert: { kind: 'seller-parked' },
    });
  });

  it('may have been parked before: the pause takes its place, and resuming lifts either', async () => {
    await parked();
    expect(await mirror().store.sellers.pause('main', 'paused by ada')).toBe(true);
    expect(await parking()).toMatchObject(PAUSE);
    await mirror().reset();
    await parked();
    expect(await mirror().store.sellers.resume('main')).toBe(true);
    expect(await parking()).toBeNull();
  });
});

describe('what passes or has no remedy in the seller’s hands', () => {
  it('parks nobody', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    for (const fault of [
      { kind: 'server-error' },
      { kind: 'rate-limited', retryAfter: 60 },
      { kind: 'reply', status: 200, body: '{"status":"success"}' },
    ] as const) {
      sim.faults.clear();
      sim.faults.always('any', fault);
      await performMirrorTask(deps, job(), never);
      expect(await mirror().store.sellers.parkingOf('main')).toBeNull();
    }
  });
});
