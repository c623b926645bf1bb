import { inspect } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { marketOf, run, settings, start } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { hasRedis, redisTitle, startRedis } from '../support/redis.js';
import { startProxy, type TcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/until.js';
import { startJobs, untilRuns, useServices } from './support.js';

const mirror = useMirror();
useServices();

/** The settings of a service whose queue is reached through a proxy. With PostgreSQL, the store is, too. */
async function behindProxy(
  backend: string,
): Promise<{ readonly proxy: TcpProxy; readonly env: Readonly<Record<string, string>> }> {
  const url = new URL(mirror().databaseUrl);
  const redis = backend === 'Redis' ? await startRedis({ requirepass: 'quite-secret' }) : null;
  onTestFinished(async () => redis?.dispose());
  const proxy = await startProxy(redis ?? { host: url.hostname, port: Number(url.port || '5432') });
  onTestFinished(() => proxy.close());
  if (redis !== null) {
    return { proxy, env: { REDIS_URL: `redis://:quite-secret@127.0.0.1:${proxy.port}` } };
  }
  url.port = String(proxy.port);
  return { proxy, env: { DATABASE_URL: url.href } };
}

describe.each(['PostgreSQL', 'Redis'])('an outage of the queue in %s', (backend) => {
  const skipped = backend === 'Redis' && !hasRedis;
  const title = backend === 'Redis' ? redisTitle : (text: string) => text;

  it.skipIf(skipped)(
    title('is logged once, whatever its kind, and what was asked for meanwhile is done afterwards'),
    async () => {
      const { sim, env: own } = await marketOf(mirror(), 5);
      const { proxy, env } = await behindProxy(backend);
      const { lines, queues } = await startJobs(mirror(), sim.url, env);
      const runs = ['account succeeded', 'items succeeded'];
      await untilRuns(mirror(), ...runs);
      const of = (text: string) => lines.filter(({ message }) => message === text).length;
      for (const [n, mode] of (['refuse', 'swallow', 'cut'] as const).entries()) {
        if (mode === 'cut') proxy.cut();
        else {
          await proxy.set(mode);
          await expect(queues.ping()).rejects.toMatchObject({ name: 'UserError', code: 'QUEUE' });
        }
        expect((await run(['sync', 'account', '--queue'], own)).code).toBe(0);
        await proxy.set('pass');
        runs.push('account succeeded');
        await untilRuns(mirror(), ...runs);
        // An outage soon after another one is not logged again.
        const told = of('the queue is unavailable');
        expect([told > 0, told <= n + 1], mode).toEqual([true, true]);
        // The job that arrived shows it.
        await until(() => of('the queue is available again') === of('the queue is unavailable'));
      }
      expect(inspect(lines, { depth: 9 })).not.toContain('quite-secret');
    },
  );

  it.skipIf(skipped)(
    title(
      'in the middle of a job loses none, does its work once, and keeps no service from ending',
    ),
    async () => {
      const { sim } = await marketOf(mirror(), 5);
      const { proxy, env } = await behindProxy(backend);
      sim.faults.next('list', { kind: 'stall', ms: 3_000 });
      const service = await startJobs(mirror(), sim.url, { ...env, SHUTDOWN_TIMEOUT: '1' });
      const { queues } = service;
      await until(() => sim.log.some(({ operation }) => operation === 'list'));
      proxy.cut();
      const good = () =>
        mirror().rows(`SELECT kind FROM mirror.runs WHERE state = 'succeeded' ORDER BY run_id`);
      await until(async () => (await good()).length >= 2);
      await until(async () => (await queues.counts().catch(() => null))?.mirror.active === 0);
      expect(await good()).toEqual([{ kind: 'account' }, { kind: 'items' }]);
      await proxy.set('swallow');
      await service.stop();
      await expect(queues.counts()).rejects.toMatchObject({ code: 'QUEUE' });
    },
  );
});

it('a worker that is killed leaves its job to another one', async () => {
  const { sim } = await marketOf(mirror(), 5);
  const env = settings(mirror().databaseUrl, sim.url, { HEALTH_LISTEN: 'off', SYNC_CRON: 'off' });
  sim.faults.next('list', { kind: 'stall', ms: 600_000 });
  const first = start(['worker'], env);
  expect((await run(['sync', '--queue'], env)).code).toBe(0);
  await until(() => sim.log.some(({ operation }) => operation === 'list'));
  first.process.kill('SIGKILL');
  await startJobs(mirror(), sim.url, { SYNC_CRON: 'off' }, { scheduler: false });
  await untilRuns(mirror(), 'account succeeded', 'items interrupted', 'items succeeded');
});
