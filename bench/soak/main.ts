/** Runs schedulers and workers for a while, kills them and their servers at random, and compares at the end. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { allMirroredSince, compare } from './compare.js';
import { Fleet } from './fleet.js';
import { keyOf, Market } from './market.js';
import { mulberry } from './random.js';
import { startPostgres, startRedis, type Victim } from './servers.js';

const USAGE = `npm run soak -- [--minutes 10] [--queue redis|postgres] [--sellers 4] [--workers 3] [--seed 1]
Kills, freezes and crashes everything at random while sellers change their items; at the end the
store must equal the marketplace.`;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    queue: { type: 'string', default: 'redis' },
    sellers: { type: 'string', default: '4' },
    workers: { type: 'string', default: '3' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`${USAGE}\n`);
  process.exit(0);
}

// Repeatable; the times of things are not.
const random = mulberry(Number(values.seed));
const between = (least: number, most: number): number => least + random() * (most - least);
const say = (text: string): void => {
  process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${text}\n`);
};

const folder = mkdtempSync(join(tmpdir(), 'seller-mirror-soak-'));
const market = await Market.open(Number(values.sellers), random);
const postgres = await startPostgres();
const redis = values.queue === 'redis' ? await startRedis() : null;
const victims: readonly Victim[] = redis === null ? [postgres] : [postgres, redis];

const sellersFile = join(folder, 'sellers.json');
writeFileSync(
  sellersFile,
  JSON.stringify({
    sellers: market.sellers.map((name) => ({
      name,
      url: market.url,
      keyEnv: `KEY_${name.replaceAll('-', '_').toUpperCase()}`,
    })),
  }),
);
const env: NodeJS.ProcessEnv = {
  PATH: process.env['PATH'],
  HOME: folder,
  DATABASE_URL: postgres.url,
  ...(redis === null ? {} : { REDIS_URL: redis.url }),
  SELLERS_FILE: sellersFile,
  ...Object.fromEntries(
    market.sellers.map((name) => [`KEY_${name.replaceAll('-', '_').toUpperCase()}`, keyOf(name)]),
  ),
  SYNC_CRON: '*/10 * * * * *',
  REQUESTS_PER_MINUTE: '0',
  REMOVAL_GUARD_PERCENT: '100',
  HEALTH_LISTEN: 'off',
  LOG_FORMAT: 'json',
  SHUTDOWN_TIMEOUT: '10',
};
const logFile = join(folder, 'fleet.log');
const commands = [
  'scheduler',
  'scheduler',
  ...Array.from({ length: Number(values.workers) }, () => 'worker'),
];
const fleet = new Fleet(commands, env, folder, logFile, market.sellers.map(keyOf));
say(`seed ${values.seed}, ${values.queue}; logs in ${logFile}`);

const end = Date.now() + Number(values.minutes) * 60_000;
let troubles = 0;
let disturbed = 0;
const untilEnd = async (least: number, most: number, work: () => unknown): Promise<void> => {
  for (;;) {
    const pause = between(least, most);
    if (Date.now() + pause > end) return;
    await sleep(pause);
    await work();
  }
};
await Promise.all([
  untilEnd(200, 1_000, () => market.change()),
  untilEnd(2_000, 8_000, () => {
    disturbed++;
    market.disturb();
  }),
  untilEnd(1_000, 6_000, () => fleet.killOne(random)),
  untilEnd(15_000, 40_000, async () => {
    const victim = victims[Math.floor(random() * victims.length)] as Victim;
    const forMs = random() < 0.2 ? 60_000 : between(1_000, 15_000);
    const how = random() < 0.5 ? 'crash' : 'freeze';
    say(`${victim.name}: ${how} for ${Math.round(forMs / 1000)} s`);
    troubles++;
    await victim[how](forMs);
  }),
]);

say('peace: waiting until every seller was mirrored once more');
market.simulator.faults.clear();
const peace = new Date();
let settled = false;
for (const patience = Date.now() + 300_000; !settled && Date.now() < patience;) {
  await sleep(1_000);
  settled = await allMirroredSince(postgres.url, market, peace);
}
say(`settled after ${Math.round((Date.now() - peace.getTime()) / 1000)} s`);
const codes = await fleet.stop();
const result = await compare(postgres.url, market);

process.stdout.write(
  `${JSON.stringify(
    {
      seed: Number(values.seed),
      queue: values.queue,
      minutes: Number(values.minutes),
      marketplace: {
        sellers: market.sellers.length,
        changes: market.changes,
        faults: disturbed,
        requests: market.simulator.requestCount,
        listed: result.listed,
      },
      kills: fleet.kills,
      outages: troubles,
      logLines: fleet.lines,
      runs: result.runs,
      jobsDoneTwice: result.doubled,
      unaskedEnds: fleet.crashes,
      keyInLogs: fleet.leaks.length,
      exitCodes: codes,
      settled,
      differences: result.differences,
    },
    null,
    2,
  )}\n`,
);
fleet.abandon();
await market.simulator.close();
await redis?.close();
await postgres.close();
const sound =
  settled &&
  result.differences.length === 0 &&
  fleet.leaks.length === 0 &&
  codes.every((code) => code === 0);
process.exit(sound ? 0 : 1);
