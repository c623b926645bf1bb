import { describe, expect, it } from 'vitest';
import { performMirrorTask, type MirrorRequest } from '../../src/catalogue/mirror-task.js';
import type { JobOutcome } from '../../src/catalogue/types.js';
import { syncItems } from '../../src/catalogue/sync-items.js';
import type { RunDeps } from '../../src/catalogue/types.js';
import type { Simulator } from '../../src/simulator/index.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { lockSeller } from '../../src/db/locks.js';
import { openDb } from '../../src/db/db.js';
import { openMarket } from './market.js';

const mirror = useMirror();

const market = async (count = 5): Promise<Simulator> => (await openMarket(mirror(), count)).sim;

const RUN = expect.any(String) as string;

/** A job requested now; the database and the test share one clock. */
function job(kind: 'sync' | 'account' | 'items' = 'sync', byHand = false): MirrorRequest {
  return { kind, askedAt: new Date(), byHand };
}

function perform(sim: Simulator, task: MirrorRequest, signal = never): Promise<JobOutcome> {
  return performMirrorTask(mirror().deps(sim.url), task, signal);
}

function runs() {
  return mirror().rows('SELECT kind, state, job_id FROM mirror.runs ORDER BY run_id');
}

/** Removes 30 items: more than the removal guard allows. */
function removeMost(sim: Simulator): void {
  const { catalogue } = sim.seller(KEY);
  for (const { id } of [...catalogue.truth()].slice(0, 30)) catalogue.remove(id);
}

describe('a mirror job', () => {
  it('of kind sync mirrors the account, then the items, and names the runs', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url, { jobId: 'sync.main.1' });
    const outcome = await performMirrorTask(deps, job(), never);
    expect(outcome).toEqual({
      kind: 'done',
      result: {
        account: { run: RUN, state: 'succeeded' },
        items: { run: RUN, state: 'succeeded' },
      },
      alert: null,
    });
    expect(await runs()).toEqual([
      { kind: 'account', state: 'succeeded', job_id: 'sync.main.1' },
      { kind: 'items', state: 'succeeded', job_id: 'sync.main.1' },
    ]);
  });

  it('for an unknown item gives up without an alert', async () => {
    const sim = await market();
    const item = { kind: 'item', itemId: 99, askedAt: new Date(), byHand: true } as const;
    const outcome = await perform(sim, item);
    expect(outcome).toMatchObject({ kind: 'give-up', alert: null });
  });
});

describe('a job that was already done', () => {
  it('makes no request when it is repeated', async () => {
    const sim = await market();
    const task = job();
    await perform(sim, task);
    const requests = sim.log.length;
    const again = await perform(sim, task);
    expect(sim.log.length).toBe(requests);
    expect(again).toMatchObject({
      kind: 'done',
      result: { account: { coveredBy: RUN }, items: { coveredBy: RUN } },
    });
  });

  it('runs again when the earlier run started before the request', async () => {
    const sim = await market();
    await perform(sim, job());
    expect(await perform(sim, job('account'))).toMatchObject({ result: { account: { run: RUN } } });
  });

  it('runs again when the earlier run failed', async () => {
    const sim = await market();
    const task = job('account');
    sim.faults.always('account', { kind: 'html', status: 200 });
    expect(await perform(sim, task)).toMatchObject({ kind: 'retry' });
    sim.faults.clear();
    expect(await perform(sim, task)).toMatchObject({
      result: { account: { state: 'succeeded' } },
    });
  });

  it('for an item is covered only by its own job, since runs don’t store the item', async () => {
    const sim = await market();
    const item = { kind: 'item', itemId: 1002, askedAt: new Date(), byHand: true } as const;
    const first = mirror().deps(sim.url, { jobId: 'item.1' });
    await performMirrorTask(first, item, never);
    expect(await performMirrorTask(first, item, never)).toMatchObject({
      result: { item: { coveredBy: RUN } },
    });
    const other = mirror().deps(sim.url, { jobId: 'item.2' });
    expect(await performMirrorTask(other, { ...item, itemId: 1003 }, never)).toMatchObject({
      result: { item: { state: 'succeeded' } },
    });
  });

  it('repeats the alert of its held run, in case the first attempt was killed', async () => {
    const sim = await market(40);
    await perform(sim, job());
    removeMost(sim);
    const task = job('items');
    const first = await perform(sim, task);
    const again = await perform(sim, task);
    expect(again).toMatchObject({ alert: 'alert' in first ? first.alert : null });
  });

  it('is done once when many workers run it at the same time', async () => {
    const sim = await market();
    const task = job();
    const attempts = Array.from({ length: 6 }, () => mirror().deps(sim.url));
    let open = attempts;
    // Busy workers retry, as in a queue but without the delay.
    while (open.length > 0) {
      const outcomes = await Promise.all(open.map((deps) => performMirrorTask(deps, task, never)));
      expect(outcomes.filter(({ kind }) => kind !== 'done' && kind !== 'later')).toEqual([]);
      open = open.filter((_, i) => outcomes[i]?.kind === 'later');
    }
    expect(await runs()).toMatchObject([{ kind: 'account' }, { kind: 'items' }]);
    expect(sim.log.filter(({ operation }) => operation === 'list').length).toBe(1);
  });
});

describe('a job whose seller is busy', () => {
  it('is put off without using up an attempt, and names the other process', async () => {
    const sim = await market();
    sim.faults.next('list', { kind: 'stall', ms: 500 });
    const first = syncItems(mirror().deps(sim.url, { holder: 'worker 4711 on atlas' }), never);
    await until(() => sim.log.length >= 2);
    const outcome = await perform(sim, job('items'));
    expect(outcome).toMatchObject({
      kind: 'later',
      reason: expect.stringMatching(/by worker 4711 on atlas .*not started twice/) as string,
    });
    if (outcome.kind !== 'later') throw new Error('unreachable');
    expect(outcome.delayMs).toBeGreaterThanOrEqual(30_000);
    expect(outcome.delayMs).toBeLessThanOrEqual(60_000);
    await first;
  });
});

describe('a job that is told to stop', () => {
  it('is handed back with its run interrupted, and another worker finishes it', async () => {
    const sim = await market();
    sim.faults.next('list', { kind: 'stall', ms: 5_000 });
    const stop = new AbortController();
    const task = job();
    const first = perform(sim, task, stop.signal);
    await until(() => sim.log.length >= 2);
    stop.abort(new Error('SIGTERM'));
    expect(await first).toEqual({ kind: 'hand-back' });
    expect(await runs()).toMatchObject([{ state: 'succeeded' }, { state: 'interrupted' }]);
    expect(await perform(sim, task)).toMatchObject({
      result: { account: { coveredBy: RUN }, items: { state: 'succeeded' } },
    });
  });

  it('does nothing if it has not started', async () => {
    const sim = await market();
    const outcome = await perform(sim, job(), AbortSignal.abort());
    expect(outcome).toEqual({ kind: 'hand-back' });
    expect(sim.log).toEqual([]);
  });

  it('is handed back when its run fails temporarily: no attempt is used up, no alert sent', async () => {
    const sim = await market();
    sim.faults.always('account', { kind: 'rate-limited' });
    const stop = new AbortController();
    const deps = mirror().deps(sim.url, {
      onRun: ({ phase }) => void (phase === 'finished' && stop.abort()),
    });
    expect(await performMirrorTask(deps, job(), stop.signal)).toEqual({ kind: 'hand-back' });
    expect(await runs()).toMatchObject([{ state: 'failed' }]);
  });

  it('is handed back, not put off, when the seller is busy', async () => {
    const sim = await market();
    const lock = await lockSeller(mirror().db, 'main');
    const stop = new AbortController();
    const deps = mirror().deps(sim.url);
    const busy: RunDeps = {
      ...deps,
      db: {
        ...deps.db,
        get locks() {
          stop.abort();
          return deps.db.locks;
        },
      },
    };
    expect(await performMirrorTask(busy, job(), stop.signal)).toEqual({ kind: 'hand-back' });
    await lock.release();
  });
});

describe('a temporary failure', () => {
  it('is retried, not before the time that the marketplace named', async () => {
    const sim = await market();
    sim.faults.always('account', { kind: 'rate-limited', retryAfter: 7_200 });
    const outcome = await perform(sim, job());
    expect(outcome).toMatchObject({
      kind: 'retry',
      problem: expect.stringMatching(/^run \d+ failed: limited/) as string,
      notBefore: expect.any(Number) as number,
      alert: { kind: 'run-failed' },
    });
  });

  it('of the store fails the run, and the job is retried', async () => {
    const sim = await market(300);
    sim.faults.next('list', { kind: 'slow', chunkBytes: 20_000, pauseMs: 20 });
    const running = perform(sim, job('items'));
    await until(() => sim.log.length >= 2);
    await mirror().rows(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'test' AND datname = current_database()`,
    );
    expect(await running).toMatchObject({
      kind: 'retry',
      problem: expect.stringMatching(/^.{5,200}$/) as string,
      notBefore: null,
      alert: { kind: 'run-failed' },
    });
  });

  it('to reach the store is one line without the password', async () => {
    const sim = await market();
    const db = openDb('postgresql://nobody:pass-word@127.0.0.1:1/none', 'test');
    const deps = { ...mirror().deps(sim.url), db };
    const outcome = await performMirrorTask(deps, job(), never);
    await db.close();
    expect(outcome).toMatchObject({ kind: 'retry', alert: null });
    if (outcome.kind !== 'retry') throw new Error('unreachable');
    expect(outcome.problem).toMatch(/connection was refused/);
    expect(outcome.problem).not.toContain('pass-word');
    expect(outcome.problem).not.toContain('\n');
  });
});
