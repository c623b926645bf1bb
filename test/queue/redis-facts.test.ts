import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { warningsIn } from '../../src/queue/redis.js';
import { hasRedis, redisTarget, redisTitle, startRedis } from '../support/redis.js';
import { redisTrial } from './trial.js';

const info = (facts: Record<string, string>): string =>
  Object.entries({
    redis_version: '7.2.4',
    maxmemory_policy: 'noeviction',
    aof_enabled: '1',
    ...facts,
  })
    .map(([name, value]) => `${name}:${value}`)
    .join('\r\n');

describe('what is said of a Redis server', () => {
  it('is nothing when all is well, or when it does not let itself be asked', () => {
    expect(warningsIn(info({}))).toEqual([]);
    expect(warningsIn('')).toEqual([]);
  });

  it.each([
    ['redis_version', '6.0.16', 'it is version 6.0.16; at least 6.2 is needed'],
    ['redis_version', '5.0.7', 'it is version 5.0.7'],
    ['maxmemory_policy', 'allkeys-lru', 'set it to noeviction'],
    ['aof_enabled', '0', 'set appendonly yes'],
  ])('is a warning for %s %s', (name, value, words) => {
    expect(warningsIn(info({ [name]: value })).join()).toContain(words);
  });

  it.each(['6.2.0', '7.0.15', '8.4.0', '10.0.1'])('accepts version %s', (version) => {
    expect(warningsIn(info({ redis_version: version }))).toEqual([]);
  });

  it.skipIf(!hasRedis)(redisTitle('is told once to the log when it is opened'), async () => {
    const redis = await startRedis({ 'maxmemory-policy': 'allkeys-lru' });
    try {
      const trial = redisTrial(redisTarget(redis));
      const queues = await trial.open();
      await queues.ping();
      const warnings = trial.lines.filter(({ level }) => level === 'warn');
      expect(warnings.map(({ message }) => message)).toEqual([
        expect.stringContaining('maxmemory-policy is allkeys-lru'),
      ]);
    } finally {
      await redis.dispose();
    }
  });

  it.skipIf(!hasRedis)(
    redisTitle('is nothing to a user who may not ask, for whom the queue works all the same'),
    async () => {
      const rights = 'on >secret-word ~* &* +@all -config -info -client';
      const redis = await startRedis({ user: `worker ${rights}` });
      try {
        const login = { username: 'worker', password: new Secret('secret-word') };
        const trial = redisTrial(redisTarget(redis, login), redisTarget(redis).nodes);
        const queues = await trial.open();
        expect(await queues.counts()).toMatchObject({ mirror: { waiting: 0 } });
        expect(trial.lines).toEqual([]);
      } finally {
        await redis.dispose();
      }
    },
  );
});
