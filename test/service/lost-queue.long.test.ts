import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { seededCatalogue } from '../../src/simulator/index.js';
import { folder } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { hasRedis, redisTitle, startRedis } from '../support/redis.js';
import { until } from '../support/until.js';
import { startJobs, useServices } from './support.js';

const mirror = useMirror();
useServices();

const SELLERS = 12;

describe.skipIf(!hasRedis)(redisTitle('Redis that saves nothing'), () => {
  it('may be killed twice during work: each seller is mirrored all the same', async () => {
    const redis = await startRedis({ appendonly: 'no' });
    onTestFinished(() => redis.dispose());
    const names = Array.from({ length: SELLERS }, (_, n) => `seller-${n}`);
    const keyOf = (name: string): string => `k3y-of-${name}-0123456789`;
    const sim = await mirror().simulate({
      sellers: names.map((username, n) => {
        return {
          key: keyOf(username),
          username,
          catalogue: seededCatalogue({ seed: n, count: 5 }),
        };
      }),
    });
    sim.faults.always('list', { kind: 'stall', ms: 500 });
    const file = join(folder(), 'sellers.json');
    const sellers = names.map((name, n) => ({ name, url: sim.url, keyEnv: `KEY_${n}` }));
    writeFileSync(file, JSON.stringify({ sellers }));
    const keys = Object.fromEntries(names.map((name, n) => [`KEY_${n}`, keyOf(name)]));
    const { queues } = await startJobs(mirror(), sim.url, {
      REDIS_URL: `redis://127.0.0.1:${redis.port}`,
      ...{ SELLERS_FILE: file, ...keys, MARKETPLACE_URL: '', MARKETPLACE_API_KEY: '' },
      WORKER_CONCURRENCY: '2',
    });
    const runs = () =>
      mirror().rows<{ seller: string; runs: number; good: number }>(
        `SELECT seller_id AS seller, count(*)::int AS runs,
                count(*) FILTER (WHERE state = 'succeeded')::int AS good
           FROM mirror.runs WHERE kind = 'items' GROUP BY seller_id ORDER BY seller_id`,
      );
    const mirrored = async (): Promise<number> =>
      (await runs()).filter(({ good }) => good > 0).length;
    for (const before of [2, 5]) {
      await until(async () => (await mirrored()) >= before);
      await redis.stop('SIGKILL');
      await redis.start();
    }
    await until(async () => (await mirrored()) === SELLERS);
    await until(async () => (await queues.counts().catch(() => null))?.mirror.active === 0);
    // A job may run twice after an outage, which is harmless.
    expect((await runs()).filter(({ good }) => good > 0).map(({ seller }) => seller)).toEqual(
      names.toSorted(),
    );
  });
});
