import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import type { JobOutcome } from '../../../src/catalogue/types.js';
import type { QueueCounts, Queues } from '../../../src/service/queue/queues.js';
import type { JobEvent } from '../../../src/service/queue/worker.js';
import { until } from '../../support/until.js';
import { aborted, DONE, jobIds, sync, untilCounts, work } from './support.js';
import type { Recorded, TestQueue } from './support.js';

/** What the product needs from its queue, whichever server stores it. */
export function describeQueue(title: string, create: () => Promise<TestQueue> | TestQueue): void {
  describe(title, () => {
    let test: TestQueue;
    let queues: Queues;
    beforeEach(async () => {
      test = await create();
      queues = await test.open();
    });

    const mirror = async (): Promise<QueueCounts> => (await queues.counts()).mirror;
    const attemptsOf = (seen: readonly Recorded[]): number[] =>
      seen.map(({ context }) => context.attempt);

    it('passes a task to the handler unchanged', async () => {
      const { seen } = work(queues);
      const { jobId, added } = await queues.add('mirror', sync('acme'));
      expect(added).toBe(true);
      await until(() => seen.length === 1);
      expect(seen[0]?.task).toEqual(sync('acme'));
      expect(seen[0]?.context).toMatchObject({ jobId, attempt: 1, attempts: 12 });
      await untilCounts(queues, { completed: 1 });
    });

    it('lists its workers, as dashboards for BullMQ show them', async () => {
      const bull = await test.bull();
      expect(await bull.getWorkersCount()).toBe(0);
      work(queues);
      await until(async () => (await bull.getWorkersCount()) === 1);
      const [worker] = await bull.getWorkers();
      expect(worker?.['rawname']).toContain(`${hostname()}.${process.pid}`);
    });

    it('has a separate queue for alerts, so that they never wait for runs', async () => {
      const { seen } = work(queues, ({ signal }) =>
        aborted(signal).then(() => ({ kind: 'hand-back' })),
      );
      const alerts: unknown[] = [];
      const handler = (task: unknown): Promise<JobOutcome> => {
        alerts.push(task);
        return Promise.resolve(DONE);
      };
      queues.work('alerts', handler, { concurrency: 1 });
      await queues.add('mirror', sync('acme'));
      await until(() => seen.length === 1);
      const task = { kind: 'run-failed', runId: '17' } as const;
      const jobId = 'run-failed.17';
      expect(await queues.add('alerts', task, jobId)).toEqual({ jobId, added: true });
      await until(() => alerts.length === 1);
      expect(alerts).toEqual([task]);
    });

    it('adds a job id only once, from any process, even when the job is done', async () => {
      const other = await test.open();
      const jobId = 'sync.acme.20261121T020000Z';
      const jobs = await Promise.all(
        [queues, other, queues, other].map((each) => each.add('mirror', sync('acme'), jobId)),
      );
      expect(jobs.filter(({ added }) => added)).toHaveLength(1);
      expect(await mirror()).toMatchObject({ waiting: 1 });
      const { seen } = work(queues);
      await untilCounts(queues, { completed: 1 });
      expect(await queues.add('mirror', sync('acme'), jobId)).toEqual({ jobId, added: false });
      expect(await mirror()).toMatchObject({ waiting: 0, active: 0, completed: 1 });
      expect(seen).toHaveLength(1);
    });

    it('gives each job without an id a new one, even in the same second', async () => {
      const one = await queues.add('mirror', sync('acme'));
      const two = await queues.add('mirror', sync('acme'));
      expect(one.jobId).toMatch(/^sync\.acme\.asked-\d{8}T\d{6}Z-[0-9a-f]{12}$/);
      expect([one.added, two.added]).toEqual([true, true]);
      expect(await mirror()).toMatchObject({ waiting: 2 });
    });

    it('retries a failed job, counts attempts, and keeps the message without a stack', async () => {
      const { seen } = work(queues, ({ attempt }) =>
        attempt < 3 ? { kind: 'retry', problem: `no luck ${attempt}`, notBefore: null } : DONE,
      );
      const { jobId } = await queues.add('mirror', sync('acme'));
      await untilCounts(queues, { completed: 1 });
      expect(attemptsOf(seen)).toEqual([1, 2, 3]);
      const job = await (await test.bull()).getJob(jobId);
      expect(job?.failedReason).toBe('no luck 2');
      expect(job?.stacktrace ?? []).toEqual([]);
    });

    it('passes the earliest time of a retry to the backoff, and starts nothing before it', async () => {
      const notBefore = Date.now() + 700;
      const startedAt: number[] = [];
      const backoff = (_attempt: number, time: number | null, now: number): number =>
        (time ?? now) - now;
      const end = ({ attempt }: { readonly attempt: number }): JobOutcome => {
        startedAt.push(Date.now());
        return attempt === 1 ? { kind: 'retry', problem: 'later', notBefore } : DONE;
      };
      work(await test.open({ tuning: { backoff } }), end);
      await queues.add('mirror', sync('acme'));
      await until(() => startedAt.length === 2);
      expect(startedAt[1]).toBeGreaterThanOrEqual(notBefore);
    });

    it('retries after an exception, and shortens its message', async () => {
      const { seen } = work(queues, ({ attempt }) => {
        if (attempt === 1) throw new Error(`broken ${'x'.repeat(10_000)}`);
        return DONE;
      });
      const { jobId } = await queues.add('mirror', sync('acme'));
      await untilCounts(queues, { completed: 1 });
      expect(seen).toHaveLength(2);
      const job = await (await test.bull()).getJob(jobId);
      expect(job?.failedReason).toMatch(/^broken x+$/);
      expect(job?.failedReason?.length).toBeLessThanOrEqual(500);
      expect(job?.stacktrace ?? []).toEqual([]);
    });

    it('gives a job up after its last attempt', async () => {
      const few = await test.open({ tuning: { attempts: 2 } });
      const { seen } = work(queues, () => ({ kind: 'retry', problem: 'no', notBefore: null }));
      await few.add('mirror', sync('acme'));
      await untilCounts(queues, { failed: 1 });
      expect(attemptsOf(seen)).toEqual([1, 2]);
    });

    it('lists a job that was given up, and runs it again with all its attempts on request', async () => {
      let outcome: JobOutcome = { kind: 'give-up', problem: 'the key is refused' };
      const { seen } = work(queues, () => outcome);
      const { jobId } = await queues.add('mirror', sync('acme'));
      await untilCounts(queues, { failed: 1 });
      expect(await queues.endedJobs('mirror', 'failed', 10)).toMatchObject([
        { queue: 'mirror', jobId, kind: 'sync', seller: 'acme', problem: 'the key is refused' },
      ]);
      outcome = DONE;
      expect(await queues.retry('mirror', jobId)).toBe(true);
      await untilCounts(queues, { completed: 1 });
      expect(attemptsOf(seen)).toEqual([1, 1]);
      expect(await queues.endedJobs('mirror', 'failed', 10)).toEqual([]);
      const completed = await queues.endedJobs('mirror', 'completed', 10);
      expect(completed).toMatchObject([{ jobId, problem: null }]);
    });

    it('does not run a job again that did not fail, or is gone', async () => {
      const { jobId } = await queues.add('mirror', sync('acme'));
      expect(await queues.retry('mirror', jobId)).toBe(false);
      expect(await queues.retry('mirror', 'gone')).toBe(false);
      expect(await mirror()).toMatchObject({ waiting: 1 });
    });

    it('delays a job without using up an attempt, even by a negative time', async () => {
      const startedAt: number[] = [];
      const { seen } = work(queues, () => {
        startedAt.push(Date.now());
        if (startedAt.length > 2) return DONE;
        const delayMs = startedAt.length === 1 ? 300 : -60_000;
        return { kind: 'later', reason: 'another run is active', delayMs };
      });
      await queues.add('mirror', sync('acme'));
      await untilCounts(queues, { completed: 1 });
      expect(attemptsOf(seen)).toEqual([1, 1, 1]);
      const [first = 0, second = 0] = startedAt;
      expect(second - first).toBeGreaterThanOrEqual(299);
    });

    it('fails a job with an invalid payload for good, with the reason', async () => {
      const { seen } = work(queues);
      const bull = await test.bull();
      const payload = { v: 1, mark: 'x', task: { kind: 'sync', seller: 7 } };
      await bull.add('sync', payload, { jobId: 'odd', attempts: 5 });
      await bull.add('sync', { something: 'else' }, { jobId: 'odder', attempts: 5 });
      await untilCounts(queues, { failed: 2 });
      expect((await bull.getJob('odd'))?.failedReason).toContain('payload is invalid: task.seller');
      expect((await bull.getJob('odder'))?.failedReason).toContain('payload is invalid');
      expect(seen).toEqual([]);
    });

    it('stores only the fields of the task', async () => {
      const task = { ...sync('acme'), key: 'not-for-a-queue' };
      const { jobId } = await queues.add('mirror', task);
      const job = await (await test.bull()).getJob(jobId);
      expect(job?.data).toEqual({ v: 1, mark: expect.any(String), task: sync('acme') });
    });

    it('processes as many jobs at the same time as configured, each once', async () => {
      let now = 0;
      let most = 0;
      const ids = Array.from({ length: 30 }, (_, i) => `items.acme.${i}`);
      await Promise.all(ids.map((id) => queues.add('mirror', sync('acme'), id)));
      const events: JobEvent[] = [];
      const { seen } = work(
        queues,
        async () => {
          most = Math.max(most, (now += 1));
          await sleep(10);
          now -= 1;
          return DONE;
        },
        { concurrency: 3, onJob: (event) => events.push(event) },
      );
      await untilCounts(queues, { completed: 30 });
      expect(most).toBe(3);
      expect(seen).toHaveLength(30);
      expect(jobIds(seen)).toEqual(ids.toSorted());
      await until(() => events.length === 30);
      expect(events[0]).toMatchObject({ queue: 'mirror', name: 'sync', outcome: 'done' });
    });

    it('continues if `onJob` throws', async () => {
      const onJob = (): never => {
        throw new Error('no such counter');
      };
      work(queues, undefined, { onJob });
      for (let jobs = 0; jobs < 2; jobs += 1) await queues.add('mirror', sync('acme'));
      await untilCounts(queues, { completed: 2 });
    });

    it('limits the number of finished jobs and of events', async () => {
      const tidy = await test.open({ tuning: { completedKept: 5, failedKept: 3 } });
      // Adding all 300 at once would exceed the time limit of a call.
      const ten = Array.from({ length: 10 }, (_, i) => (i === 0 ? 'bad' : 'good'));
      for (let n = 0; n < 30; n++) {
        await Promise.all(ten.map((seller) => tidy.add('mirror', sync(seller))));
      }
      const end = (_: unknown, { seller }: { readonly seller: string }): JobOutcome =>
        seller === 'bad' ? { kind: 'give-up', problem: 'no' } : DONE;
      work(tidy, end, { concurrency: 4 });
      await untilCounts(queues, { waiting: 0, active: 0 });
      // Jobs that end in the same moment don't see each other, so a few more may remain for now.
      const { completed, failed } = await mirror();
      expect(completed).toBeGreaterThanOrEqual(5);
      expect(completed).toBeLessThan(5 + 4);
      expect(failed).toBeGreaterThanOrEqual(3);
      expect(failed).toBeLessThan(3 + 4);
      // Both servers trim in steps: Redis by nodes of 100, PostgreSQL every 256th time.
      expect(await test.events()).toBeLessThan(500);
    });

    it('deletes finished jobs after the configured time', async () => {
      const tidy = await test.open({ keepJobsDays: 1 / 86_400 });
      work(tidy);
      await tidy.add('mirror', sync('acme'), 'first');
      await untilCounts(queues, { completed: 1 });
      await sleep(1_500);
      await tidy.add('mirror', sync('acme'), 'second');
      await until(async () => (await (await test.bull()).getJobState('first')) === 'unknown');
      expect(await mirror()).toMatchObject({ completed: 1 });
    });

    it('finishes active jobs before it stops, and takes no new one', async () => {
      let finish = (): void => undefined;
      const finished = new Promise<void>((resolve) => (finish = resolve));
      const { seen, worker } = work(queues, () => finished.then(() => DONE));
      await queues.add('mirror', sync('acme'));
      await queues.add('mirror', sync('bert'));
      await until(() => seen.length === 1);
      const stopped = worker.stop(30_000);
      finish();
      expect(await stopped).toEqual({ handedBack: 0 });
      expect(await mirror()).toMatchObject({ waiting: 1, active: 0, completed: 1 });
    });

    it.each(['returns', 'throws'])(
      'hands a job back without using up an attempt if its handler %s only when stopped',
      async (how) => {
        const { seen, worker } = work(queues, async ({ signal }) => {
          await aborted(signal);
          if (how === 'throws') signal.throwIfAborted();
          return { kind: 'hand-back' };
        });
        await queues.add('mirror', sync('acme'));
        await until(() => seen.length === 1);
        expect(await worker.stop(50)).toEqual({ handedBack: 1 });
        expect(await mirror()).toMatchObject({ waiting: 1, active: 0 });
        const next = work(queues);
        await untilCounts(queues, { completed: 1 });
        expect(attemptsOf(next.seen)).toEqual([1]);
      },
    );

    it('stops even if a handler never returns, and another worker takes the job over', async () => {
      const { seen, worker } = work(queues, () => new Promise(() => undefined));
      await queues.add('mirror', sync('acme'));
      await until(() => seen.length === 1);
      expect(await worker.stop(50)).toEqual({ handedBack: 0 });
      const next = work(await test.open());
      await untilCounts(queues, { completed: 1 });
      expect(attemptsOf(next.seen)).toEqual([1]);
    });

    it('renews the locks of long jobs, so that no other worker takes them over', async () => {
      // Check within the handler: a renewal that runs while the outcome is recorded comes too late.
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

    it('interrupts a job that another worker has taken over, and records nothing', async () => {
      const events: JobEvent[] = [];
      const { seen } = work(queues, ({ signal }) => aborted(signal).then(() => DONE), {
        onJob: (event) => events.push(event),
      });
      const { jobId } = await queues.add('mirror', sync('acme'));
      await until(() => seen.length === 1);
      await test.steal(jobId);
      await until(() => seen[0]?.context.signal.aborted === true);
      expect(String(seen[0]?.context.signal.reason)).toContain('another worker');
      await until(() => test.lines.some(({ message }) => message.startsWith('could not record')));
      expect(await mirror()).toMatchObject({ active: 1, completed: 0 });
      expect(events).toEqual([]);
    });

    it('rejects an invalid job id, and a task that workers could not read', async () => {
      const badId = queues.add('mirror', sync('acme'), 'sync:acme');
      await expect(badId).rejects.toThrow('invalid job id');
      const badTask = queues.add('mirror', sync('x'.repeat(5_000)), 'sync.x');
      await expect(badTask).rejects.toThrow('invalid task for queue mirror');
    });

    it('closes once, and then rejects calls', async () => {
      await Promise.all([queues.close(), queues.close()]);
      await expect(queues.counts()).rejects.toMatchObject({ code: 'QUEUE' });
    });
  });
}
