/** Audits a long list while calls fail, the key is revoked and everything is killed; compares with the truth. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { seededCatalogue, startSimulator } from '#product/simulator/index.js';
import { keyOf } from '../market.js';
import { Fleet, Person } from '../processes.js';
import { between, openStage, say } from '../stage.js';
import { pursue } from './audit.js';
import { compare, inDatabase, inRedis, occurrences } from './compare.js';
import { listText, makeCodes } from './known-codes.js';
import { FaultyCalls, stretchesOf } from './faults.js';

const USAGE = `npm run soak:codes -- [--codes 20000] [--queue redis|postgres] [--seed 1] [--faults 5]
                      [--per-minute 0] [--minutes 30]
Audits a list of codes whose truth is known. Of the calls 5 % meet a fault; for stretches of time all do,
among them some in which the key is revoked or sells nothing. Three workers and the command that
watches are killed at random. At the end each code must have the right verdict, and just one.
Left out is what no rule can tell from a true denial: a single call that is answered as if the key were
wrong, while those before and after it are answered well.`;

/** After so long without a verdict, a person presses Ctrl-C and starts over. */
const STILL_MS = 60_000;
/** All workers together. */
const CALLS_OF_STRETCH = 400;
const KEY = keyOf('ada');

const defaults = { codes: 20_000, faults: 5, 'per-minute': 0, minutes: 30 };
const stage = await openStage(USAGE, defaults);
const { options, random, folder, postgres, redis } = stage;
const began = performance.now();
const known = makeCodes(options.codes, random);
const seller = { key: KEY, username: 'ada', catalogue: known.catalogue, purchases: known.own };
const other = {
  key: keyOf('bob'),
  username: 'bob',
  purchases: known.others,
  catalogue: seededCatalogue({ seed: 8, count: 60 }),
};
const asked = { validate: 0, account: 0, other: 0 };
const simulator = await startSimulator({
  profile: 'field-2',
  sellers: [seller, other],
  onAnswered: ({ operation }) => {
    asked[operation === 'validate' || operation === 'account' ? operation : 'other']++;
  },
});
const env = {
  ...stage.env,
  MARKETPLACE_URL: simulator.url,
  MARKETPLACE_API_KEY: KEY,
  REQUESTS_PER_MINUTE: String(options['per-minute']),
};
const pathOf = (name: string): string => join(folder, name);
const [list, result] = [pathOf('list.csv'), pathOf('result.csv')];
const [fleetLog, personLog] = [pathOf('fleet.log'), pathOf('person.log')];
writeFileSync(list, listText(known.lines));
const person = new Person(env, personLog);
const { code: ready, stderr: whyNot } = await person.type(['migrate']);
if (ready !== 0) throw new Error(whyNot);
const fleet = new Fleet(['worker', 'worker', 'worker'], env, fleetLog, [KEY]);
const client = new Client(postgres.url);
await client.connect();
const faulty = new FaultyCalls(simulator, random, say);
await faulty.begin(options.faults);

const over = new AbortController();
const untilOver = async (condition: () => boolean): Promise<boolean> => {
  while (!over.signal.aborted && !condition()) await sleep(50);
  return !over.signal.aborted;
};
/** Paced by calls and not by time, so that a slow machine gets as much done between two of them. */
const everyFewCalls = async (least: number, most: number, work: () => void): Promise<void> => {
  for (;;) {
    const due = simulator.requestCount + between(random, least, most);
    if (!(await untilOver(() => simulator.requestCount >= due))) return;
    work();
  }
};
/** How far the audit in hand is: the share of its codes that are settled, and when that last grew. */
const audit = { share: 0, movedAt: performance.now() };
const watchAudit = async (): Promise<void> => {
  while (!over.signal.aborted) {
    const { rows } = await client.query<{ share: number }>(
      `SELECT 1 - pending / greatest(codes, 1)::float8 AS share FROM mirror.audits
        ORDER BY audit_id DESC LIMIT 1`,
    );
    const share = rows[0]?.share ?? 0;
    if (share !== audit.share) Object.assign(audit, { share, movedAt: performance.now() });
    await sleep(250);
  }
};
const stretches: string[] = [];
const badTimes = async (): Promise<void> => {
  for (const { name, at, seconds, begin, end } of stretchesOf(simulator, seller)) {
    if (!(await untilOver(() => audit.share >= at))) return;
    const [from, calls] = [performance.now(), simulator.requestCount];
    say(`${name}; ${Math.round(100 * audit.share)} % settled`);
    begin();
    // So long that every worker that goes on meets it, or that none goes on any more.
    await untilOver(() => {
      const [took, made] = [performance.now() - from, simulator.requestCount - calls];
      return took > 3 * seconds * 1_000 || (took > seconds * 1_000 && made >= CALLS_OF_STRETCH);
    });
    end();
    const lasted = Math.round((performance.now() - from) / 1000);
    stretches.push(`${name}: ${lasted} s, ${simulator.requestCount - calls} calls`);
    audit.movedAt = performance.now();
  }
};
const mendStandstill = async (): Promise<void> => {
  while (await untilOver(() => performance.now() - audit.movedAt > STILL_MS)) {
    say('nothing moves: Ctrl-C, and on with it');
    audit.movedAt = performance.now();
    person.interrupt();
  }
};
const patience = AbortSignal.timeout(options.minutes * 60_000);
const chaos = [
  everyFewCalls(100, 1_100, () => fleet.killOne(random)),
  everyFewCalls(300, 2_500, () => person.kill()),
  mendStandstill(),
  badTimes(),
  watchAudit(),
];
const pursued = await pursue(person, list, result, patience);
over.abort();
await Promise.all(chaos);
const seconds = Math.round((performance.now() - began) / 1000);
say(`${pursued.done ? 'done' : 'given up'} after ${seconds} s`);
const exitCodes = await fleet.stop();

const csv = pursued.done ? readFileSync(result, 'utf8') : '';
const { differences, ...compared } = await compare(client, known, csv);
const counted = await client.query<{ calls: number }>(
  'SELECT coalesce(sum(api_calls), 0)::int AS calls FROM mirror.audits',
);
const calls = asked.validate + asked.account + asked.other;
const words = new Set(readFileSync(fleetLog, 'utf8').match(/[0-9a-f-]{36,37}/gi));
const codesInLogs = [...words].filter((word) => known.codes.has(word)).length;
const keyFound = {
  workerLogs: fleet.leaks.length,
  commandOutput: occurrences(readFileSync(personLog, 'utf8'), KEY),
  result: occurrences(csv, KEY),
  database: await inDatabase(client, KEY),
  redis: redis === null ? null : inRedis(redis, KEY),
};
const { database: inTables, ...inTexts } = keyFound;
const sound =
  pursued.done &&
  [differences, Object.keys(inTables), simulator.defects].every(({ length }) => length === 0) &&
  [...Object.values(inTexts), codesInLogs, faulty.elsewhere].every((found) => (found ?? 0) === 0) &&
  exitCodes.every((code) => code === 0);
const kinds: Record<string, number> = {};
for (const { kind } of known.codes.values()) kinds[kind] = (kinds[kind] ?? 0) + 1;
await client.end();
await faulty.close();
await simulator.close();
if (sound) rmSync(folder, { recursive: true, force: true });
await stage.end(
  {
    seconds,
    list: { lines: known.lines.length, codes: known.codes.size, kinds },
    ...compared,
    calls: {
      ...asked,
      all: calls,
      perCode: calls / known.codes.size,
      counted: counted.rows[0]?.calls,
    },
    kills: { workers: fleet.kills, commands: person.kills },
    pursued,
    commands: person.commands,
    stretches,
    keyRevocations: stretches.filter((name) => name.startsWith('key revoked')).length,
    faults: {
      all: Object.values(faulty.faults).reduce((sum, one) => sum + one, 0),
      byKind: faulty.faults,
    },
    keyFound,
    codesInLogs,
    requestsElsewhere: faulty.elsewhere,
    logLines: fleet.lines,
    unaskedEnds: fleet.crashes,
    exitCodes,
    differences,
  },
  sound,
);
