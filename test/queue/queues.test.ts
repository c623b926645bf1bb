import { afterAll, beforeAll, describe } from 'vitest';
import {
  hasRedis,
  redisTarget,
  redisTitle,
  startRedis,
  type RedisProcess,
} from '../support/redis.js';
import { describeQueue } from './contract.js';
import { postgresTrial, redisTrial } from './trial.js';

describeQueue('the queue on PostgreSQL', postgresTrial);

describe.skipIf(!hasRedis)(redisTitle('the queue on Redis'), () => {
  let redis: RedisProcess;
  beforeAll(async () => {
    redis = await startRedis();
  });
  afterAll(() => redis.dispose());
  describeQueue('on one server', () => redisTrial(redisTarget(redis)));
});
