import { describe, expect, it, onTestFinished } from 'vitest';
import type { Simulator } from '../../src/simulator/index.js';
import { useMirror } from '../support/mirror.js';
import { hasRedis, redisTitle, startRedis } from '../support/redis.js';
import { until } from '../support/until.js';
import { marketOf, run, settings, start } from './support.js';

const mirror = useMirror();

/** A schedule that never fires while a test runs. */
const IN_LEAP_YEARS = '0 0 29 2 *';

const market = async () => (await marketOf(mirror(), 40)).sim;

function environment(sim: Simulator, more: Readonly<Record<string, string>> = {}) {
  return settings(mirror().databaseUrl, sim.url, {
    HEALTH_LISTEN: 'off',
    SYNC_CRON: IN_LEAP_YEARS,
    CATCH_UP: 'false',
    ...more,
  });
}

const live = async (): Promise<number> => {
  const [row] = await mirror().rows<{ number: string }>(
    `SELECT count(*) AS number FROM mirror.items WHERE state = 'live'`,
  );
  return Number(row?.number);
};

const runs = (): Promise<{ kind: string; state: string; job_id: string | null }[]> =>
  mirror().rows('SELECT kind, state, job_id FROM mirror.runs ORDER BY run_id');

/** Parses the JSON lines of a log. */
const lines = (text: string): Record<string, unknown>[] =>
  text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe('run', () => {
  it('mirrors a new seller at once, logs each run with seller and job, and exits with 0', async () => {
    const sim = await market();
    const service = start(['run'], environment(sim, { CATCH_UP: 'true' }));
    await until(async () => (await live()) === 40);
    await until(async () => (await runs()).every(({ state }) => state === 'succeeded'));
    service.process.kill('SIGTERM');
    const { code, stdout } = await service.ended;
    expect(code).toBe(0);
    const [account, items] = await runs();
    expect([account?.kind, items?.kind]).toEqual(['account', 'items']);
    const succeeded = lines(stdout).filter(({ msg }) => msg === 'run succeeded');
    expect(succeeded).toHaveLength(2);
    for (const line of succeeded) {
      expect(line).toMatchObject({ seller: 'main', job: account?.job_id, level: 'info' });
      expect(line['run']).toBeDefined();
    }
    expect(lines(stdout).filter(({ msg }) => msg === 'run started')).toHaveLength(2);
    expect(lines(stdout).at(-1)).toMatchObject({ msg: 'stopped' });
  });

  it('exits at once with 130 after a second Ctrl-C', async () => {
    const sim = await market();
    const env = environment(sim, { SHUTDOWN_TIMEOUT: '600' });
    sim.faults.always('list', { kind: 'slow', chunkBytes: 100, pauseMs: 100 });
    const service = start(['run'], env);
    await run(['sync', '--queue'], env);
    await until(() => sim.log.some(({ operation }) => operation === 'list'));
    service.process.kill('SIGINT');
    await until(() => service.stdout().includes('a second signal ends the process at once'));
    service.process.kill('SIGINT');
    expect((await service.ended).code).toBe(130);
    expect(await live()).toBe(0);
  });
});

describe('a fleet', () => {
  it.skipIf(!hasRedis)(
    redisTitle('mirrors through Redis: one process schedules, others work'),
    async () => {
      const redis = await startRedis();
      onTestFinished(() => redis.dispose());
      const sim = await market();
      const env = environment(sim, {
        REDIS_URL: `redis://127.0.0.1:${redis.port}`,
        SYNC_CRON: '*/2 * * * * *',
      });
      const services = ['scheduler', 'scheduler', 'worker', 'worker'].map((command) =>
        start([command], env),
      );
      await until(async () => (await runs()).filter(({ kind }) => kind === 'items').length >= 3);
      const [scheduler, second, ...workers] = services;
      for (const service of [scheduler, second]) service?.process.kill('SIGTERM');
      await Promise.all([scheduler?.ended, second?.ended]);
      for (const worker of workers) worker.process.kill('SIGTERM');
      for (const service of services) expect((await service.ended).code).toBe(0);
      const done = (await runs()).filter(
        ({ kind, state }) => kind === 'items' && state === 'succeeded',
      );
      const jobs = done.map(({ job_id }) => job_id);
      expect(new Set(jobs).size, 'no tick runs twice').toBe(jobs.length);
      expect(jobs.every((job) => /^sync\.main\.\d{8}T\d{6}Z$/.test(job ?? ''))).toBe(true);
    },
  );

  it('notes that the queue can’t be reached, since a worker finds the request in the store', async () => {
    const sim = await market();
    const env = environment(sim, { REDIS_URL: 'redis://user:s3cret-pw@127.0.0.1:1' });
    const { code, stderr } = await run(['sync', '--queue'], env);
    expect(code).toBe(0);
    expect(stderr).toMatch(/^note: main: the queue in Redis at 127\.0\.0\.1:1: /);
    expect(await runs()).toMatchObject([{ state: 'asked' }, { state: 'asked' }]);
    expect(stderr).not.toContain('s3cret-pw');
  });

  it('parks a seller whose key is refused, until a person syncs it again', async () => {
    const sim = await market();
    const env = environment(sim);
    const wrong = { ...env, MARKETPLACE_API_KEY: 'k3y-that-nobody-knows-0123456789' };
    const service = start(['run'], wrong);
    await run(['sync', '--queue'], wrong);
    await until(() => service.stdout().includes('run failed'));
    service.process.kill('SIGTERM');
    const { stdout } = await service.ended;
    expect(stdout).not.toContain('k3y-that-nobody-knows');
    const failed = lines(stdout).find(({ msg }) => msg === 'job failed for good');
    expect(failed).toMatchObject({ seller: 'main', job: (await runs())[0]?.job_id });
    const status = await run(['status', '--check'], env);
    expect(status.code).toBe(1);
    expect(status.stdout).toMatch(/✗ main · stopped.*seller-mirror sync --seller main/s);

    expect((await run(['sync'], env)).code).toBe(0);
    expect((await run(['status', '--check'], env)).stdout).toMatch(/^✓ main · current/);
  });
});
