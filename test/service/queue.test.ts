import { expect, it } from 'vitest';
import { marketOf } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { describeQueues, runsOf, startJobs, untilRuns, useServices } from './support.js';

const mirror = useMirror();
useServices();

type Queues = Awaited<ReturnType<typeof startJobs>>['queues'];

const sync = (seller = 'main', second = 0) =>
  ({
    kind: 'account',
    seller,
    dueAt: new Date(Date.UTC(2026, 10, 21, 2, 0, second)).toISOString(),
    byHand: true,
  }) as const;

/** Waits until queue `mirror` has exactly these numbers of jobs. */
async function untilCounts(queues: Queues, counts: Readonly<Record<string, number>>) {
  await until(async () => {
    const now: Readonly<Record<string, number>> = (await queues.counts()).mirror;
    return Object.entries(counts).every(([state, n]) => now[state] === n);
  });
}

describeQueues('a job', (settings) => {
  /** Starts a worker without schedules, whose shop answers. */
  async function startWorker(more: Readonly<Record<string, string>> = {}) {
    const { sim } = await marketOf(mirror(), 5);
    const env = { SYNC_CRON: 'off', SHUTDOWN_TIMEOUT: '0', ...(await settings()), ...more };
    const start = () => startJobs(mirror(), sim.url, env, { scheduler: false });
    return { sim, start, ...(await start()) };
  }

  it('is the only unfinished one about a thing, whoever adds it, and kept to be shown once it is done', async () => {
    // With two at a time, the second would wait half a minute for the first one's lock.
    const { queues, start, service } = await startWorker({ WORKER_CONCURRENCY: '1' });
    await service.stop();
    const other = await start();
    await other.service.stop();
    const adding = [queues, other.queues, queues].map((each) => each.add('mirror', sync()));
    await Promise.all([...adding, queues.add('mirror', sync('main', 30))]);
    expect((await queues.counts()).mirror).toMatchObject({ waiting: 2 });
    const next = await start();
    await untilCounts(next.queues, { completed: 2 });
    await next.queues.add('mirror', sync());
    await untilCounts(next.queues, { completed: 3, waiting: 0 });
    // The store says that it is done.
    expect((await runsOf(mirror())).map(({ state }) => state)).toEqual(['succeeded', 'succeeded']);
  });

  it('that failed for a while is tried again after its backoff, and keeps one line of why', async () => {
    const { queues, lines } = await startWorker();
    await mirror().rows(`INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('else', 'x')`);
    await queues.add('mirror', sync('else'));
    await untilCounts(queues, { delayed: 1 });
    const [line] = lines.filter(({ message }) => message.includes('will be retried'));
    expect(line?.fields).toMatchObject({ seller: 'else', attempt: 1, attempts: 12 });
    expect(line?.fields['problem']).toBe('this seller is not configured for this worker');
    // A second hint starts it at once if it says so.
    await queues.add('mirror', sync('else'), { promote: true });
    await until(() => lines.some(({ fields }) => fields['attempt'] === 2));
  });

  it('that must wait uses up no attempt; that failed for good is listed, and runs again on request', async () => {
    const { queues, sim, lines } = await startWorker();
    sim.faults.next('account', { kind: 'rate-limited', retryAfter: 1_200 });
    await queues.add('mirror', sync());
    await untilCounts(queues, { delayed: 1 });
    // What must wait is not started by others that ask for the same.
    await queues.add('mirror', sync());
    expect((await queues.counts()).mirror).toMatchObject({ delayed: 1, waiting: 0 });
    expect(lines.map(({ message }) => message)).toContain('job delayed');
    sim.faults.always('account', { kind: 'key-refused' });
    await mirror().rows('UPDATE mirror.runs SET retry_at = now()');
    await mirror().rows('TRUNCATE mirror.request_budgets');
    await queues.add('mirror', sync(), { promote: true });
    await untilCounts(queues, { failed: 1 });
    const [failed] = await queues.failedJobs('mirror', 10);
    expect(failed).toMatchObject({ kind: 'account', seller: 'main', attempts: 1 });
    expect(failed?.problem).toMatch(/^run \d+ failed: refused; see /);
    expect(await queues.retry('mirror', failed?.jobId ?? '')).toEqual(sync());
    expect(await queues.retry('mirror', 'gone')).toBeNull();
    await untilCounts(queues, { completed: 1 });
  });

  it('whose worker stops is handed back, and the next worker does it', async () => {
    const { queues, sim, service, start, lines } = await startWorker();
    sim.faults.next('account', { kind: 'stall', ms: 60_000 });
    await queues.add('mirror', sync());
    await until(() => sim.log.length > 0);
    await service.stop();
    expect(lines.map(({ message }) => message)).toContain('job handed back to the queue');
    expect((await queues.counts()).mirror).toMatchObject({ waiting: 1, active: 0 });
    // It uses up no attempt. In Redis there is no such table row.
    const spent = await mirror().rows('SELECT FROM bullmq.job WHERE attempts_made > 0');
    expect(spent).toEqual([]);
    await start();
    await untilRuns(mirror(), 'account interrupted', 'account succeeded');
  });

  it('is finished by a worker that stops, if it ends in time, and no new one is begun', async () => {
    const { queues, sim, service } = await startWorker({
      SHUTDOWN_TIMEOUT: '60',
      WORKER_CONCURRENCY: '1',
    });
    sim.faults.always('account', { kind: 'stall', ms: 1_000 });
    for (const second of [0, 1]) await queues.add('mirror', sync('main', second));
    await until(() => sim.log.length > 0);
    await service.stop();
    expect((await queues.counts()).mirror).toMatchObject({ waiting: 1, active: 0, completed: 1 });
  });

  it('that takes longer than its lock is not taken over by another worker', async () => {
    const { queues, sim, start } = await startWorker();
    await start();
    sim.faults.next('account', { kind: 'stall', ms: 3_000 });
    await queues.add('mirror', sync());
    await untilCounts(queues, { completed: 1 });
    expect((await runsOf(mirror())).map(({ state }) => state)).toEqual(['succeeded']);
  });
});

it('a job does not wait for a month because it was delayed while a clock was a month ahead', async () => {
  const { sim } = await marketOf(mirror(), 5);
  const { queues } = await startJobs(mirror(), sim.url, { SYNC_CRON: 'off' });
  sim.faults.next('account', { kind: 'rate-limited', retryAfter: 1_200 });
  await queues.add('mirror', sync());
  await untilCounts(queues, { delayed: 1 });
  await mirror().rows(
    `UPDATE bullmq.job SET processed_at_ms = processed_at_ms + 30 * 86400000::bigint`,
  );
  await mirror().rows('UPDATE mirror.runs SET retry_at = now()');
  await mirror().rows('TRUNCATE mirror.request_budgets');
  await queues.add('mirror', sync());
  await untilCounts(queues, { completed: 1 });
});

it('a job of another version fails for good, since nobody knows what it means', async () => {
  const { sim } = await marketOf(mirror(), 5);
  const env = { SYNC_CRON: 'off', SHUTDOWN_TIMEOUT: '0' };
  const { queues, service } = await startJobs(mirror(), sim.url, env, { scheduler: false });
  await service.stop();
  await queues.add('mirror', sync());
  await mirror().rows(`UPDATE bullmq.job SET data = data || '{"v": 1}'`);
  const next = await startJobs(mirror(), sim.url, env, { scheduler: false });
  await untilCounts(next.queues, { failed: 1 });
  const [failed] = await next.queues.failedJobs('mirror', 1);
  expect(failed).toMatchObject({
    seller: null,
    problem: expect.stringContaining('payload is invalid') as string,
  });
});
