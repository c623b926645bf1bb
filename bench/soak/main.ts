/** Kills schedulers, workers and servers at random, then compares the store with the marketplace. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { startSimulator, type Fault } from '#product/simulator/index.js';
import { sellersEnvironment, sellerSpecs } from '../marketplace.js';
import { withClient } from '../servers.js';
import { Fleet } from './processes.js';
import { between, log, pick, startSoak } from './setup.js';

const USAGE = `npm run soak -- [--minutes 10] [--queue redis|postgres] [--sellers 4] [--workers 3] [--seed 1]
Kills, freezes and crashes everything at random while sellers change their items. At the end the
store must equal the marketplace.`;

/** Items of each seller at the start. */
const ITEMS = 250;
const FAULTS: readonly Fault[] = [
  { kind: 'server-error' },
  { kind: 'truncate', how: 'destroy', fraction: 0.5 },
  { kind: 'html' },
  { kind: 'rate-limited', retryAfter: 2 },
  { kind: 'reset' },
  { kind: 'challenge' },
];

const soak = await startSoak(USAGE, { minutes: 10, sellers: 4, workers: 3 });
const { options, random, postgres, redis } = soak;
const sellers = sellerSpecs(options.sellers, ITEMS);
const simulator = await startSimulator({ profile: 'field-2', sellers });
const fleet = new Fleet(
  ['scheduler', 'scheduler', ...Array.from({ length: options.workers }, () => 'worker')],
  {
    ...soak.env,
    ...sellersEnvironment(soak.folder, simulator.url, sellers),
    SYNC_CRON: '*/10 * * * * *',
    REMOVAL_GUARD_PERCENT: '100',
  },
  join(soak.folder, 'fleet.log'),
  sellers.map(({ key }) => key),
);

const end = Date.now() + options.minutes * 60_000;
let outages = 0;
let changes = 0;
let faults = 0;
let nextId = 900_000;
/** Runs `work` again and again, after random pauses (ms). */
const repeat = async (minPause: number, maxPause: number, work: () => unknown): Promise<void> => {
  for (;;) {
    const pause = between(random, minPause, maxPause);
    if (Date.now() + pause > end) return;
    await sleep(pause);
    await work();
  }
};
await Promise.all([
  repeat(200, 1_000, changeItem),
  repeat(2_000, 8_000, injectFault),
  repeat(1_000, 6_000, () => fleet.killOne(random)),
  repeat(15_000, 40_000, async () => {
    const server = pick(random, redis === null ? [postgres] : [postgres, redis]);
    const forMs = random() < 0.2 ? 60_000 : between(random, 1_000, 15_000);
    const how = random() < 0.5 ? 'crash' : 'freeze';
    log(`${server.name}: ${how} for ${Math.round(forMs / 1000)} s`);
    outages++;
    await server[how](forMs);
  }),
]);

log('chaos is over: waiting until every seller has been mirrored again');
simulator.faults.clear();
const chaosEnd = new Date();
let allMirrored = false;
for (const deadline = Date.now() + 300_000; !allMirrored && Date.now() < deadline;) {
  await sleep(1_000);
  allMirrored = await withClient(postgres.url, areAllMirrored);
}
log(`waited ${Math.round((Date.now() - chaosEnd.getTime()) / 1000)} s`);
const exitCodes = await fleet.stop();
const { listed, differences, runs, jobsDoneTwice } = await withClient(postgres.url, compare);
const requests = simulator.requestCount;
await simulator.close();
await soak.end(
  {
    minutes: options.minutes,
    marketplace: {
      sellers: sellers.length,
      changes,
      faults,
      requests,
      listed,
    },
    kills: fleet.kills,
    outages,
    logLines: fleet.lines,
    runs,
    jobsDoneTwice,
    crashes: fleet.crashes,
    keyInLogs: fleet.leaks.length,
    exitCodes,
    allMirrored,
    differences,
  },
  allMirrored &&
    differences.length === 0 &&
    fleet.leaks.length === 0 &&
    exitCodes.every((code) => code === 0),
);

/** Changes, adds or removes one item of one seller. */
function changeItem(): void {
  changes++;
  const { catalogue } = pick(random, sellers);
  const listed = [...catalogue.truth()];
  const { id } = pick(random, listed);
  const what = random();
  if (what < 0.6) catalogue.change(id, { priceRegularCents: Math.floor(random() * 10_000) });
  else if (what < 0.8) catalogue.change(id, { name: `Renamed ${changes}` });
  else if (what < 0.9 && listed.length > ITEMS / 2) catalogue.remove(id);
  else catalogue.add({ ...pick(random, listed), id: nextId++ });
}

/** Makes the next reply to one operation fail. */
function injectFault(): void {
  faults++;
  const operation = pick(random, ['account', 'list', 'item'] as const);
  simulator.faults.next(operation, pick(random, FAULTS));
}

/** Whether every seller has a successful run of items that began after the chaos. */
async function areAllMirrored(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ fresh: number }>(
    `SELECT count(DISTINCT seller_id)::int AS fresh FROM mirror.runs
      WHERE kind = 'items' AND state = 'succeeded' AND started_at > $1`,
    [chaosEnd],
  );
  return rows[0]?.fresh === sellers.length;
}

/** Compares each seller's live items with the marketplace's list. Differences are sentences. */
async function compare(client: Client) {
  const differences: string[] = [];
  let listed = 0;
  for (const { username, catalogue } of sellers) {
    const { rows } = await client.query<{ id: string; text: string }>(
      `SELECT item_id AS id, name || ' ' || (price_regular * 100)::bigint AS text
         FROM mirror.items WHERE seller_id = $1 AND state = 'live'`,
      [username],
    );
    const stored = new Map(rows.map(({ id, text }) => [Number(id), text]));
    for (const { id, name, priceRegularCents } of catalogue.truth()) {
      listed++;
      const [expected, found] = [`${name} ${priceRegularCents}`, stored.get(id)];
      stored.delete(id);
      if (found === expected) continue;
      differences.push(`${username} ${id}: "${found ?? 'missing'}", not "${expected}"`);
    }
    for (const id of stored.keys()) differences.push(`${username} ${id}: live, but not listed`);
  }
  const { rows: runs } = await client.query<{ what: string; number: number }>(
    `SELECT kind || ' ' || state AS what, count(*)::int AS number FROM mirror.runs
      GROUP BY 1 ORDER BY 1`,
  );
  const { rows: twice } = await client.query<{ number: number }>(
    `SELECT count(*)::int AS number FROM (
       SELECT FROM mirror.runs WHERE kind = 'items' AND state = 'succeeded' AND job_id IS NOT NULL
        GROUP BY job_id HAVING count(*) > 1) AS twice`,
  );
  return {
    listed,
    differences,
    jobsDoneTwice: twice[0]?.number ?? 0,
    runs: Object.fromEntries(runs.map(({ what, number }) => [what, number])),
  };
}
