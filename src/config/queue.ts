import { parseRedisUrl, type RedisTarget } from '../domain/redis-target.js';
import type { Reader } from './reader.js';
import { readSecretSetting } from './secret-setting.js';
import type { Config } from './types.js';

const HOUR_SECONDS = 3_600;

/** Where the queue is, and how work is done from it. */
export function readQueue(
  reader: Reader,
): Pick<
  Config,
  | 'redis'
  | 'queuePrefix'
  | 'workerConcurrency'
  | 'recheck'
  | 'catchUp'
  | 'shutdownTimeoutMs'
  | 'keepJobsDays'
  | 'staleAfterHours'
> {
  return {
    redis: readRedis(reader),
    queuePrefix: readPrefix(reader),
    workerConcurrency: reader.integer('WORKER_CONCURRENCY', 1, 100),
    recheck: {
      share: reader.integer('AUDIT_SHARE', 1, 100) / 100,
      olderThanDays: reader.integer('AUDIT_OLDER_THAN_DAYS', 1, 3_650),
    },
    catchUp: reader.boolean('CATCH_UP'),
    shutdownTimeoutMs: reader.integer('SHUTDOWN_TIMEOUT', 0, HOUR_SECONDS) * 1_000,
    keepJobsDays: reader.integer('KEEP_JOBS_DAYS', 1, 365),
    staleAfterHours: reader.integer('STALE_AFTER_HOURS', 1, 8_760),
  };
}

function readRedis(reader: Reader): RedisTarget | null {
  const { findings } = reader;
  const given = readSecretSetting(reader, 'REDIS_URL', 'the address of Redis');
  if (given === null) return null;
  for (const text of passwordsAsWritten(given.text)) findings.hide(text);
  const target = parseRedisUrl(given.text);
  if ('fault' in target) {
    findings.problem({ where: given.where, what: target.fault, remedy: target.remedy });
    return null;
  }
  for (const secret of [target.password, target.sentinelPassword]) {
    if (secret !== null) findings.hide(secret.reveal());
  }
  return target;
}

/** What stands where passwords belong, also in an address that can't be read. */
function passwordsAsWritten(url: string): readonly string[] {
  const places = [/:\/\/[^:]*:(.*)@/s, /\?[^=]*=(.*)$/s];
  return places.map((place) => place.exec(url)?.[1] ?? '').filter((text) => text !== '');
}

/** It becomes part of every key in Redis, and of every job's place in the database. */
function readPrefix(reader: Reader): string {
  const given = reader.given('QUEUE_PREFIX');
  if (!/^[A-Za-z0-9._-]{1,63}$/.test(given.text)) {
    reader.findings.problem({
      where: given.where,
      value: given.text,
      what: 'can’t begin the names in Redis',
      remedy: 'use 1 to 63 letters, digits, dots, underscores and hyphens',
    });
  }
  return given.text;
}
