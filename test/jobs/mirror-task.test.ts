import { describe, expect, it } from 'vitest';
import { performMirrorTask, type MirrorJob } from '../../src/jobs/mirror-task.js';
import type { JobOutcome } from '../../src/jobs/types.js';
import { syncCatalogue } from '../../src/jobs/sync-catalogue.js';
import type { JobDeps } from '../../src/jobs/types.js';
import type { Simulator } from '../../src/simulator/index.js';
import { openStore } from '../../src/store/store.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import { openMarket } from './market.js';

const mirror = useMirror();

const market = async (count = 5): Promise<Simulator> => (await openMarket(mirror(), count)).sim;

const RUN = expect.any(String) as string;

/** Asked for just now; the database and the test share one clock. */
function job(kind: 'sync' | 'account' | 'items' = 'sync', byHand = false): MirrorJob {
  return { kind, askedAt: new Date(), byHand };
}

/** Does a job for the seller of a simulator. */
function perform(sim: Simulator, asked: MirrorJob, signal = never): Promise<JobOutcome> {
  return performMirrorTask(mirror().deps(sim.url), asked, signal);
}

function runs() {
  return mirror().rows('SELECT kind, state, job_id FROM mirror.runs ORDER BY run_id');
}

/** More items go than the removal guard allows. */
function loseMost(sim: Simulator): void {
  const { catalogue } = sim.seller(KEY);
  for (const { id } of [...catalogue.truth()].slice(0, 30)) catalogue.remove(id);
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

describe('a mirror job', () => {
  it('of kind sync mirrors the account and then the items, and says by which runs', async () => {
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

  it('for an item that is not there gives up, without alarming anybody over a mistyped id', async () => {
    const sim = await market();
    const item = { kind: 'item', itemId: 99, askedAt: new Date(), byHand: true } as const;
    const outcome = await perform(sim, item);
    expect(outcome).toMatchObject({ kind: 'give-up', alert: null });
  });
});

describe('a job that was done already', () => {
  it('asks nothing of the marketplace when it is repeated', async () => {
    const sim = await market();
    const asked = job();
    await perform(sim, asked);
    const requests = sim.log.length;
    const again = await perform(sim, asked);
    expect(sim.log.length).toBe(requests);
    expect(again).toMatchObject({
      kind: 'done',
      result: { account: { coveredBy: RUN }, items: { coveredBy: RUN } },
    });
  });

  it('is done anew when the run began before it was asked for: it may have missed what is new', async () => {
    const sim = await market();
    await perform(sim, job());
    expect(await perform(sim, job('account'))).toMatchObject({ result: { account: { run: RUN } } });
  });

  it('is not covered by a run that failed', async () => {
    const sim = await market();
    const asked = job('account');
    sim.faults.always('account', { kind: 'html', status: 200 });
    expect(await perform(sim, asked)).toMatchObject({ kind: 'retry' });
    sim.faults.clear();
    expect(await perform(sim, asked)).toMatchObject({
      result: { account: { state: 'succeeded' } },
    });
  });

  it('of an item is covered by the same job only: which item a run was about is not kept', async () => {
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

  it('still tells of the removals it held, in case it was killed before it could', async () => {
    const sim = await market(40);
    await perform(sim, job());
    loseMost(sim);
    const asked = job('items');
    const first = await perform(sim, asked);
    const again = await perform(sim, asked);
    expect(again).toMatchObject({ alert: 'alert' in first ? first.alert : null });
  });

  it('is done once when many workers have it at the same time', async () => {
    const sim = await market();
    const asked = job();
    const attempts = Array.from({ length: 6 }, () => mirror().deps(sim.url));
    let open = attempts;
    // Each comes back as a queue would let it, only sooner.
    while (open.length > 0) {
      const outcomes = await Promise.all(open.map((deps) => performMirrorTask(deps, asked, never)));
      expect(outcomes.filter(({ kind }) => kind !== 'done' && kind !== 'later')).toEqual([]);
      open = open.filter((_, i) => outcomes[i]?.kind === 'later');
    }
    expect(await runs()).toMatchObject([{ kind: 'account' }, { kind: 'items' }]);
    // Whoever takes over the items from another one proves the credential itself.
    expect(sim.log.filter(({ operation }) => operation === 'list').length).toBe(1);
  });
});

describe('a job whose seller is at work already', () => {
  it('is not started twice, names the other one, and comes back later without using up an attempt', async () => {
    const sim = await market();
    sim.faults.next('list', { kind: 'stall', ms: 500 });
    const first = syncCatalogue(mirror().deps(sim.url, { holder: 'worker 4711 on atlas' }), never);
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
  it('is handed back, its run entered as interrupted, and done by the next one', async () => {
    const sim = await market();
    sim.faults.next('list', { kind: 'stall', ms: 5_000 });
    const stop = new AbortController();
    const asked = job();
    const first = perform(sim, asked, stop.signal);
    await until(() => sim.log.length >= 2);
    stop.abort(new Error('SIGTERM'));
    expect(await first).toEqual({ kind: 'hand-back' });
    expect(await runs()).toMatchObject([{ state: 'succeeded' }, { state: 'interrupted' }]);
    expect(await perform(sim, asked)).toMatchObject({
      result: { account: { coveredBy: RUN }, items: { state: 'succeeded' } },
    });
  });

  it('before it began does nothing at all', async () => {
    const sim = await market();
    const outcome = await perform(sim, job(), AbortSignal.abort());
    expect(outcome).toEqual({ kind: 'hand-back' });
    expect(sim.log).toEqual([]);
  });

  it('while its run fails for a reason that may pass is handed back: that costs no attempt and alarms nobody', async () => {
    const sim = await market();
    sim.faults.always('account', { kind: 'rate-limited' });
    const stop = new AbortController();
    const deps = mirror().deps(sim.url, {
      onRun: ({ phase }) => void (phase === 'finished' && stop.abort()),
    });
    expect(await performMirrorTask(deps, job(), stop.signal)).toEqual({ kind: 'hand-back' });
    expect(await runs()).toMatchObject([{ state: 'failed' }]);
  });

  it('while the seller is busy is handed back as well, rather than put off', async () => {
    const sim = await market();
    const lock = await mirror().store.sellers.lock('main');
    const stop = new AbortController();
    const deps = mirror().deps(sim.url);
    const busy: JobDeps = {
      ...deps,
      store: {
        ...deps.store,
        sellers: {
          ...deps.store.sellers,
          lock: (sellerId) => {
            stop.abort();
            return deps.store.sellers.lock(sellerId);
          },
        },
      },
    };
    expect(await performMirrorTask(busy, job(), stop.signal)).toEqual({ kind: 'hand-back' });
    await lock.release();
  });
});

describe('what may pass', () => {
  it('is tried again, not before the marketplace said', async () => {
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

  it('of the store fails the run, not the process: the job is tried again', async () => {
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

  it('is a store that can’t be reached at all, told in one line', async () => {
    const sim = await market();
    const store = openStore('postgresql://nobody:pass-word@127.0.0.1:1/none', 'test');
    const deps = { ...mirror().deps(sim.url), store };
    const outcome = await performMirrorTask(deps, job(), never);
    await store.close();
    expect(outcome).toMatchObject({ kind: 'retry', alert: null });
    if (outcome.kind !== 'retry') throw new Error('unreachable');
    expect(outcome.problem).toMatch(/connection was refused/);
    expect(outcome.problem).not.toContain('pass-word');
    expect(outcome.problem).not.toContain('\n');
  });
});
