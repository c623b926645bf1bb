import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createTestDatabase } from '../support/postgres.js';
import {
  hasRedis,
  redisTarget,
  redisTitle,
  startRedis,
  type RedisProcess,
} from '../support/redis.js';
import { until } from './support.js';
import { postgresTrialAt, redisTrial, type Trial, withClient } from './trial.js';

const DIST = fileURLToPath(new URL('../../dist/', import.meta.url));

/** A scheduler in a process of its own, on the real queue and database; says which jobs it added. */
const SCRIPT = `
  const [dist, given] = process.argv.slice(1);
  const { openQueues } = await import(dist + 'queue/queues.js');
  const { startScheduler } = await import(dist + 'queue/scheduler.js');
  const { openStore } = await import(dist + 'store/store.js');
  const { queue, databaseUrl, schedules } = JSON.parse(given);
  const nothing = () => undefined;
  const log = { debug: nothing, info: nothing, warn: console.error, error: console.error };
  log.child = () => log;
  const store = openStore(databaseUrl, 'a scheduler');
  const queues = await openQueues({ ...queue, log });
  const scheduler = startScheduler({
    schedules, store, log, catchUp: false,
    enqueue: async (task, jobId) => {
      const answer = await queues.addMirror(task, jobId);
      console.log((answer.added ? 'added ' : 'had ') + jobId);
      return answer;
    },
  });
  await scheduler.settled();
  console.log('ready');
  process.stdin.on('end', async () => {
    await scheduler.stop();
    await queues.close();
    await store.close();
    console.log('closed');
  }).resume();
`;

const TICK_MS = 2_000;
const schedule = {
  seller: 'acme',
  marketplace: 'market.example',
  kind: 'sync',
  cron: '*/2 * * * * *',
  timeZone: 'Europe/Berlin',
} as const;

interface Child {
  readonly process: ChildProcess;
  readonly said: string[];
  readonly ended: Promise<unknown>;
}

function startProcess({ options }: Trial, databaseUrl: string): Child {
  const { target, prefix, keepJobsDays, applicationName } = options;
  const queue = { target, databaseUrl, prefix, keepJobsDays, applicationName };
  const given = JSON.stringify({ queue, databaseUrl, schedules: [schedule] });
  const args = ['--input-type=module', '-e', SCRIPT, '--', DIST, given];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const said: string[] = [];
  createInterface(child.stdout).on('line', (line) => said.push(line));
  return { process: child, said, ended: once(child, 'exit') };
}

/** The ids of all ticks from the first that was added to the last on record. */
function idsBetween(first: string, last: Date): string[] {
  const [, y, mo, d, h, mi, s] =
    /\.(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(first)?.map(Number) ?? [];
  const ids: string[] = [];
  const begin = Date.UTC(y ?? 0, (mo ?? 0) - 1, d, h, mi, s);
  for (let tick = begin; tick <= last.getTime(); tick += TICK_MS) {
    ids.push(`sync.acme.${new Date(tick).toISOString().replaceAll(/[-:]|\.\d+/g, '')}`);
  }
  return ids;
}

function describeProcesses(title: string, place: (databaseUrl: string) => Trial): void {
  describe(title, () => {
    it('put every tick into the queue exactly once, one of them killed meanwhile', async () => {
      const database = await createTestDatabase();
      onTestFinished(() => database.drop());
      const trial = place(database.url);
      const all = [1, 2, 3].map(() => startProcess(trial, database.url));
      const added = (): string[] =>
        all
          .flatMap(({ said }) => said)
          .filter((line) => line.startsWith('added '))
          .map((line) => line.slice('added '.length))
          .toSorted();
      await until(() => all.every(({ said }) => said.includes('ready')));
      await until(() => added().length >= 3);
      all[0]?.process.kill('SIGKILL');
      await until(() => added().length >= 6);
      for (const { process } of all.slice(1)) process.stdin?.end();
      await Promise.all(all.map(({ ended }) => ended));
      for (const { said } of all.slice(1)) expect(said).toContain('closed');

      const [record] = await withClient(database.url, async (client) => {
        const sql = 'SELECT last_tick, enqueued_at FROM mirror.schedules';
        return (await client.query<{ last_tick: Date }>(sql)).rows;
      });
      const [first] = added();
      if (record === undefined || first === undefined) throw new Error('nothing was enqueued');
      const ids = idsBetween(first, record.last_tick);
      expect(ids.length).toBeGreaterThanOrEqual(6);
      const queues = await trial.open({ databaseUrl: database.url });
      expect((await queues.counts()).mirror.waiting).toBe(ids.length);
      const bull = await trial.bull();
      for (const id of ids) expect(await bull.getJobState(id)).toBe('waiting');
      // What the killed one added last it may not have said.
      expect(ids).toEqual(expect.arrayContaining(added()));
      expect(new Set(added()).size).toBe(added().length);
      expect(ids.length - added().length).toBeLessThanOrEqual(1);
    });
  });
}

describeProcesses('three scheduler processes on PostgreSQL', (url) => postgresTrialAt(url));

describe.skipIf(!hasRedis)(redisTitle('with a Redis server'), () => {
  let redis: RedisProcess;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.dispose());

  describeProcesses('three scheduler processes on Redis', () => redisTrial(redisTarget(redis)));
});
