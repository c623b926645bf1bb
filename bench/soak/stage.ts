import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startPostgres, startRedis } from './servers.js';

/** From 0 up to, not including, 1. */
export type Random = () => number;

export function pick<T>(random: Random, list: readonly T[]): T {
  return list[Math.floor(random() * list.length)] as T;
}

/** A whole number, both ends included. */
export function between(random: Random, least: number, most: number): number {
  return least + Math.floor(random() * (most - least + 1));
}

/** Small, fast and repeatable. */
function mulberry(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function say(text: string): void {
  process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${text}\n`);
}

/**
 * The options, the servers and the folder of a soak.
 * @param defaults the options besides `--queue` and `--seed`; all are numbers
 */
export async function openStage<Name extends string>(
  usage: string,
  defaults: Readonly<Record<Name, number>>,
) {
  const names = Object.entries<number>(defaults);
  const { values } = parseArgs({
    options: {
      queue: { type: 'string', default: 'redis' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      help: { type: 'boolean', default: false },
      ...Object.fromEntries(
        names.map(([name, value]) => [name, { type: 'string', default: `${value}` } as const]),
      ),
    },
  });
  if (values.help) {
    process.stdout.write(`${usage}\n`);
    process.exit(0);
  }
  const folder = mkdtempSync(join(tmpdir(), 'seller-mirror-soak-'));
  const postgres = await startPostgres();
  const redis = values.queue === 'redis' ? await startRedis() : null;
  const about = { seed: Number(values.seed), queue: values.queue };
  say(`seed ${about.seed}, ${about.queue}; logs in ${folder}`);
  const given = values as Readonly<Record<string, unknown>>;
  return {
    options: Object.fromEntries(names.map(([name]) => [name, Number(given[name])])) as Record<
      Name,
      number
    >,
    about,
    // Repeatable; the times of things are not.
    random: mulberry(about.seed),
    folder,
    postgres,
    redis,
    /** Settings of the product but for its sellers. */
    env: {
      PATH: process.env['PATH'],
      HOME: folder,
      DATABASE_URL: postgres.url,
      ...(redis === null ? {} : { REDIS_URL: redis.url }),
      REQUESTS_PER_MINUTE: '0',
      HEALTH_LISTEN: 'off',
      LOG_FORMAT: 'json',
      SHUTDOWN_TIMEOUT: '10',
    },
    /** Prints what happened, ends the servers and this process. */
    async end(report: object, sound: boolean): Promise<never> {
      process.stdout.write(`${JSON.stringify({ ...about, ...report }, null, 2)}\n`);
      await redis?.close();
      await postgres.close();
      process.exit(sound ? 0 : 1);
    },
  };
}
