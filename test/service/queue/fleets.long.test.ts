import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { RedisTarget } from '../../../src/domain/redis-target.js';
import { placesOf, startCluster, startSentinel, type RedisCluster } from '../../support/redis.js';
import type { RedisSentinel } from '../../support/redis.js';
import { hasRedis, redisTarget, redisTitle, type RedisProcess } from '../../support/redis.js';
import { until } from '../../support/until.js';
import { describeQueue } from './contract.js';
import { DONE, jobIds, redisQueue, succeeds, sync, untilCounts, work } from './support.js';

describe.skipIf(!hasRedis)(redisTitle('the queue on a Redis cluster of three nodes'), () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startCluster();
  });
  afterAll(() => cluster.dispose());

  const target = (): RedisTarget => {
    const nodes = placesOf(cluster.nodes);
    return { ...redisTarget(cluster.nodes[0] ?? { host: '', port: 0 }), mode: 'cluster', nodes };
  };
  describeQueue('like on a single server', () => redisQueue(target()));

  it('keeps all keys of an installation in one slot, since scripts use several at once', async () => {
    const testQueue = redisQueue(target());
    const queues = await testQueue.open();
    work(queues);
    await queues.add('mirror', sync('acme'));
    await queues.add('alerts', { kind: 'run-failed', runId: '1' }, 'one');
    await untilCounts(queues, { completed: 1 });
    const { prefix } = testQueue.options;
    const keys = await Promise.all(
      cluster.nodes.map((node) => node.command('KEYS', `{${prefix}}*`)),
    );
    expect(keys.filter((found) => found !== '')).toHaveLength(1);
  });

  it('loses no job when the nodes are restarted one after another', async () => {
    const queues = await redisQueue(target()).open();
    const ids = Array.from({ length: 60 }, (_, i) => `items.acme.${i}`);
    for (const id of ids) await queues.add('mirror', sync('acme'), id);
    const { seen } = work(queues, () => sleep(20).then(() => DONE), { concurrency: 2 });
    for (const node of cluster.nodes) {
      await until(() => seen.length > 1);
      await node.stop();
      await sleep(300);
      await node.start();
    }
    await untilCounts(queues, { completed: ids.length });
    expect(jobIds(seen)).toEqual(ids.toSorted());
  });
});

/** Empty while the server changes its role, since it closes its connections then. */
const roleOf = (server: Pick<RedisProcess, 'command'>): Promise<string> =>
  server.command('ROLE').catch(() => '');

describe.skipIf(!hasRedis)(redisTitle('the queue on Redis behind a sentinel'), () => {
  let fleet: RedisSentinel;
  beforeEach(async () => {
    fleet = await startSentinel();
  });
  afterEach(() => fleet.dispose());

  const target = (masterName = fleet.masterName): RedisTarget =>
    redisTarget(fleet.sentinel, { mode: 'sentinel', masterName });

  it.each([
    ['is killed', 'SIGKILL', (): Promise<void> => fleet.master.start()],
    ['hangs', 'SIGSTOP', (): unknown => fleet.master.child.kill('SIGCONT')],
  ] as const)(
    'continues with the new master when the old one %s, without losing a job',
    async (_what, signal, comeBack) => {
      const queues = await redisQueue(target(), placesOf([fleet.replica])).open();
      const ids = Array.from({ length: 40 }, (_, i) => `items.acme.${i}`);
      for (const id of ids) await queues.add('mirror', sync('acme'), id);
      await fleet.master.command('WAIT', '1', '5000');
      const { seen } = work(queues, () => sleep(20).then(() => DONE), { concurrency: 2 });
      const areDone = (...wanted: string[]): boolean => {
        const done = jobIds(seen);
        return wanted.every((id) => done.includes(id));
      };
      await until(() => seen.length > 3);
      fleet.master.child.kill(signal);
      await until(async () => (await roleOf(fleet.replica)).includes('master'));
      const added = (id: string): Promise<boolean> =>
        succeeds(queues.add('mirror', sync('acme'), id));
      await until(() => added('after'));
      await until(() => areDone(...ids, 'after'));
      // The old master comes back and becomes a replica, which must get no writes.
      await comeBack();
      await until(async () => (await roleOf(fleet.master)).includes('slave'));
      await until(() => added('later'));
      await until(() => areDone('later'));
    },
  );

  it('reports that the sentinels don’t know the master', async () => {
    const queues = await redisQueue(target('others')).open();
    await expect(queues.ping()).rejects.toThrow(/"others" of the sentinels at/);
  });
});
