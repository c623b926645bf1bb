import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { createTestDatabase } from '../support/postgres.js';
import { redisTarget } from '../support/redis.js';
import { startProxy } from '../support/tcp-proxy.js';
import { noting, SHORT, sync, until } from './support.js';
import {
  describeOnRedis,
  postgresTrial,
  postgresTrialAt,
  redisTrial,
  type Trial,
} from './support.js';

const builtFile = (path: string): string =>
  fileURLToPath(new URL(`../../dist/${path}`, import.meta.url));
const INDEX = builtFile('queue/queues.js');

/** A worker in a process of its own, which holds what it gets until it is told to end. */
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
  readonly said: string[];
  /** Resolves to the exit code, null when it was killed. */
  readonly ended: Promise<number | null>;
}

function startWorker(trial: Trial): Child {
  return startScript(SCRIPT, trial, INDEX);
}

function startScript(script: string, { options }: Trial, ...more: readonly string[]): Child {
  const { target, databaseUrl, prefix, keepJobsDays, applicationName } = options;
  const tuning = { ...SHORT, maxStalled: 1 };
  const given = { target, databaseUrl, prefix, keepJobsDays, applicationName, tuning };
  const [first = '', ...others] = more;
  const args = [first, JSON.stringify(given), ...others];
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, '--', ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const said: string[] = [];
  createInterface(child.stdout).on('line', (line) => said.push(line));
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  return { process: child, said, ended };
}

interface Place {
  readonly host: string;
  readonly port: number;
  /** A fresh queue that is reached through a port of this machine. */
  trial(port: number): Promise<Trial>;
}

function describeKills(title: string, place: () => Place): void {
  describe(title, () => {
    it('loses no job of a worker that is killed, and counts no attempt', async () => {
      const trial = await place().trial(place().port);
      const queues = await trial.open();
      for (const id of ['one', 'two']) await queues.add('mirror', sync('acme'), id);
      const killed = startWorker(trial);
      await until(() => killed.said.length === 2);
      killed.process.kill('SIGKILL');
      const { handler, seen } = noting();
      queues.work('mirror', handler, { concurrency: 2 });
      await until(async () => (await queues.counts()).mirror.completed === 2);
      const jobs = seen.map(({ context }) => `${context.jobId} ${context.attempt}`);
      expect(jobs.toSorted()).toEqual(['one 1', 'two 1']);
      const taken = trial.lines.filter(({ message }) => message.includes('lost its worker'));
      expect(taken).toHaveLength(2);
    });

    it('gives a job up that has cost more workers than it may', async () => {
      const trial = await place().trial(place().port);
      const queues = await trial.open();
      await queues.add('mirror', sync('acme'), 'poison');
      for (let kills = 0; kills < 2; kills += 1) {
        const killed = startWorker(trial);
        await until(() => killed.said.length === 1);
        killed.process.kill('SIGKILL');
        await killed.ended;
      }
      const { handler, seen } = noting();
      const careful = await trial.open({ tuning: { maxStalled: 1 } });
      careful.work('mirror', handler, { concurrency: 1 });
      await until(async () => (await queues.counts()).mirror.failed === 1);
      expect(seen).toEqual([]);
      const job = await (await trial.bull()).getJob('poison');
      expect(job?.failedReason).toContain('stalled more than');
    });

    it('lets a process end that closes in order, also when the server has fallen silent', async () => {
      const proxy = await startProxy(place());
      onTestFinished(() => proxy.close());
      const trial = await place().trial(proxy.port);
      await (await trial.open()).add('mirror', sync('acme'), 'one');
      const child = startWorker(trial);
      await until(() => child.said.length === 1);
      await proxy.set('swallow');
      child.process.stdin?.end();
      expect(await child.ended).toBe(0);
      expect(child.said).toEqual(['one', 'closed']);
      // Before the database is dropped: that would wait a minute for a session stuck in its login.
      await proxy.close();
    });
  });
}

describeKills('on PostgreSQL', () => {
  const { hostname: host, port } = new URL(inject('testServer').userUrl);
  return {
    host,
    port: Number(port),
    trial: async (through) => {
      const database = await createTestDatabase();
      onTestFinished(() => database.drop());
      const address = new URL(database.url);
      address.port = String(through);
      return postgresTrialAt(address.href, database.url);
    },
  };
});

describeOnRedis('on Redis', (redis) => {
  describeKills('on one server', () => ({
    host: redis().host,
    port: redis().port,
    trial: (port) =>
      Promise.resolve(
        redisTrial(redisTarget({ host: redis().host, port }), redisTarget(redis()).nodes),
      ),
  }));
});

/** A scheduler in a process of its own, which looks at the times that it is given and kills itself as told. */
const SCHEDULER = `
  const [queues, options, scheduler, store, death] = process.argv.slice(1);
  const { openQueues } = await import(queues);
  const { Scheduler } = await import(scheduler);
  const { openStore } = await import(store);
  const silent = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };
  const given = JSON.parse(options);
  const jobs = await openQueues({ ...given, log: silent });
  let now = new Date('2026-11-20T12:00:00Z');
  const dieWhen = (what, tick) => death === what + ' ' + tick && process.kill(process.pid, 'SIGKILL');
  const schedule = { seller: 'acme', marketplace: 'market.example', kind: 'sync' };
  const one = new Scheduler({
    schedules: [{ ...schedule, cron: '0 2 * * *', timeZone: 'UTC' }],
    store: openStore(given.databaseUrl, 'a scheduler'),
    async enqueue(task, id) {
      dieWhen('before', task.tick);
      const added = await jobs.add('mirror', task, id);
      dieWhen('after', task.tick);
      return added;
    },
    log: silent, catchUp: false, now: () => now, wakeEveryMs: 86_400_000,
  });
  await one.wake();
  console.log('ready');
  for await (const time of process.stdin.setEncoding('utf8')) {
    now = new Date(time.trim());
    await one.wake();
    console.log(time.trim());
  }
  process.exit();
`;

describe('three schedulers of which one is killed', () => {
  it.each(['before', 'after'])(
    'lose no tick and double none: %s it has put the job into the queue',
    async (when) => {
      const trial = await postgresTrial();
      const nights = ['21', '22', '23'].map((day) => `2026-11-${day}T02:00:00.000Z`);
      const files = [builtFile('queue/scheduler.js'), builtFile('store/store.js')];
      const all = [`${when} ${nights[1]}`, 'never', 'never'].map((death) =>
        startScript(SCHEDULER, trial, INDEX, ...files, death),
      );
      await until(() => all.every(({ said }) => said.length === 1));
      for (const night of nights) {
        for (const { process, said, ended } of all) {
          if (process.signalCode !== null) continue;
          process.stdin?.write(`${night}\n`);
          await Promise.race([until(() => said.includes(night)), ended]);
        }
      }
      expect(all.map(({ process }) => process.signalCode)).toEqual(['SIGKILL', null, null]);
      const { mirror } = await (await trial.open()).counts();
      const bull = await trial.bull();
      const states = ['21', '22', '23'].map((day) =>
        bull.getJobState(`sync.acme.202611${day}T020000Z`),
      );
      expect(await Promise.all(states)).toEqual(['waiting', 'waiting', 'waiting']);
      expect(mirror.waiting).toBe(3);
    },
  );
});
