import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { until } from '../../support/until.js';
import {
  aborted,
  describeBackends,
  DONE,
  type JobOutcome,
  type QueueCounts,
  type Queues,
  sync,
  testQueue,
  type TestQueue,
  untilCounts,
  work,
} from './support.js';

/** What the product needs from its queue, whichever server stores it. */
describeBackends('the queue', (address) => {
  let test: TestQueue;
  let queues: Queues;
  beforeEach(async () => {
    test = testQueue(...(await address()));
    queues = await test.open();
  });

  const mirror = async (): Promise<QueueCounts> => (await queues.counts()).mirror;

  it('does not leave a job for a month that was delayed while the clock was a month ahead', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 30 * 86_400_000 });
    onTestFinished(() => void vi.useRealTimers());
    const { seen } = work(queues, () =>
      seen.length === 1 ? { kind: 'later', reason: 'busy', delayMs: 60_000 } : DONE,
    );
    await queues.add('mirror', sync('acme'));
    await untilCounts(queues, { delayed: 1, active: 0 });
    vi.useRealTimers();
    // As the next check of what is due does.
    await queues.add('mirror', sync('acme'));
    await untilCounts(queues, { completed: 1, delayed: 0 });
    expect(seen).toHaveLength(2);
  });

  it('runs a job that is done once, and keeps it to be shown', async () => {
    const events: unknown[] = [];
    const { seen } = work(queues, undefined, { onJob: (event) => events.push(event) });
    await queues.add('mirror', sync('acme'));
    await untilCounts(queues, { completed: 1 });
    expect(seen).toMatchObject([
      { task: sync('acme'), context: { subject: 'sync.acme.20261121T020000Z', attempt: 1 } },
    ]);
    expect(events).toMatchObject([{ queue: 'mirror', name: 'sync', outcome: 'done' }]);
  });

  it('has one unfinished job about a thing, whoever adds it', async () => {
    const other = await test.open();
    await Promise.all(
      [queues, other, queues, other].map((each) => each.add('mirror', sync('acme'))),
    );
    await queues.add('mirror', sync('acme', 30));
    expect(await mirror()).toMatchObject({ waiting: 2 });
  });

  it('takes a job again once the last one about the same has ended: a finished job says nothing', async () => {
    let outcome: JobOutcome = DONE;
    const { seen } = work(queues, () => outcome);
    await queues.add('mirror', sync('acme'));
    await untilCounts(queues, { completed: 1 });
    outcome = { kind: 'give-up', problem: 'no' };
    await queues.add('mirror', sync('acme'));
    await untilCounts(queues, { completed: 1, failed: 1 });
    outcome = DONE;
    await queues.add('mirror', sync('acme'));
    await untilCounts(queues, { completed: 2, failed: 1 });
    expect(seen).toHaveLength(3);
  });

  it('retries a job after its backoff, and keeps the message without a stack', async () => {
    const { seen } = work(queues, ({ attempt }) => {
      if (attempt === 1) throw new Error(`broken ${'x'.repeat(10_000)}`);
      return DONE;
    });
    await queues.add('mirror', sync('acme'));
    await untilCounts(queues, { delayed: 1 });
    const [job] = await (await test.bull()).getDelayed();
    expect(job?.failedReason).toMatch(/^broken x{100,}/);
    expect(job?.failedReason.length).toBeLessThanOrEqual(500);
    expect(job?.stacktrace ?? []).toEqual([]);
    // A second hint about it starts it at once.
    await queues.add('mirror', sync('acme'), { promote: true });
    await untilCounts(queues, { completed: 1 });
    expect(seen.map(({ context }) => context.attempt)).toEqual([1, 2]);
  });

  it('delays a job without using up an attempt, and holds its place meanwhile', async () => {
    let times = 0;
    const { seen } = work(queues, () => {
      times += 1;
      return times < 3 ? { kind: 'later', reason: 'busy', delayMs: times * 200 - 200 } : DONE;
    });
    await queues.add('mirror', sync('acme'));
    await untilCounts(queues, { completed: 1 });
    expect(seen.map(({ context }) => context.attempt)).toEqual([1, 1, 1]);
  });

  it('gives a job up for good, lists it, and runs it again on request', async () => {
    let outcome: JobOutcome = { kind: 'give-up', problem: 'the key is refused' };
    const { seen } = work(queues, () => outcome);
    await queues.add('mirror', sync('acme'));
    await untilCounts(queues, { failed: 1 });
    const [failed] = await queues.failedJobs('mirror', 10);
    expect(failed).toMatchObject({ kind: 'sync', seller: 'acme', problem: 'the key is refused' });
    outcome = DONE;
    expect(await queues.retry('mirror', failed?.jobId ?? '')).toEqual(sync('acme'));
    await untilCounts(queues, { completed: 1 });
    expect(seen.map(({ context }) => context.attempt)).toEqual([1, 1]);
    expect(await queues.retry('mirror', failed?.jobId ?? '')).toBeNull();
    expect(await queues.retry('mirror', 'gone')).toBeNull();
  });

  it.each(['returns', 'throws'])(
    'hands a job back without using up an attempt if its handler %s only when stopped',
    async (how) => {
      const { seen, worker } = work(queues, async ({ signal }) => {
        await aborted(signal);
        if (how === 'throws') throw new Error('interrupted');
        return { kind: 'hand-back' };
      });
      await queues.add('mirror', sync('acme'));
      await until(() => seen.length === 1);
      expect(await worker.stop(50)).toEqual({ handedBack: 1 });
      expect(await mirror()).toMatchObject({ waiting: 1, active: 0 });
      const next = work(queues);
      await untilCounts(queues, { completed: 1 });
      expect(next.seen.map(({ context }) => context.attempt)).toEqual([1]);
    },
  );

  it('finishes active jobs before it stops, and takes no new one', async () => {
    let finish = (): void => undefined;
    const finished = new Promise<void>((resolve) => (finish = resolve));
    const { seen, worker } = work(queues, () => finished.then(() => DONE));
    for (const minute of [0, 1]) await queues.add('mirror', sync('acme', minute));
    await until(() => seen.length === 1);
    const stopped = worker.stop(30_000);
    finish();
    await stopped;
    expect(seen).toHaveLength(1);
    expect(await mirror()).toMatchObject({ waiting: 1, active: 0, completed: 1 });
  });

  it('gives a job whose worker hangs to another one', async () => {
    const { seen, worker } = work(queues, () => new Promise(() => undefined));
    await queues.add('mirror', sync('acme'));
    await until(() => seen.length === 1);
    expect(await worker.stop(50)).toEqual({ handedBack: 0 });
    const next = work(await test.open());
    await untilCounts(queues, { completed: 1 });
    expect(next.seen).toHaveLength(1);
  });

  it('renews the locks of long jobs, so that no other worker takes them over', async () => {
    const interrupted: boolean[] = [];
    const end = async ({ signal }: { readonly signal: AbortSignal }): Promise<JobOutcome> => {
      await sleep(2_500);
      interrupted.push(signal.aborted);
      return DONE;
    };
    work(queues, end);
    work(await test.open(), end);
    await queues.add('mirror', sync('acme'));
    await untilCounts(queues, { completed: 1 });
    expect(interrupted).toEqual([false]);
  });

  it('processes as many jobs at the same time as configured, each once', async () => {
    let now = 0;
    let most = 0;
    const minutes = Array.from({ length: 30 }, (_, minute) => minute);
    await Promise.all(minutes.map((minute) => queues.add('mirror', sync('acme', minute))));
    const { seen } = work(
      queues,
      async () => {
        most = Math.max(most, (now += 1));
        await sleep(10);
        now -= 1;
        return DONE;
      },
      { concurrency: 3 },
    );
    await untilCounts(queues, { completed: 30 });
    expect(most).toBe(3);
    expect(new Set(seen.map(({ context }) => context.subject)).size).toBe(30);
  });

  it('fails a job with an unknown payload for good, and stores no field but the task’s', async () => {
    const { seen } = work(queues);
    const bull = await test.bull();
    await bull.add('sync', { v: 1, task: { kind: 'sync' } }, { jobId: 'odd', attempts: 5 });
    await untilCounts(queues, { failed: 1 });
    expect((await bull.getJob('odd'))?.failedReason).toContain('payload is invalid');
    expect(seen).toEqual([]);
    await queues.add(
      'feeds',
      Object.assign({ kind: 'deliver', feed: 'x' } as const, { key: 'no' }),
    );
    await expect(queues.add('mirror', sync('x'.repeat(5_000)))).rejects.toThrow('invalid task');
  });

  it('shows its workers and their throughput to dashboards for BullMQ', async () => {
    const bull = await test.bull();
    work(queues);
    await until(async () => (await bull.getWorkersCount()) === 1);
    expect((await bull.getWorkers())[0]?.['rawname']).toContain(`${hostname()}.${process.pid}`);
    await queues.add('mirror', sync('acme'));
    await untilCounts(queues, { completed: 1 });
    expect((await bull.getMetrics('completed')).meta.count).toBe(1);
  });

  it('closes once, and then rejects calls', async () => {
    await Promise.all([queues.close(), queues.close()]);
    await expect(queues.counts()).rejects.toMatchObject({ code: 'QUEUE' });
  });
});
