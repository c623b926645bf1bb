/** Runs schedulers and workers for a while, kills them and their servers at random, and compares at the end. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { Market, sellersEnvironment } from './market.js';
import { Fleet } from './processes.js';
import { withClient } from './servers.js';
import { openStage, pick, say } from './stage.js';

const USAGE = `npm run soak -- [--minutes 10] [--queue redis|postgres] [--sellers 4] [--workers 3] [--seed 1]
Kills, freezes and crashes everything at random while sellers change their items; at the end the
store must equal the marketplace.`;

const stage = await openStage(USAGE, { minutes: 10, sellers: 4, workers: 3 });
const { options, random, postgres, redis } = stage;
const between = (least: number, most: number): number => least + random() * (most - least);
const market = await Market.open(options.sellers, random);
const { simulator, sellers } = market;
const fleet = new Fleet(
  ['scheduler', 'scheduler', ...Array.from({ length: options.workers }, () => 'worker')],
  {
    ...stage.env,
    ...sellersEnvironment(stage.folder, simulator.url, sellers),
    SYNC_CRON: '*/10 * * * * *',
    REMOVAL_GUARD_PERCENT: '100',
  },
  join(stage.folder, 'fleet.log'),
  sellers.map(({ key }) => key),
);

const end = Date.now() + options.minutes * 60_000;
let outages = 0;
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
  untilEnd(2_000, 8_000, () => market.disturb()),
  untilEnd(1_000, 6_000, () => fleet.killOne(random)),
  untilEnd(15_000, 40_000, async () => {
    const server = pick(random, redis === null ? [postgres] : [postgres, redis]);
    const forMs = random() < 0.2 ? 60_000 : between(1_000, 15_000);
    const how = random() < 0.5 ? 'crash' : 'freeze';
    say(`${server.name}: ${how} for ${Math.round(forMs / 1000)} s`);
    outages++;
    await server[how](forMs);
  }),
]);

say('peace: waiting until every seller was mirrored once more');
simulator.faults.clear();
const peace = new Date();
let settled = false;
for (const patience = Date.now() + 300_000; !settled && Date.now() < patience;) {
  await sleep(1_000);
  settled = await withClient(postgres.url, allMirrored);
}
say(`settled after ${Math.round((Date.now() - peace.getTime()) / 1000)} s`);
const exitCodes = await fleet.stop();
const { listed, differences, runs, jobsDoneTwice } = await withClient(postgres.url, compare);
const requests = simulator.requestCount;
await simulator.close();
await stage.end(
  {
    minutes: options.minutes,
    marketplace: {
      sellers: sellers.length,
      changes: market.changes,
      faults: market.faults,
      requests,
      listed,
    },
    kills: fleet.kills,
    outages,
    logLines: fleet.lines,
    runs,
    jobsDoneTwice,
    unaskedEnds: fleet.crashes,
    keyInLogs: fleet.leaks.length,
    exitCodes,
    settled,
    differences,
  },
  settled &&
    differences.length === 0 &&
    fleet.leaks.length === 0 &&
    exitCodes.every((code) => code === 0),
);

/** Whether every seller has a catalogue run that began in peace and succeeded. */
async function allMirrored(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ fresh: number }>(
    `SELECT count(DISTINCT seller_id)::int AS fresh FROM mirror.runs
      WHERE kind = 'items' AND state = 'succeeded' AND started_at > $1`,
    [peace],
  );
  return rows[0]?.fresh === sellers.length;
}

/** Compares each seller's live items with what is listed; differences are sentences. */
async function compare(client: Client) {
  const differences: string[] = [];
  let listed = 0;
  for (const { username, catalogue } of sellers) {
    const { rows } = await client.query<{ id: string; said: string }>(
      `SELECT item_id AS id, name || ' ' || (price_regular * 100)::bigint AS said
         FROM mirror.items WHERE seller_id = $1 AND state = 'live'`,
      [username],
    );
    const stored = new Map(rows.map(({ id, said }) => [Number(id), said]));
    for (const { id, name, priceRegularCents } of catalogue.truth()) {
      listed++;
      const [said, own] = [`${name} ${priceRegularCents}`, stored.get(id)];
      stored.delete(id);
      if (own !== said)
        differences.push(`${username} ${id}: "${own ?? 'not there'}", not "${said}"`);
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
