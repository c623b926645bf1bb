import type { Config } from '../../config/index.js';
import { silentLog, type Log } from '../../domain/log.js';
import { QueueError } from '../../queue/errors.js';
import { Checks, type Check } from './check.js';

const MACHINE = new Checks(null);

/** Whether the queue can be used, and what its server should be set to. Leaves a key that is gone in a minute. */
export async function checkQueue(config: Config): Promise<readonly Check[]> {
  if (config.redis === null) return [MACHINE.ok('queue: in the database; REDIS_URL is not set')];
  const warnings: string[] = [];
  const log: Log = { ...silentLog, warn: (text) => warnings.push(text), child: () => log };
  const { openQueues } = await import('../../queue/queues.js'); // slow to load
  const queues = await openQueues({
    target: config.redis,
    databaseUrl: '',
    prefix: config.queuePrefix,
    keepJobsDays: config.keepJobsDays,
    applicationName: 'seller-mirror doctor',
    log,
  });
  try {
    await queues.ping();
    const advice = warnings.map((text) => MACHINE.warning(`queue: ${text}`, 'see redis.conf'));
    return [MACHINE.ok('queue: Redis answers'), ...advice];
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    return [MACHINE.failed(`queue: ${error.message}`, error.remedy)];
  } finally {
    await queues.close();
  }
}
