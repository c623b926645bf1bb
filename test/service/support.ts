import { afterAll, afterEach, beforeAll, describe } from 'vitest';
import { openApp } from '../../src/app.js';
import { readConfig } from '../../src/config/index.js';
import { disk } from '../../src/config/load.js';
import { openQueues, type Queues } from '../../src/service/queue/queues.js';
import { type Roles, startHeartbeat, startService } from '../../src/service/service.js';
import { schedulesOf } from '../../src/service/due.js';
import { KEY, type Mirror } from '../support/mirror.js';
import { hasRedis, redisTitle, startRedis, type RedisProcess } from '../support/redis.js';
import { recordingLog } from '../support/recording-log.js';
import { until } from '../support/until.js';

/** Times of the queue (ms) for fast tests. No test asserts them. */
export const SHORT = {
  lockMs: 1_500,
  stalledMs: 400,
  blockMs: 500,
  connectMs: 1_500,
  commandMs: 5_000,
  answerMs: 10_000,
  retryMs: 300,
  lookMs: 3_000,
  graceMs: 1_000,
};

/** Describes what holds wherever the queue is. @param describeOne gets settings of a new and empty queue */
export function describeQueues(
  title: string,
  describeOne: (settings: () => Promise<Readonly<Record<string, string>>>) => void,
): void {
  describe(`${title} in PostgreSQL`, () => describeOne(() => Promise.resolve({})));
  describe.skipIf(!hasRedis)(redisTitle(`${title} in Redis`), () => {
    let redis: RedisProcess;
    let tests = 0;
    beforeAll(async () => {
      redis = await startRedis();
    });
    afterAll(() => redis.dispose());
    describeOne(() => {
      const QUEUE_PREFIX = `test${(tests += 1)}`;
      return Promise.resolve({ REDIS_URL: `redis://127.0.0.1:${redis.port}`, QUEUE_PREFIX });
    });
  });
}

/** A time of day that is minutes away, whenever a test runs: its last one was nearly a day ago. */
export function dailyCron(minutesAhead = 30): string {
  const at = new Date(Date.now() + minutesAhead * 60_000);
  return `${at.getUTCMinutes()} ${at.getUTCHours()} * * *`;
}

/** The schedule of these tests: one for a file, since a minute may pass between two starts. */
const DAILY = dailyCron();

const running = new Set<() => Promise<void>>();

/** Stops the services that a test started before its tables are emptied: a run under way would be recorded in the next test. */
export function useServices(): void {
  afterEach(async () => {
    for (const stop of running) await stop();
  });
}

/** Starts a service, as `run` does without pages. @param env more settings */
export async function startJobs(
  mirror: Pick<Mirror, 'databaseUrl'>,
  marketplace: string,
  env: Readonly<Record<string, string>> = {},
  roles: Partial<Roles> = {},
  times: Readonly<Record<string, number>> = SHORT,
) {
  const config = readConfig(
    {
      DATABASE_URL: mirror.databaseUrl,
      MARKETPLACE_URL: marketplace,
      MARKETPLACE_API_KEY: KEY,
      REQUESTS_PER_MINUTE: '0',
      TZ: 'UTC',
      SYNC_CRON: DAILY,
      ...env,
    },
    { cwd: '/', files: disk, needs: 'sellers' },
  );
  const { log, lines } = recordingLog();
  const ended = new AbortController();
  const app = await openApp(config, 'test', ended.signal);
  const queues: Queues = await openQueues({
    target: config.redis,
    databaseUrl: app.database.url,
    prefix: config.queuePrefix,
    keepJobsDays: config.keepJobsDays,
    applicationName: 'test',
    log,
    times,
  });
  const all = { scheduler: true, worker: true, dashboard: false, api: false, ...roles };
  const startedAt = new Date(app.db.clock.now());
  const names = Object.entries(all).flatMap(([role, is]) => (is ? [role] : []));
  const schedules = () => (all.scheduler ? schedulesOf(config) : []);
  const stopHeartbeat = startHeartbeat(app.db, names, log, { startedAt, schedules });
  const events = { onJob: () => undefined, onVerdict: () => undefined };
  const service = startService(app, queues, all, log, events);
  let stopping: Promise<void> | null = null;
  const stop = (): Promise<void> =>
    (stopping ??= (async () => {
      running.delete(stop);
      await service.stop();
      await stopHeartbeat();
      await queues.close();
      await app.close();
    })());
  running.add(stop);
  return { app, queues, service, lines, stop };
}

/** A run, as tests compare it. */
export interface RunRow extends Record<string, unknown> {
  readonly kind: string;
  readonly state: string;
}

export function runsOf(mirror: Mirror): Promise<RunRow[]> {
  return mirror.rows<RunRow>(
    `SELECT kind, state, due_at, retry_at, asked_by, started_at, problem_code
       FROM mirror.runs ORDER BY run_id`,
  );
}

/** Waits until the runs are exactly these, such as `account succeeded`. */
export async function untilRuns(mirror: Mirror, ...expected: readonly string[]): Promise<RunRow[]> {
  let runs: RunRow[] = [];
  await until(async () => {
    runs = await runsOf(mirror);
    const shown = runs.map(({ kind, state }) => `${kind} ${state}`);
    return shown.join() === expected.join();
  });
  return runs;
}
