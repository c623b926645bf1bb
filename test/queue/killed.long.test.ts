import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { createTestDatabase } from '../support/postgres.js';
import { redisTarget } from '../support/redis.js';
import { startProxy } from '../support/tcp-proxy.js';
import { noting, SHORT, sync, until } from './support.js';
import { describeOnRedis, postgresTrialAt, redisTrial, type Trial } from './support.js';

const INDEX = fileURLToPath(new URL('../../dist/queue/queues.js', import.meta.url));

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

function startWorker({ options }: Trial): Child {
  const { target, databaseUrl, prefix, keepJobsDays, applicationName } = options;
  const tuning = { ...SHORT, maxStalled: 1 };
  const given = { target, databaseUrl, prefix, keepJobsDays, applicationName, tuning };
  const args = ['--input-type=module', '-e', SCRIPT, '--', INDEX, JSON.stringify(given)];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
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
      for (const id of ['one', 'two']) await queues.addMirror(sync('acme'), id);
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
      await queues.addMirror(sync('acme'), 'poison');
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
      await (await trial.open()).addMirror(sync('acme'), 'one');
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
