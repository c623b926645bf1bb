import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Queues } from '../../src/queue/queues.js';
import type { JobEvent } from '../../src/queue/worker.js';
import { aborted, DONE, noting, sync, until } from './support.js';
import type { Trial } from './support.js';

/** What the product needs of its queue, whatever keeps it. */
export function describeQueue(title: string, makeTrial: () => Promise<Trial> | Trial): void {
  describe(title, () => {
    let trial: Trial;
    let queues: Queues;
    beforeEach(async () => {
      trial = await makeTrial();
      queues = await trial.open();
    });

    const mirror = async (): Promise<Awaited<ReturnType<Queues['counts']>>['mirror']> =>
      (await queues.counts()).mirror;

    it('hands a task over as it was given', async () => {
      const { handler, seen } = noting();
      queues.work('mirror', handler, { concurrency: 1 });
      const { jobId, added } = await queues.add('mirror', sync('acme'));
      expect(added).toBe(true);
      await until(() => seen.length === 1);
      expect(seen[0]?.task).toEqual(sync('acme'));
      expect(seen[0]?.context).toMatchObject({ jobId, attempt: 1, attempts: 12 });
      await until(async () => (await mirror()).completed === 1);
    });

    it('hands alerts over in a queue of their own, so that they never wait behind runs', async () => {
      const runs = noting(({ signal }) => aborted(signal).then(() => ({ kind: 'hand-back' })));
      const told: unknown[] = [];
      queues.work('mirror', runs.handler, { concurrency: 1 });
      queues.work(
        'alerts',
        (task) => {
          told.push(task);
          return Promise.resolve(DONE);
        },
        { concurrency: 1 },
      );
      await queues.add('mirror', sync('acme'));
      await until(() => runs.seen.length === 1);
      const task = { kind: 'run-failed', runId: '17' } as const;
      expect(await queues.add('alerts', task, 'run-failed.17')).toEqual({
        jobId: 'run-failed.17',
        added: true,
      });
      await until(() => told.length === 1);
      expect(told).toEqual([task]);
    });

    it('adds an id once, whoever asks and however often, also when it is done', async () => {
      const other = await trial.open();
      const id = 'sync.acme.20261121T020000Z';
      const many = [queues, other, queues, other].map((it) => it.add('mirror', sync('acme'), id));
      const all = await Promise.all(many);
      expect(all.filter(({ added }) => added)).toHaveLength(1);
      expect(await mirror()).toMatchObject({ waiting: 1 });
      const { handler, seen } = noting();
      queues.work('mirror', handler, { concurrency: 2 });
      await until(async () => (await mirror()).completed === 1);
      expect(await queues.add('mirror', sync('acme'), id)).toEqual({ jobId: id, added: false });
      expect(await mirror()).toMatchObject({ waiting: 0, active: 0, completed: 1 });
      expect(seen).toHaveLength(1);
    });

    it('makes ids of their own for what people ask for, in the same second too', async () => {
      const one = await queues.add('mirror', sync('acme'));
      const two = await queues.add('mirror', sync('acme'));
      expect(one.jobId).toMatch(/^sync\.acme\.asked-\d{8}T\d{6}Z-[0-9a-f]{12}$/);
      expect([one.added, two.added]).toEqual([true, true]);
      expect(await mirror()).toMatchObject({ waiting: 2 });
    });

    it('tries again what failed, counting attempts, and keeps the words but no stack', async () => {
      const { handler, seen } = noting(({ attempt }) =>
        attempt < 3 ? { kind: 'retry', problem: `no luck ${attempt}`, notBefore: null } : DONE,
      );
      queues.work('mirror', handler, { concurrency: 1 });
      const { jobId } = await queues.add('mirror', sync('acme'));
      await until(async () => (await mirror()).completed === 1);
      expect(seen.map(({ context }) => context.attempt)).toEqual([1, 2, 3]);
      const job = await (await trial.bull()).getJob(jobId);
      expect(job?.failedReason).toBe('no luck 2');
      expect(job?.stacktrace ?? []).toEqual([]);
    });

    it('passes the time to come back on to the pause, and starts nothing before it', async () => {
      const notBefore = Date.now() + 700;
      const startedAt: number[] = [];
      const { handler } = noting(({ attempt }) => {
        startedAt.push(Date.now());
        return attempt === 1 ? { kind: 'retry', problem: 'later', notBefore } : DONE;
      });
      const patient = await trial.open({
        tuning: { backoff: (_attempt, time, now) => (time ?? now) - now },
      });
      patient.work('mirror', handler, { concurrency: 1 });
      await queues.add('mirror', sync('acme'));
      await until(() => startedAt.length === 2);
      expect(startedAt[1]).toBeGreaterThanOrEqual(notBefore);
    });

    it('takes an exception for a failure that may pass', async () => {
      const { handler, seen } = noting(({ attempt }) => {
        if (attempt === 1) throw new Error(`broken ${'x'.repeat(10_000)}`);
        return DONE;
      });
      queues.work('mirror', handler, { concurrency: 1 });
      const { jobId } = await queues.add('mirror', sync('acme'));
      await until(async () => (await mirror()).completed === 1);
      expect(seen).toHaveLength(2);
      const job = await (await trial.bull()).getJob(jobId);
      expect(job?.failedReason).toMatch(/^broken x+$/);
      expect(job?.failedReason?.length).toBeLessThanOrEqual(500);
      expect(job?.stacktrace ?? []).toEqual([]);
    });

    it('gives a job up after its last attempt', async () => {
      const few = await trial.open({ tuning: { attempts: 2 } });
      const { handler, seen } = noting(() => ({ kind: 'retry', problem: 'no', notBefore: null }));
      few.work('mirror', handler, { concurrency: 1 });
      await few.add('mirror', sync('acme'));
      await until(async () => (await mirror()).failed === 1);
      expect(seen.map(({ context }) => context.attempt)).toEqual([1, 2]);
    });

    it('does not try again what repeating can not help, tells why it failed, and tries it with all its attempts when asked', async () => {
      let works = false;
      const { handler, seen } = noting(() =>
        works ? DONE : { kind: 'give-up', problem: 'the key is refused' },
      );
      queues.work('mirror', handler, { concurrency: 1 });
      const { jobId } = await queues.add('mirror', sync('acme'));
      await until(async () => (await mirror()).failed === 1);
      expect(await queues.ended('mirror', 'failed', 10)).toMatchObject([
        { queue: 'mirror', jobId, kind: 'sync', seller: 'acme', problem: 'the key is refused' },
      ]);
      works = true;
      expect(await queues.retry('mirror', jobId)).toBe(true);
      await until(async () => (await mirror()).completed === 1);
      expect(seen.map(({ context }) => context.attempt)).toEqual([1, 1]);
      expect(await queues.ended('mirror', 'failed', 10)).toEqual([]);
      expect(await queues.ended('mirror', 'completed', 10)).toMatchObject([
        { jobId, problem: null },
      ]);
    });

    it('tries nothing again that did not fail, or is gone', async () => {
      const { jobId } = await queues.add('mirror', sync('acme'));
      expect(await queues.retry('mirror', jobId)).toBe(false);
      expect(await queues.retry('mirror', 'gone')).toBe(false);
      expect(await mirror()).toMatchObject({ waiting: 1 });
    });

    it('puts a job off without using up an attempt, and by nothing where the time is past already', async () => {
      const startedAt: number[] = [];
      const { handler, seen } = noting(() => {
        startedAt.push(Date.now());
        if (startedAt.length > 2) return DONE;
        const delayMs = startedAt.length === 1 ? 300 : -60_000;
        return { kind: 'later', reason: 'another run is at work', delayMs };
      });
      queues.work('mirror', handler, { concurrency: 1 });
      await queues.add('mirror', sync('acme'));
      await until(async () => (await mirror()).completed === 1);
      expect(seen.map(({ context }) => context.attempt)).toEqual([1, 1, 1]);
      const [first = 0, second = 0] = startedAt;
      expect(second - first).toBeGreaterThanOrEqual(299);
    });

    it('fails a job for good that it does not understand, and says so', async () => {
      const { handler, seen } = noting();
      queues.work('mirror', handler, { concurrency: 1 });
      const bull = await trial.bull();
      const payload = { v: 1, mark: 'x', task: { kind: 'sync', seller: 7 } };
      await bull.add('sync', payload, { jobId: 'odd', attempts: 5 });
      await bull.add('sync', { something: 'else' }, { jobId: 'odder', attempts: 5 });
      await until(async () => (await mirror()).failed === 2);
      expect((await bull.getJob('odd'))?.failedReason).toContain('is not understood: task.seller');
      expect((await bull.getJob('odder'))?.failedReason).toContain('is not understood');
      expect(seen).toEqual([]);
    });

    it('stores ids and nothing else', async () => {
      const task = { ...sync('acme'), key: 'not-for-a-queue' };
      const { jobId } = await queues.add('mirror', task);
      const job = await (await trial.bull()).getJob(jobId);
      expect(job?.data).toEqual({ v: 1, mark: expect.any(String), task: sync('acme') });
    });

    it('works on as many jobs at the same time as it may, and on each once', async () => {
      let now = 0;
      let most = 0;
      const { handler, seen } = noting(async () => {
        most = Math.max(most, (now += 1));
        await sleep(10);
        now -= 1;
        return DONE;
      });
      const ids = Array.from({ length: 30 }, (_, i) => `items.acme.${i}`);
      await Promise.all(ids.map((id) => queues.add('mirror', sync('acme'), id)));
      const events: JobEvent[] = [];
      queues.work('mirror', handler, { concurrency: 3, onJob: (event) => events.push(event) });
      await until(async () => (await mirror()).completed === 30);
      expect(most).toBe(3);
      expect(seen.map(({ context }) => context.jobId).toSorted()).toEqual(ids.toSorted());
      await until(() => events.length === 30);
      expect(events[0]).toMatchObject({ queue: 'mirror', name: 'sync', outcome: 'done' });
    });

    it('goes on when whoever counts its jobs fails', async () => {
      const onJob = (): never => {
        throw new Error('no such counter');
      };
      queues.work('mirror', noting().handler, { concurrency: 1, onJob });
      for (let jobs = 0; jobs < 2; jobs += 1) await queues.add('mirror', sync('acme'));
      await until(async () => (await mirror()).completed === 2);
    });

    it('keeps finished jobs in bounds, and events too', async () => {
      const tidy = await trial.open({ tuning: { completedKept: 5, failedKept: 3 } });
      const { handler } = noting((_context, { seller }) =>
        seller === 'bad' ? { kind: 'give-up', problem: 'no' } : DONE,
      );
      // All at once they would wait for each other, longer than an answer may take.
      const ten = Array.from({ length: 10 }, (_, i) => (i === 0 ? 'bad' : 'good'));
      for (let n = 0; n < 30; n++) {
        await Promise.all(ten.map((seller) => tidy.add('mirror', sync(seller))));
      }
      tidy.work('mirror', handler, { concurrency: 4 });
      await until(async () => {
        const { waiting, active } = await mirror();
        return waiting + active === 0;
      });
      // Jobs that end in the same moment do not see each other: a few more may stay till the next.
      const { completed, failed } = await mirror();
      expect(completed).toBeGreaterThanOrEqual(5);
      expect(completed).toBeLessThan(5 + 4);
      expect(failed).toBeGreaterThanOrEqual(3);
      expect(failed).toBeLessThan(3 + 4);
      // Both servers trim in steps: Redis by nodes of 100, PostgreSQL every 256th time.
      expect(await trial.events()).toBeLessThan(500);
    });

    it('keeps finished jobs for the time that was asked for', async () => {
      const tidy = await trial.open({ keepJobsDays: 1 / 86_400 });
      tidy.work('mirror', noting().handler, { concurrency: 1 });
      await tidy.add('mirror', sync('acme'), 'first');
      await until(async () => (await mirror()).completed === 1);
      await sleep(1_500);
      await tidy.add('mirror', sync('acme'), 'second');
      await until(async () => (await (await trial.bull()).getJobState('first')) === 'unknown');
      expect(await mirror()).toMatchObject({ completed: 1 });
    });

    it('lets jobs end when it stops, and takes no new one', async () => {
      let let_go = (): void => undefined;
      const gate = new Promise<void>((resolve) => (let_go = resolve));
      const { handler, seen } = noting(() => gate.then(() => DONE));
      const worker = queues.work('mirror', handler, { concurrency: 1 });
      await queues.add('mirror', sync('acme'));
      await queues.add('mirror', sync('bert'));
      await until(() => seen.length === 1);
      const stopped = worker.stop(30_000);
      let_go();
      expect(await stopped).toEqual({ handedBack: 0 });
      expect(await mirror()).toMatchObject({ waiting: 1, active: 0, completed: 1 });
    });

    it.each(['says so', 'throws'])(
      'hands a job back that does not end in time and then %s, without using up an attempt',
      async (how) => {
        const slow = noting(async ({ signal }) => {
          await aborted(signal);
          if (how === 'throws') signal.throwIfAborted();
          return { kind: 'hand-back' };
        });
        const worker = queues.work('mirror', slow.handler, { concurrency: 1 });
        await queues.add('mirror', sync('acme'));
        await until(() => slow.seen.length === 1);
        expect(await worker.stop(50)).toEqual({ handedBack: 1 });
        expect(await mirror()).toMatchObject({ waiting: 1, active: 0 });
        const next = noting();
        queues.work('mirror', next.handler, { concurrency: 1 });
        await until(async () => (await mirror()).completed === 1);
        expect(next.seen[0]?.context.attempt).toBe(1);
      },
    );

    it('stops also when a handler never returns, and another worker takes its job over', async () => {
      const stuck = noting(() => new Promise(() => undefined));
      const worker = queues.work('mirror', stuck.handler, { concurrency: 1 });
      await queues.add('mirror', sync('acme'));
      await until(() => stuck.seen.length === 1);
      expect(await worker.stop(50)).toEqual({ handedBack: 0 });
      const next = noting();
      (await trial.open()).work('mirror', next.handler, { concurrency: 1 });
      await until(async () => (await mirror()).completed === 1);
      expect(next.seen[0]?.context.attempt).toBe(1);
    });

    it('renews the locks of long jobs, so that nobody takes them over', async () => {
      // Looked at as the work ends: a renewal under way while the end is written down comes too late.
      const interrupted: boolean[] = [];
      const long = noting(async ({ signal }) => {
        await sleep(2_500);
        interrupted.push(signal.aborted);
        return DONE;
      });
      queues.work('mirror', long.handler, { concurrency: 1 });
      (await trial.open()).work('mirror', long.handler, { concurrency: 1 });
      await queues.add('mirror', sync('acme'));
      await until(async () => (await mirror()).completed === 1);
      expect(interrupted).toEqual([false]);
    });

    it('interrupts a job that another worker has taken, and writes nothing about it', async () => {
      const events: JobEvent[] = [];
      const { handler, seen } = noting(({ signal }) => aborted(signal).then(() => DONE));
      queues.work('mirror', handler, { concurrency: 1, onJob: (event) => events.push(event) });
      const { jobId } = await queues.add('mirror', sync('acme'));
      await until(() => seen.length === 1);
      await trial.steal(jobId);
      await until(() => seen[0]?.context.signal.aborted === true);
      expect(String(seen[0]?.context.signal.reason)).toContain('another worker');
      await until(() => trial.lines.some(({ message }) => message.includes('written down')));
      expect(await mirror()).toMatchObject({ active: 1, completed: 0 });
      expect(events).toEqual([]);
    });

    it('refuses what can not be the id of a job, and a task that its own workers would not understand', async () => {
      await expect(queues.add('mirror', sync('acme'), 'sync:acme')).rejects.toThrow(
        'no id for a job',
      );
      const adding = queues.add('mirror', sync('x'.repeat(5_000)), 'sync.x');
      await expect(adding).rejects.toThrow('no task for mirror');
    });

    it('closes once, whoever asks, and says so afterwards', async () => {
      await Promise.all([queues.close(), queues.close()]);
      await expect(queues.counts()).rejects.toMatchObject({ code: 'QUEUE' });
    });
  });
}
