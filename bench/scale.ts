/** Shows how workers share the work and the request budget, and what the queue takes in Redis. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { silentLog } from '#product/domain/log.js';
import { parseRedisUrl } from '#product/domain/redis-target.js';
import { openQueues, type Queues } from '#product/queue/queues.js';
import { startSimulator } from '#product/simulator/index.js';
import { sellerSpecs, sellersEnvironment } from './soak/market.js';
import { startProcess } from './soak/processes.js';
import { forget, startPostgres, startRedis } from './soak/servers.js';
import { megabytes } from './table.js';

const SELLERS = 60;
const ITEMS = 500;
/** A list takes this long to begin, as a marketplace's does. */
const ANSWER_MS = 300;
const CONCURRENCY = 4;
const BUDGET_PER_MINUTE = 600;

const WEEK_SELLERS = 1_000;
const DAYS = 7;
/** As `openQueues` keeps them. */
const MOST_JOBS = 20_000;
const MOST_FAILED = 5_000;

const postgres = await startPostgres();
const redis = await startRedis();

async function openTestQueues(prefix: string): Promise<Queues> {
  return await openQueues({
    ...{ target: parseRedisUrl(redis.url), databaseUrl: postgres.url, prefix, keepJobsDays: DAYS },
    ...{ applicationName: 'scale', log: silentLog },
  });
}

/** All sellers mirrored once, by so many workers, from the moment all are in the queue. */
async function round(workers: number, perMinute: number) {
  await forget(postgres.url);
  const sellers = sellerSpecs(SELLERS, ITEMS);
  const market = await startSimulator({ sellers });
  market.faults.always('list', { kind: 'stall', ms: ANSWER_MS });
  const prefix = `scale-${Date.now()}`;
  const folder = mkdtempSync(join(tmpdir(), 'seller-mirror-scale-'));
  const env = {
    ...sellersEnvironment(folder, market.url, sellers),
    ...{ DATABASE_URL: postgres.url, REDIS_URL: redis.url, QUEUE_PREFIX: prefix },
    ...{ REQUESTS_PER_MINUTE: String(perMinute), WORKER_CONCURRENCY: String(CONCURRENCY) },
  };
  /** How many jobs each worker did. */
  const shares = Array.from({ length: workers }, () => 0);
  let ready = 0;
  const fleet = shares.map((_, worker) =>
    startProcess(['worker'], env, (line) => {
      if (line.includes('service started')) ready++;
      if (/"items".*"run succeeded"/.test(line)) shares[worker] = (shares[worker] ?? 0) + 1;
    }),
  );
  const queues = await openTestQueues(prefix);
  try {
    while (ready < workers) await sleep(20);
    const askedAt = new Date().toISOString();
    const started = performance.now();
    await Promise.all(
      sellers.map(({ username: seller }) =>
        queues.addMirror({ kind: 'sync', seller, tick: null, askedAt }),
      ),
    );
    while ((await queues.counts()).mirror.completed < SELLERS) await sleep(50);
    const seconds = (performance.now() - started) / 1000;
    return { seconds, requests: market.requestCount, shares };
  } finally {
    for (const child of fleet) child.kill('SIGTERM');
    await Promise.all(fleet.map((child) => once(child, 'exit')));
    await queues.close();
    await market.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What a week of two schedules a seller takes in Redis once all its jobs are finished, in a sentence. */
async function memoryOfWeek(): Promise<string> {
  const queues = await openTestQueues('memory');
  const before = await redis.usedMemory();
  let failing = false;
  let run = 0;
  const worker = queues.work(
    'mirror',
    () => {
      run += 2;
      const account = { run: String(run), state: 'succeeded' };
      const items = { run: String(run + 1), state: 'succeeded' };
      return Promise.resolve(
        failing
          ? {
              kind: 'give-up',
              problem: `run ${run} failed: unavailable; \`seller-mirror runs ${run}\` tells more`,
            }
          : { kind: 'done', result: { account, items } },
      );
    },
    { concurrency: 32 },
  );
  const until = async (state: 'completed' | 'failed', count: number): Promise<void> => {
    while ((await queues.counts()).mirror[state] < count) await sleep(100);
  };
  try {
    const jobs = 2 * WEEK_SELLERS * DAYS;
    await addTicks(queues, jobs, 0);
    await until('completed', jobs);
    const bytes = (await redis.usedMemory()) - before;
    // More than is kept, so that the bounds show.
    await addTicks(queues, MOST_JOBS + 2_000 - jobs, DAYS);
    await until('completed', MOST_JOBS);
    failing = true;
    await addTicks(queues, MOST_FAILED + 500, 2 * DAYS);
    await until('failed', MOST_FAILED);
    while ((await queues.counts()).mirror.waiting > 0) await sleep(100);
    const { completed, failed } = (await queues.counts()).mirror;
    const most = (await redis.usedMemory()) - before;
    await worker.stop(5_000);
    return `1,000 sellers, a week of finished jobs (${jobs}): ${megabytes(bytes)} in Redis, ${Math.round(bytes / jobs)} bytes a job; with the most that is ever kept (${completed} done, ${failed} failed): ${megabytes(most)}`;
  } finally {
    await queues.close();
  }
}

/** Enqueues ticks as the scheduler does. */
async function addTicks(queues: Queues, count: number, firstDay: number): Promise<void> {
  for (let first = 0; first < count; first += 100) {
    const length = Math.min(100, count - first);
    const jobs = Array.from({ length }, async (_, offset) => {
      const index = first + offset;
      const seller = `seller-${index % WEEK_SELLERS}`;
      const kind = Math.floor(index / WEEK_SELLERS) % 2 === 0 ? 'sync' : 'account';
      const day = firstDay + Math.floor(index / WEEK_SELLERS / 2);
      const tick = new Date(Date.UTC(2026, 0, 1 + day, 2)).toISOString();
      const id = `${kind}.${seller}.${tick.replaceAll(/[-:]|\.\d+/g, '')}`;
      await queues.addMirror({ kind, seller, tick, askedAt: tick }, id);
    });
    await Promise.all(jobs);
  }
}

function say(text: string): void {
  process.stderr.write(`  ${text}\n`);
}

try {
  say(
    `${SELLERS} sellers of ${ITEMS} items, ${ANSWER_MS} ms an answer, ${CONCURRENCY} jobs at a time`,
  );
  let alone = 0;
  for (const workers of [1, 2, 4]) {
    const { seconds, shares } = await round(workers, 0);
    if (workers === 1) alone = seconds;
    say(
      `${workers} workers, no limit: ${seconds.toFixed(1)} s, ${(SELLERS / seconds).toFixed(1)} sellers/s, ${(alone / seconds).toFixed(2)} x one worker; shares ${shares.join(' ')}`,
    );
  }
  for (const workers of [1, 2, 4]) {
    const { seconds, requests, shares } = await round(workers, BUDGET_PER_MINUTE);
    const least = ((requests - 1) * 60) / BUDGET_PER_MINUTE;
    say(
      `${workers} workers, ${BUDGET_PER_MINUTE} requests a minute: ${seconds.toFixed(1)} s for ${requests} requests (${(seconds / least).toFixed(2)} x the least possible), ${(requests / seconds).toFixed(1)} a second; shares ${shares.join(' ')}`,
    );
  }
  say(await memoryOfWeek());
} finally {
  await redis.close();
  await postgres.close();
}
