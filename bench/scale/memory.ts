import { setTimeout as sleep } from 'node:timers/promises';
import type * as LogModule from '../../src/domain/log.js';
import type * as RedisTargetModule from '../../src/domain/redis-target.js';
import type * as QueuesModule from '../../src/queue/queues.js';
import { usedMemory } from '../audits/redis-memory.js';
import { product } from '../product.js';
import type { Victim } from '../soak/servers.js';

const { silentLog } = (await product('domain/log.js')) as typeof LogModule;
const { parseRedisUrl } = (await product('domain/redis-target.js')) as typeof RedisTargetModule;
const { openQueues } = (await product('queue/queues.js')) as typeof QueuesModule;

const SELLERS = 1_000;
const DAYS = 7;
/** As `openQueues` keeps them. */
const MOST_JOBS = 20_000;
const MOST_FAILED = 5_000;

export interface WeekInRedis {
  readonly jobs: number;
  readonly bytes: number;
  readonly jobBytes: number;
  readonly mostJobs: number;
  readonly mostFailed: number;
  readonly mostBytes: number;
}

/** What a week of two schedules a seller takes in Redis once all its jobs are finished. */
export async function memoryOfWeek(redis: Victim): Promise<WeekInRedis> {
  const target = parseRedisUrl(redis.url);
  if ('fault' in target) throw new Error(target.fault);
  const queues = await openQueues({
    ...{ target, databaseUrl: '', prefix: 'memory', keepJobsDays: DAYS },
    ...{ applicationName: 'memory', log: silentLog },
  });
  try {
    const before = await usedMemory(redis);
    let failing = false;
    let number = 0;
    const worker = queues.work(
      'mirror',
      () => {
        number++;
        return Promise.resolve(
          failing
            ? {
                kind: 'give-up',
                problem: `run ${number} failed: unavailable; \`seller-mirror runs ${number}\` tells more`,
              }
            : {
                kind: 'done',
                result: {
                  account: { run: String(2 * number), state: 'succeeded' },
                  items: { run: String(2 * number + 1), state: 'succeeded' },
                },
              },
        );
      },
      { concurrency: 32 },
    );
    const done = async (state: 'completed' | 'failed', count: number): Promise<void> => {
      while ((await queues.counts()).mirror[state] < count) await sleep(100);
    };
    const jobs = 2 * SELLERS * DAYS;
    await fill(queues, jobs, 0);
    await done('completed', jobs);
    const bytes = (await usedMemory(redis)) - before;
    // More than is kept, so that the bounds show.
    await fill(queues, MOST_JOBS + 2_000 - jobs, DAYS);
    await done('completed', MOST_JOBS);
    failing = true;
    await fill(queues, MOST_FAILED + 500, 2 * DAYS);
    await done('failed', MOST_FAILED);
    while ((await queues.counts()).mirror.waiting > 0) await sleep(100);
    const counts = (await queues.counts()).mirror;
    const mostBytes = (await usedMemory(redis)) - before;
    await worker.stop(5_000);
    return {
      ...{ jobs, bytes, jobBytes: Math.round(bytes / jobs), mostBytes },
      ...{ mostJobs: counts.completed, mostFailed: counts.failed },
    };
  } finally {
    await queues.close();
  }
}

/** Enqueues ticks as the scheduler does. */
async function fill(queues: QueuesModule.Queues, count: number, firstDay: number): Promise<void> {
  for (let first = 0; first < count; first += 100) {
    const slice = Array.from({ length: Math.min(100, count - first) }, (_, index) => first + index);
    await Promise.all(
      slice.map((index) => {
        const seller = `seller-${index % SELLERS}`;
        const kind = Math.floor(index / SELLERS) % 2 === 0 ? 'sync' : 'account';
        const day = firstDay + Math.floor(index / SELLERS / 2);
        const tick = new Date(Date.UTC(2026, 0, 1 + day, 2)).toISOString();
        const id = `${kind}.${seller}.${tick.replaceAll(/[-:]|\.\d+/g, '')}`;
        return queues.addMirror({ kind, seller, tick, askedAt: tick }, id);
      }),
    );
  }
}
