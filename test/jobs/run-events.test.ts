import { describe, expect, it } from 'vitest';
import { syncAccount } from '../../src/jobs/sync-account.js';
import { syncCatalogue } from '../../src/jobs/sync-catalogue.js';
import type { RunEvent } from '../../src/jobs/types.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { KEY, never, useMirror } from '../support/mirror.js';

const mirror = useMirror();

async function market(count = 5) {
  const catalogue = seededCatalogue({ seed: 7, count });
  return mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
}

describe('who listens to runs', () => {
  it('hears of each as it begins and ends, with its figures', async () => {
    const sim = await market();
    const events: RunEvent[] = [];
    const deps = mirror().deps(sim.url, { onRun: (event) => events.push(event) });
    const { report } = await syncAccount(deps, never);
    sim.faults.always('list', { kind: 'html', status: 200 });
    const failed = await syncCatalogue(deps, never);
    expect(events).toEqual([
      { phase: 'started', runId: report.runId, kind: 'account' },
      {
        phase: 'finished',
        runId: report.runId,
        kind: 'account',
        state: 'succeeded',
        counts: report.counts,
        problem: null,
        durationMs: expect.any(Number) as number,
      },
      { phase: 'started', runId: failed.runId, kind: 'items' },
      expect.objectContaining({ state: 'failed', problem: failed.problem }),
    ]);
  });

  it('hears that a run was interrupted, which the caller gets as an error', async () => {
    const sim = await market();
    sim.faults.next('list', { kind: 'stall', ms: 5_000 });
    const interruption = new AbortController();
    const states: string[] = [];
    const deps = mirror().deps(sim.url, {
      onRun: (event) => states.push(event.phase === 'finished' ? event.state : event.phase),
    });
    const run = syncCatalogue(deps, interruption.signal);
    while (sim.log.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    interruption.abort(new Error('stop'));
    await expect(run).rejects.toThrow('stop');
    expect(states).toEqual(['started', 'interrupted']);
  });

  it('can’t harm the run by failing: the copy is worth more than a log line', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url, {
      onRun: () => {
        throw new Error('the log is full');
      },
    });
    expect(await syncCatalogue(deps, never)).toMatchObject({ state: 'succeeded' });
  });
});

describe('a run', () => {
  it('is entered with the job it belongs to, and without one when made by hand', async () => {
    const sim = await market();
    await syncAccount(mirror().deps(sim.url, { jobId: 'sync-main-1' }), never);
    await syncAccount(mirror().deps(sim.url), never);
    expect(await mirror().rows('SELECT job_id FROM mirror.runs ORDER BY run_id')).toEqual([
      { job_id: 'sync-main-1' },
      { job_id: null },
    ]);
  });

  it('that was limited or met maintenance says when to come back', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    const before = Date.now();
    for (const status of [429, 503]) {
      sim.faults.clear();
      sim.faults.always('account', {
        kind: 'reply',
        status,
        body: 'later',
        headers: { 'retry-after': '7200' },
      });
      const { report } = await syncAccount(deps, never);
      expect(report.problem?.notBefore).toBeGreaterThanOrEqual(before + 7_200_000 - 1_000);
    }
  });

  it('that failed otherwise leaves it to whoever repeats it', async () => {
    const sim = await market();
    sim.faults.always('account', { kind: 'html', status: 200 });
    const { report } = await syncAccount(mirror().deps(sim.url), never);
    expect(report.problem).toMatchObject({ code: 'unavailable', notBefore: null });
  });
});
