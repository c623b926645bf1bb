import { afterAll, beforeAll, describe } from 'vitest';
import { createTestDatabase, emptyTables, type TestDatabase } from '../support/postgres.js';
import {
  hasRedis,
  redisTarget,
  redisTitle,
  startRedis,
  type RedisProcess,
} from '../support/redis.js';
import { describeQueue } from './contract.js';
import { postgresTrialAt, redisTrial, withClient } from './trial.js';

describe('the queue on PostgreSQL', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  afterAll(() => database.drop());
  describeQueue('in one database', async () => {
    await withClient(database.url, (client) => emptyTables(client, 'bullmq'));
    return postgresTrialAt(database.url);
  });
});

describe.skipIf(!hasRedis)(redisTitle('the queue on Redis'), () => {
  let redis: RedisProcess;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.dispose());
  describeQueue('on one server', () => redisTrial(redisTarget(redis)));
});
