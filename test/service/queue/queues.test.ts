import { afterAll, beforeAll, describe } from 'vitest';
import { createTestDatabase, emptyTables, type TestDatabase } from '../../support/postgres.js';
import { redisTarget } from '../../support/redis.js';
import { describeQueue } from './contract.js';
import { describeOnRedis, postgresQueueAt, redisQueue, withClient } from './support.js';

describe('the queue on PostgreSQL', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());
  describeQueue('in a database', async () => {
    await withClient(database.url, (client) => emptyTables(client, 'bullmq'));
    return postgresQueueAt(database.url);
  });
});

describeOnRedis('the queue on Redis', (redis) => {
  describeQueue('on one server', () => redisQueue(redisTarget(redis())));
});
