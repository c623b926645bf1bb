import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createTestDatabase, testServer } from '../../support/postgres.js';
import { redisTarget } from '../../support/redis.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';
import {
  describeOnRedis,
  postgresQueue,
  postgresQueueAt,
  redisQueue,
  SHORT,
  sync,
  type TestQueue,
  untilCounts,
  work,
} from './support.js';

const builtFile = (path: string): string =>
  fileURLToPath(new URL(`../../../dist/${path}`, import.meta.url));
const INDEX = builtFile('service/queue/queues.js');

/** A worker in its own process. Its jobs run until it is stopped. */
const SCRIPT = `
  const { openQueues } = await import(process.argv[1]);
  const options = JSON.parse(process.argv[2]);
  const silent = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };
  const queues = await openQueues({ ...options, log: silent });
  const held = (signal) => new Promise((resolve) => signal.addEventListener('abort', resolve));
  queues.work('mirror', async (task, { jobId, signal }) => {
    console.log(jobId);
    await held(signal);
    return { kind: 'hand-back' };
  }, { concurrency: 2 });
  process.stdin.on('end', () => void queues.close().then(() => console.log('closed'))).resume();
`;

interface Child {
  readonly process: ChildProcess;
  readonly output: string[];
  /** Resolves to the exit code; null if it was killed. */
  readonly ended: Promise<number | null>;
}

function startWorker(testQueue: TestQueue): Child {
  return startScript(SCRIPT, testQueue, INDEX);
}

function startScript(script: string, { options }: TestQueue, ...more: readonly string[]): Child {
  const { target, databaseUrl, prefix, keepJobsDays, applicationName } = options;
  const tuning = { ...SHORT, maxStalled: 1 };
  const queueOptions = { target, databaseUrl, prefix, keepJobsDays, applicationName, tuning };
  const [first = '', ...others] = more;
  const args = [first, JSON.stringify(queueOptions), ...others];
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, '--', ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const output: string[] = [];
  createInterface(child.stdout).on('line', (line) => output.push(line));
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  return { process: child, output, ended };
}

interface Server {
  readonly host: string;
  readonly port: number;
  /** A new queue that is reached through a local port. */
  testQueue(port: number): Promise<TestQueue>;
}

function describeKills(title: string, server: () => Server): void {
  describe(title, () => {
    it('runs the jobs of a killed worker again, without counting an attempt', async () => {
      const testQueue = await server().testQueue(server().port);
      const queues = await testQueue.open();
      for (const id of ['one', 'two']) await queues.add('mirror', sync('acme'), id);
      const killed = startWorker(testQueue);
      await until(() => killed.output.length === 2);
      killed.process.kill('SIGKILL');
      const { seen } = work(queues, undefined, { concurrency: 2 });
      await untilCounts(queues, { completed: 2 });
      const jobs = seen.map(({ context }) => `${context.jobId} ${context.attempt}`);
      expect(jobs.toSorted()).toEqual(['one 1', 'two 1']);
      const taken = testQueue.lines.filter(({ message }) => message.includes('lost its worker'));
      expect(taken).toHaveLength(2);
    });

    it('gives up a job that has killed too many workers', async () => {
      const testQueue = await server().testQueue(server().port);
      const queues = await testQueue.open();
      await queues.add('mirror', sync('acme'), 'poison');
      for (let kills = 0; kills < 2; kills += 1) {
        const killed = startWorker(testQueue);
        await until(() => killed.output.length === 1);
        killed.process.kill('SIGKILL');
        await killed.ended;
      }
      const { seen } = work(await testQueue.open({ tuning: { maxStalled: 1 } }));
      await untilCounts(queues, { failed: 1 });
      expect(seen).toEqual([]);
      const job = await (await testQueue.bull()).getJob('poison');
      expect(job?.failedReason).toContain('stalled more than');
    });

    it('lets a process close and end even if the server stops answering', async () => {
      const proxy = await startProxy(server());
      onTestFinished(() => proxy.close());
      const testQueue = await server().testQueue(proxy.port);
      await (await testQueue.open()).add('mirror', sync('acme'), 'one');
      const child = startWorker(testQueue);
      await until(() => child.output.length === 1);
      await proxy.set('swallow');
      child.process.stdin?.end();
      expect(await child.ended).toBe(0);
      expect(child.output).toEqual(['one', 'closed']);
      // Close before the database is dropped, which would wait a minute for a session stuck in its login.
      await proxy.close();
    });
  });
}

describeKills('on PostgreSQL', () => {
  const { hostname: host, port } = new URL(testServer.userUrl);
  return {
    host,
    port: Number(port),
    testQueue: async (through) => {
      const database = await createTestDatabase();
      onTestFinished(() => database.drop());
      const address = new URL(database.url);
      address.port = String(through);
      return postgresQueueAt(address.href, database.url);
    },
  };
});

describeOnRedis('on Redis', (redis) => {
  describeKills('on one server', () => ({
    host: redis().host,
    port: redis().port,
    testQueue: (port) =>
      Promise.resolve(
        redisQueue(redisTarget({ host: redis().host, port }), redisTarget(redis()).nodes),
      ),
  }));
});

/** A scheduler in its own process. It checks at the times it reads, and kills itself at a given time. */
const SCHEDULER = `
  const [queues, options, scheduler, db, start, death] = process.argv.slice(1);
  const { openQueues } = await import(queues);
  const { Scheduler } = await import(scheduler);
  const { openDb } = await import(db);
  const silent = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };
  const given = JSON.parse(options);
  const jobs = await openQueues({ ...given, log: silent });
  let now = new Date(start);
  const dieWhen = (what, tick) => death === what + ' ' + tick && process.kill(process.pid, 'SIGKILL');
  const one = new Scheduler({
    schedules: [{ kind: 'sync', name: 'acme', cron: '0 2 * * *', timeZone: 'UTC' }],
    db: openDb(given.databaseUrl, 'a scheduler'),
    async enqueue({ name, jobId, dueAt }) {
      const tick = dueAt.toISOString();
      dieWhen('before', tick);
      const added = await jobs.add('mirror', { kind: 'sync', seller: name, tick, askedAt: tick }, jobId);
      dieWhen('after', tick);
      return added;
    },
    log: silent, catchUp: false, keepJobsDays: 7, now: () => now,
  });
  await one.check();
  console.log('ready');
  for await (const time of process.stdin.setEncoding('utf8')) {
    now = new Date(time.trim());
    await one.check();
    console.log(time.trim());
  }
  process.exit();
`;

describe('when one of three schedulers is killed', () => {
  it.each(['before', 'after'])(
    'the others lose and repeat no tick: %s it has added the job to the queue',
    async (when) => {
      const testQueue = await postgresQueue();
      // In the future: a clock that is behind the database’s by days does no harm.
      const nights = ['21', '22', '23'].map((day) => `2027-11-${day}T02:00:00.000Z`);
      const files = ['service/scheduler.js', 'db/db.js'].map(builtFile);
      const all = [`${when} ${nights[1]}`, 'never', 'never'].map((death) =>
        startScript(SCHEDULER, testQueue, INDEX, ...files, '2027-11-20T12:00:00Z', death),
      );
      await until(() => all.every(({ output }) => output.length === 1));
      for (const night of nights) {
        for (const { process, output, ended } of all) {
          if (process.signalCode !== null) continue;
          process.stdin?.write(`${night}\n`);
          await Promise.race([until(() => output.includes(night)), ended]);
        }
      }
      expect(all.map(({ process }) => process.signalCode)).toEqual(['SIGKILL', null, null]);
      const { mirror } = await (await testQueue.open()).counts();
      const bull = await testQueue.bull();
      const states = ['21', '22', '23'].map((day) =>
        bull.getJobState(`sync.acme.202711${day}T020000Z`),
      );
      expect(await Promise.all(states)).toEqual(['waiting', 'waiting', 'waiting']);
      expect(mirror.waiting).toBe(3);
    },
  );
});
