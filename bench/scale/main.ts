/** Shows how workers share the work and the request budget, and what the queue takes in Redis. */
import { once } from 'node:events';
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import type * as LogModule from '../../src/domain/log.js';
import type * as RedisTargetModule from '../../src/domain/redis-target.js';
import type * as QueuesModule from '../../src/queue/queues.js';
import type * as SimulatorModule from '../../src/simulator/index.js';
import { product } from '../product.js';
import { startPostgres, startRedis, type Victim } from '../soak/servers.js';
import { memoryOfWeek } from './memory.js';

const { silentLog } = (await product('domain/log.js')) as typeof LogModule;
const { parseRedisUrl } = (await product('domain/redis-target.js')) as typeof RedisTargetModule;
const { openQueues } = (await product('queue/queues.js')) as typeof QueuesModule;
const { seededCatalogue, startSimulator } = (await product(
  'simulator/index.js',
)) as typeof SimulatorModule;

const MAIN = fileURLToPath(new URL('../../cli/main.js', import.meta.url));
const SELLERS = 60;
const ITEMS = 500;
/** A list takes this long to begin, as a marketplace's does. */
const ANSWER_MS = 300;
const CONCURRENCY = 4;
const BUDGET_PER_MINUTE = 600;

const say = (text: string): void => {
  process.stderr.write(`  ${text}\n`);
};
const names = Array.from({ length: SELLERS }, (_, index) => `seller-${index + 1}`);
const keyOf = (name: string): string => `k3y-of-${name}-0123456789abcdef`;
const variableOf = (name: string): string => `KEY_${name.replaceAll('-', '_').toUpperCase()}`;

interface Round {
  readonly workers: number;
  readonly seconds: number;
  readonly requests: number;
  /** How many jobs each worker did. */
  readonly shares: readonly number[];
}

/** All sellers mirrored once, by so many workers, from the moment all are in the queue. */
async function round(
  postgres: Victim,
  redis: Victim,
  workers: number,
  perMinute: number,
): Promise<Round> {
  await emptied(postgres.url);
  let begun = 0;
  const market = await startSimulator({
    sellers: names.map((username, index) => ({
      key: keyOf(username),
      username,
      catalogue: seededCatalogue({ seed: index + 1, count: ITEMS }),
    })),
    onAnswered: () => {
      begun++;
    },
  });
  market.faults.always('list', { kind: 'stall', ms: ANSWER_MS });
  const prefix = `scale-${Date.now()}`;
  const env = environment(postgres, redis, market.url, prefix, perMinute);
  const folder = env['HOME'] ?? '';
  const fleet = Array.from({ length: workers }, () => startWorker(env));
  const target = parseRedisUrl(redis.url);
  if ('fault' in target) throw new Error(target.fault);
  const queues = await openQueues({
    ...{ target, databaseUrl: postgres.url, prefix, keepJobsDays: 7 },
    ...{ applicationName: 'scale', log: silentLog },
  });
  try {
    await Promise.all(fleet.map(({ ready }) => ready));
    const askedAt = new Date().toISOString();
    const started = performance.now();
    await Promise.all(
      names.map((seller) => queues.addMirror({ kind: 'sync', seller, tick: null, askedAt })),
    );
    while ((await queues.counts()).mirror.completed < SELLERS) await sleep(50);
    const seconds = (performance.now() - started) / 1000;
    const shares = fleet.map((worker) => worker.done());
    return { workers, seconds, requests: begun, shares };
  } finally {
    for (const { child } of fleet) child.kill('SIGTERM');
    await Promise.all(fleet.map(({ child }) => once(child, 'exit')));
    await queues.close();
    await market.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function environment(
  postgres: Victim,
  redis: Victim,
  url: string,
  prefix: string,
  perMinute: number,
): NodeJS.ProcessEnv {
  const folder = mkdtempSync(join(tmpdir(), 'seller-mirror-scale-'));
  const file = join(folder, 'sellers.json');
  const sellers = names.map((name) => ({ name, url, keyEnv: variableOf(name) }));
  writeFileSync(file, JSON.stringify({ sellers }));
  return {
    PATH: process.env['PATH'],
    HOME: folder,
    ...{ DATABASE_URL: postgres.url, REDIS_URL: redis.url, QUEUE_PREFIX: prefix },
    ...{ SELLERS_FILE: file, REQUESTS_PER_MINUTE: String(perMinute) },
    ...{ WORKER_CONCURRENCY: String(CONCURRENCY), HEALTH_LISTEN: 'off', LOG_FORMAT: 'json' },
    ...Object.fromEntries(names.map((name) => [variableOf(name), keyOf(name)])),
  };
}

interface StartedWorker {
  readonly child: ChildProcess;
  readonly ready: Promise<void>;
  /** Catalogues mirrored so far. */
  readonly done: () => number;
}

function startWorker(env: NodeJS.ProcessEnv): StartedWorker {
  const child = spawn(process.execPath, [MAIN, 'worker'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const ready = (async () => {
    while (!text.includes('service started')) await sleep(20);
  })();
  const done = (): number =>
    text.split('\n').filter((line) => /"items".*"run succeeded"/.test(line)).length;
  return { child, ready, done };
}

async function emptied(url: string): Promise<void> {
  const client = new Client(url);
  await client.connect();
  await client.query(
    `DO $$ BEGIN IF to_regnamespace('mirror') IS NOT NULL AND to_regclass('mirror.sellers') IS NOT NULL
       THEN TRUNCATE mirror.sellers, mirror.request_budgets CASCADE; END IF; END $$`,
  );
  await client.end();
}

const postgres = await startPostgres();
const redis = await startRedis();
try {
  process.stderr.write(
    `${SELLERS} sellers of ${ITEMS} items, answers after ${ANSWER_MS} ms, ${CONCURRENCY} jobs at a time\n`,
  );
  const alone: Round[] = [];
  for (const workers of [1, 2, 4]) {
    const one = await round(postgres, redis, workers, 0);
    alone.push(one);
    const gain = (alone[0]?.seconds ?? one.seconds) / one.seconds;
    say(
      `${workers} workers, no limit: ${one.seconds.toFixed(1)} s, ${(SELLERS / one.seconds).toFixed(1)} sellers/s, ${gain.toFixed(2)} x one worker; shares ${one.shares.join(' ')}`,
    );
  }
  for (const workers of [1, 2, 4]) {
    const one = await round(postgres, redis, workers, BUDGET_PER_MINUTE);
    const least = ((one.requests - 1) * 60) / BUDGET_PER_MINUTE;
    say(
      `${workers} workers, ${BUDGET_PER_MINUTE} requests a minute: ${one.seconds.toFixed(1)} s for ${one.requests} requests (${(one.seconds / least).toFixed(2)} x the least possible), ${(one.requests / one.seconds).toFixed(1)} a second; shares ${one.shares.join(' ')}`,
    );
  }
  const week = await memoryOfWeek(redis);
  say(
    `1,000 sellers, a week of finished jobs (${week.jobs}): ${(week.bytes / 1e6).toFixed(1)} MB in Redis, ${week.jobBytes} bytes a job; with the most that is ever kept (${week.mostJobs} done, ${week.mostFailed} failed): ${(week.mostBytes / 1e6).toFixed(1)} MB`,
  );
} finally {
  await redis.close();
  await postgres.close();
}
