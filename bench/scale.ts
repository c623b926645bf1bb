/** Measures large stores and several workers. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { silentLog } from '#product/domain/log.js';
import { parseRedisUrl } from '#product/domain/redis-target.js';
import { openQueues, type Queues } from '#product/service/queue/queues.js';
import { startSimulator } from '#product/simulator/index.js';
import { largeAuditLines } from './audits.js';
import { measureProgram, startProgram } from './children.js';
import { dashboardLines } from './dashboard.js';
import { largeCatalogueLines } from './mirror.js';
import { sellerSpecs, sellersEnvironment } from './marketplace.js';
import { freePort } from '../test/support/redis.js';
import {
  emptyStore,
  type Postgres,
  processorMs,
  type Redis,
  startPostgres,
  startRedis,
  withClient,
} from './servers.js';
import { bounded, type Line, megabytes, milliseconds, plainTable, progress } from './table.js';

const USAGE = `npm run bench:scale -- [options]
  --only PART  items (2,000,000 of one seller), codes (10,000,000 in one audit), sellers (1,000),
               schedules (500 sellers with three each: start of \`run\`, and its processor time when idle) or
               workers (how they share work and request budget, and their queue's memory in Redis)
  --scale N    share of the items and codes (default 1), such as 0.1 for a short run`;

const PARTS = ['items', 'codes', 'sellers', 'schedules', 'workers'];
/** Compared with a catalogue of a tenth. */
const LARGE_ITEMS = 2_000_000;
const LARGE_AUDIT = 10_000_000;

const SELLERS = 60;
const ITEMS = 500;
/** Delay of each list, as on a real marketplace (ms). */
const ANSWER_MS = 300;
const CONCURRENCY = 4;
const BUDGET_PER_MINUTE = 600;

const WEEK_SELLERS = 1_000;
const DAYS = 7;

const SCHEDULED_SELLERS = 500;
/** Time to settle after the start, and time in which it is idle (ms). */
const SETTLE_MS = 20_000;
const IDLE_MS = 60_000;

async function openTestQueues({ postgres, redis }: Servers, prefix: string): Promise<Queues> {
  return await openQueues({
    target: parseRedisUrl(redis.url),
    databaseUrl: postgres.url,
    prefix,
    keepJobsDays: DAYS,
    applicationName: 'scale',
    log: silentLog,
  });
}

interface Servers {
  readonly postgres: Postgres;
  readonly redis: Redis;
}

/** Measures how long this many workers take to mirror all sellers, once all jobs are queued. */
async function round(servers: Servers, workers: number, perMinute: number) {
  const { postgres, redis } = servers;
  await emptyStore(postgres.url);
  const sellers = sellerSpecs(SELLERS, ITEMS);
  const market = await startSimulator({ sellers });
  market.faults.always('list', { kind: 'stall', ms: ANSWER_MS });
  const prefix = `scale-${Date.now()}`;
  const folder = mkdtempSync(join(tmpdir(), 'seller-mirror-scale-'));
  const env = {
    ...sellersEnvironment(folder, market.url, sellers),
    DATABASE_URL: postgres.url,
    REDIS_URL: redis.url,
    QUEUE_PREFIX: prefix,
    REQUESTS_PER_MINUTE: String(perMinute),
    WORKER_CONCURRENCY: String(CONCURRENCY),
  };
  /** Jobs done by each worker. */
  const shares = Array.from({ length: workers }, () => 0);
  let ready = 0;
  const fleet = shares.map((_, worker) =>
    startProgram(['worker'], env, (line) => {
      if (line.includes('service started')) ready++;
      if (/"items".*"run succeeded"/.test(line)) shares[worker] = (shares[worker] ?? 0) + 1;
    }),
  );
  const queues = await openTestQueues(servers, prefix);
  try {
    while (ready < workers) await sleep(20);
    const dueAt = new Date().toISOString();
    const started = performance.now();
    await Promise.all(
      sellers.map(({ username: seller }) =>
        queues.add('mirror', { kind: 'sync', seller, dueAt, byHand: true }),
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

/** Measures Redis after a week of finished jobs, with two schedules for each seller. @returns a sentence */
async function memoryOfWeek(servers: Servers): Promise<string> {
  const { redis } = servers;
  const queues = await openTestQueues(servers, 'memory');
  try {
    const before = await redis.usedMemory();
    const result = {
      account: { run: '1', state: 'succeeded' },
      items: { run: '2', state: 'succeeded' },
    };
    const work = () => Promise.resolve({ kind: 'done' as const, result });
    const worker = queues.work('mirror', work, { concurrency: 32 });
    const jobs = 2 * WEEK_SELLERS * DAYS;
    await addTicks(queues, jobs);
    while ((await queues.counts()).mirror.completed < jobs) await sleep(100);
    const bytes = (await redis.usedMemory()) - before;
    await worker.stop(5_000);
    return `1,000 sellers, a week of finished jobs (${jobs}): ${megabytes(bytes)} in Redis, ${Math.round(bytes / jobs)} bytes a job`;
  } finally {
    await queues.close();
  }
}

/** Enqueues scheduled jobs as the scheduler does. */
async function addTicks(queues: Queues, count: number): Promise<void> {
  for (let first = 0; first < count; first += 100) {
    const length = Math.min(100, count - first);
    const jobs = Array.from({ length }, async (_, offset) => {
      const index = first + offset;
      const seller = `seller-${index % WEEK_SELLERS}`;
      const kind = Math.floor(index / WEEK_SELLERS) % 2 === 0 ? 'sync' : 'account';
      const day = Math.floor(index / WEEK_SELLERS / 2);
      const dueAt = new Date(Date.UTC(2026, 0, 1 + day, 2)).toISOString();
      await queues.add('mirror', { kind, seller, dueAt, byHand: false });
    });
    await Promise.all(jobs);
  }
}

/** Measures 1, 2 and 4 workers, without and with a request limit, and then the queue's memory in Redis. */
async function measureWorkers(): Promise<void> {
  const servers = { postgres: await startPostgres(), redis: await startRedis() };
  try {
    progress(
      `${SELLERS} sellers of ${ITEMS} items, replies after ${ANSWER_MS} ms, ${CONCURRENCY} jobs at a time`,
    );
    let alone = 0;
    for (const workers of [1, 2, 4]) {
      const { seconds, shares } = await round(servers, workers, 0);
      if (workers === 1) alone = seconds;
      progress(
        `${workers} workers, no limit: ${seconds.toFixed(1)} s, ${(SELLERS / seconds).toFixed(1)} sellers/s, ${(alone / seconds).toFixed(2)} x one worker; shares ${shares.join(' ')}`,
      );
    }
    for (const workers of [1, 2, 4]) {
      const { seconds, requests, shares } = await round(servers, workers, BUDGET_PER_MINUTE);
      const least = ((requests - 1) * 60) / BUDGET_PER_MINUTE;
      progress(
        `${workers} workers, ${BUDGET_PER_MINUTE} requests a minute: ${seconds.toFixed(1)} s for ${requests} requests (${(seconds / least).toFixed(2)} x the least possible), ${(requests / seconds).toFixed(1)} a second; shares ${shares.join(' ')}`,
      );
    }
    progress(await memoryOfWeek(servers));
  } finally {
    await servers.redis.close();
    await servers.postgres.close();
  }
}

/**
 * Measures how long `run` takes to its readiness with three schedules for each seller, and its processor time while
 * nothing is due.
 */
async function scheduleLines(): Promise<Line[]> {
  const postgres = await startPostgres();
  const sellers = sellerSpecs(SCHEDULED_SELLERS, 1);
  const market = await startSimulator({ sellers });
  const folder = mkdtempSync(join(tmpdir(), 'seller-mirror-scale-'));
  const port = await freePort();
  // Of yesterday evening, whenever this runs: answered by the rows below.
  const lastTick = new Date(Date.now() - 6 * 3_600_000);
  const cron = `0 ${lastTick.getUTCHours()} * * *`;
  const env = {
    ...sellersEnvironment(folder, market.url, sellers),
    DATABASE_URL: postgres.url,
    HEALTH_LISTEN: `127.0.0.1:${port}`,
    DASHBOARD_LISTEN: 'off',
    TZ: 'UTC',
    SYNC_CRON: cron,
    ACCOUNT_CRON: cron.replace(/^0/, '1'),
    AUDIT_CRON: cron.replace(/\*$/, '6'),
  };
  try {
    await measureProgram(['migrate'], { DATABASE_URL: postgres.url });
    const statements = [
      `INSERT INTO mirror.sellers (seller_id, marketplace, created_at)
       SELECT 'seller-' || n, '127.0.0.1', now() - interval '60 days'
         FROM generate_series(1, ${SCHEDULED_SELLERS}) AS n`,
      `INSERT INTO mirror.runs (seller_id, kind, state, holder, started_at, finished_at, due_at)
       SELECT seller_id, kind::mirror.run_kind, 'succeeded', '', at, at, at
         FROM mirror.sellers, unnest(ARRAY['account', 'items']) AS kind,
              (SELECT now() - interval '1 hour' AS at) AS answered`,
      `UPDATE mirror.sellers SET recheck_due_at = now()`,
    ];
    await withClient(postgres.url, (client) => client.query(statements.join(';')));
    const started = performance.now();
    const child = startProgram(['run'], env, () => undefined);
    const isReady = (): Promise<boolean> =>
      fetch(`http://127.0.0.1:${port}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      );
    while (!(await isReady())) await sleep(20);
    const readyMs = performance.now() - started;
    await sleep(SETTLE_MS);
    const pid = child.pid ?? 0;
    const before = { run: processorMs(pid), postgres: await postgres.cpuMs() };
    await sleep(IDLE_MS);
    const share = (ms: number): number => (100 * ms) / IDLE_MS;
    const run = share(processorMs(pid) - before.run);
    const server = share((await postgres.cpuMs()) - before.postgres);
    child.kill('SIGTERM');
    await once(child, 'exit');
    if (market.requestCount > 0) throw new Error('the service was not idle');
    const what = `${SCHEDULED_SELLERS} sellers with 3 schedules`;
    const percent = (value: number): string => `${value.toFixed(2)} %`;
    return [
      bounded(`${what}: run is ready`, readyMs, 6_000, milliseconds),
      {
        ...bounded(`${what}: idle, of one core`, run, 1, percent),
        ratio: `and ${percent(server)} in PostgreSQL`,
      },
    ];
  } finally {
    await market.close();
    await postgres.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    scale: { type: 'string', default: '1' },
    help: { type: 'boolean', short: 'h', default: false },
  },
});
const { only, help } = values;
const scale = Number(values.scale);
if (help || !(scale > 0) || (only !== undefined && !PARTS.includes(only))) {
  console.log(USAGE);
  process.exit(help ? 0 : 2);
}
const wanted = (part: string): boolean => only === undefined || only === part;
const lines = [
  ...(wanted('items') ? await largeCatalogueLines((LARGE_ITEMS / 10) * scale) : []),
  ...(wanted('codes') ? await largeAuditLines(LARGE_AUDIT * scale) : []),
  ...(wanted('sellers') ? await dashboardLines(100_000 * scale, 5) : []),
  ...(wanted('schedules') ? await scheduleLines() : []),
];
if (lines.length > 0) console.log(plainTable(lines));
if (wanted('workers')) await measureWorkers();
