import { describe, expect, it } from 'vitest';
import { silentLog } from '../../src/domain/log.js';
import { Scheduler } from '../../src/queue/scheduler.js';
import { tickWithoutRun } from '../../src/queue/ticks.js';
import { openQueues } from '../../src/queue/queues.js';
import { parseRedisUrl, type RedisTarget } from '../../src/domain/redis-target.js';
import { useMirror } from '../support/mirror.js';
import { hasRedis, redisTitle, startRedis } from '../support/redis.js';
import { nightly } from './scheduler-support.js';
import { listeningLog } from './support.js';

const mirror = useMirror();

const at = (time: string): Date => new Date(`2026-03-02T${time}Z`);
const record = { cron: '0 2 * * *', timeZone: 'UTC', lastTick: at('02:00:00') };
const enqueuedAt = at('02:00:01');
const NOW = at('09:00:00');

describe('a tick without a run', () => {
  it('is one whose job was put into the queue and after which no good run began', () => {
    expect(tickWithoutRun({ record, enqueuedAt, lastRunAt: null }, NOW, 7)).toEqual(
      record.lastTick,
    );
    const before = at('01:59:59');
    expect(tickWithoutRun({ record, enqueuedAt, lastRunAt: before }, NOW, 7)).not.toBeNull();
    expect(tickWithoutRun({ record, enqueuedAt, lastRunAt: enqueuedAt }, NOW, 7)).toBeNull();
  });

  it('is none when it was passed over, since nothing was to come of it', () => {
    expect(tickWithoutRun({ record: null, enqueuedAt, lastRunAt: null }, NOW, 7)).toBeNull();
    const never = { record, enqueuedAt: null, lastRunAt: null };
    expect(tickWithoutRun(never, NOW, 7)).toBeNull();
    const before = { record, enqueuedAt: at('01:00:00'), lastRunAt: null };
    expect(tickWithoutRun(before, NOW, 7)).toBeNull();
  });

  it('is none when its job may have been removed with the finished ones', () => {
    const later = new Date(NOW.getTime() + 7 * 86_400_000);
    expect(tickWithoutRun({ record, enqueuedAt, lastRunAt: null }, later, 7)).toBeNull();
  });
});

describe.skipIf(!hasRedis)(redisTitle('a queue that lost its data'), () => {
  it('has the job of the night again, once, and a job that is there is left alone', async () => {
    const redis = await startRedis();
    const target = parseRedisUrl(`redis://127.0.0.1:${redis.port}`) as RedisTarget;
    const queues = await openQueues({
      ...{ target, databaseUrl: '', prefix: 'lost', keepJobsDays: 7 },
      ...{ applicationName: 'test', log: silentLog },
    });
    const tick = new Date(Math.floor(Date.now() / 60_000) * 60_000);
    const schedule = nightly({ seller: 'main' });
    const done = { ...schedule, lastTick: tick, enqueuedAt: new Date() };
    await mirror().store.schedules.record([done], new Date(Date.now() + 86_400_000));
    const { log, lines } = listeningLog();
    const scheduler = new Scheduler({
      schedules: [schedule],
      store: mirror().store,
      enqueue: ({ seller, askedAt }, jobId) =>
        queues.addMirror({ kind: 'sync', seller, tick: null, askedAt }, jobId),
      ...{ log, catchUp: false, keepJobsDays: 7 },
    });
    const look = async (): Promise<number> => {
      await scheduler.addLostJobs();
      return lines.filter(({ level }) => level === 'warn').length;
    };
    try {
      expect(await look()).toBe(1);
      expect((await queues.counts()).mirror.waiting).toBe(1);
      expect(await look()).toBe(1);
      await redis.command('FLUSHALL');
      expect(await look()).toBe(2);
      expect((await queues.counts()).mirror.waiting).toBe(1);
    } finally {
      await scheduler.stop();
      await queues.close();
      await redis.dispose();
    }
  });
});
