import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { SeededRandom } from '#product/simulator/random.js';
import { startPostgres, startRedis } from '../servers.js';

/** Returns a number from 0 up to, but not including, 1. */
export type Random = () => number;

export function pick<T>(random: Random, list: readonly T[]): T {
  return list[Math.floor(random() * list.length)] as T;
}

/** Returns an integer from `min` to `max`. */
export function between(random: Random, min: number, max: number): number {
  return min + Math.floor(random() * (max - min + 1));
}

export function log(text: string): void {
  process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${text}\n`);
}

/**
 * Reads the options of a soak, and starts its servers.
 * @param defaults the numeric options besides `--queue` and `--seed`
 */
export async function startSoak<Name extends string>(
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
  const seed = Number(values.seed);
  const seeded = new SeededRandom(seed, 0);
  log(`seed ${seed}, ${values.queue}; logs in ${folder}`);
  const texts = values as Readonly<Record<string, unknown>>;
  return {
    options: Object.fromEntries(
      names.map(([name]) => [name, numberIn(name, texts[name])]),
    ) as Record<Name, number>,
    /** The same seed gives the same choices, but not the same timing. */
    random: (): number => seeded.below(2 ** 32) / 2 ** 32,
    folder,
    postgres,
    redis,
    /** The product's settings, without its sellers. */
    env: {
      HOME: folder,
      DATABASE_URL: postgres.url,
      ...(redis === null ? {} : { REDIS_URL: redis.url }),
      REQUESTS_PER_MINUTE: '0',
      HEALTH_LISTEN: 'off',
      LOG_FORMAT: 'json',
      SHUTDOWN_TIMEOUT: '10',
    },
    /** Prints the report, stops the servers and exits. Keeps the logs of a failed soak. */
    async end(report: object, passed: boolean): Promise<never> {
      const result = { seed, queue: values.queue, ...report };
      process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
      await redis?.close();
      await postgres.close();
      if (passed) rmSync(folder, { recursive: true, force: true });
      process.exit(passed ? 0 : 1);
    },
  };
}

/** @throws for anything but a number: as NaN, a share of faults would make every call fail */
function numberIn(name: string, text: unknown): number {
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error(`--${name} must be a number, not "${String(text)}"`);
  return value;
}
