/** Audits a long list while calls fail, the key is revoked and everything is killed; compares with the truth. */
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type * as SimulatorModule from '../../../src/simulator/index.js';
import { product } from '../../product.js';
import { Fleet } from '../fleet.js';
import { keyOf } from '../market.js';
import { mulberry } from '../random.js';
import { startPostgres, startRedis } from '../servers.js';
import { AuditWatch, compare, inDatabase, inRedis, occurrences } from './compare.js';
import { listText, makeCodes } from './known-codes.js';
import { Person, pursue } from './person.js';
import { Weather, stretchesOf } from './weather.js';

const USAGE = `npm run soak:codes -- [--codes 20000] [--queue redis|postgres] [--seed 1] [--faults 5]
                      [--per-minute 0] [--minutes 30]
Audits a list of codes whose truth is known. Of the calls 5 % meet a fault; for stretches of time all do,
among them some in which the key is revoked or sells nothing. Three workers and the command that
watches are killed at random. At the end each code must have the right verdict, and just one.
Left out is what no rule can tell from a true denial: a single call that is answered as if the key were
wrong, while those before and after it are answered well.`;

const { values } = parseArgs({
  options: {
    codes: { type: 'string', default: '20000' },
    queue: { type: 'string', default: 'redis' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    faults: { type: 'string', default: '5' },
    'per-minute': { type: 'string', default: '0' },
    minutes: { type: 'string', default: '30' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`${USAGE}\n`);
  process.exit(0);
}
const { startSimulator, seededCatalogue } = (await product(
  'simulator/index.js',
)) as typeof SimulatorModule;

/** Without a verdict for so long, a person presses Ctrl-C and goes on anew. */
const STILL_MS = 60_000;
/** All workers together. */
const CALLS_OF_STRETCH = 400;
const KEY = keyOf('ada');

const random = mulberry(Number(values.seed));
const say = (text: string): void => {
  process.stderr.write(`${new Date().toISOString().slice(11, 19)} ${text}\n`);
};
const began = performance.now();
const folder = mkdtempSync(join(tmpdir(), 'seller-mirror-soak-codes-'));
const known = makeCodes(Number(values.codes), random);
const seller = { key: KEY, username: 'ada', catalogue: known.catalogue, purchases: known.own };
const asked = { validate: 0, account: 0, other: 0 };
const simulator = await startSimulator({
  profile: 'field-2',
  sellers: [
    seller,
    {
      key: keyOf('bob'),
      username: 'bob',
      catalogue: seededCatalogue({ seed: 8, count: 60 }),
      purchases: known.others,
    },
  ],
  onAnswered: ({ operation }) => {
    asked[operation === 'validate' || operation === 'account' ? operation : 'other']++;
  },
});
const weather = await Weather.over(simulator, random, say);
const postgres = await startPostgres();
const redis = values.queue === 'redis' ? await startRedis() : null;
const env: NodeJS.ProcessEnv = {
  PATH: process.env['PATH'],
  HOME: folder,
  DATABASE_URL: postgres.url,
  ...(redis === null ? {} : { REDIS_URL: redis.url }),
  MARKETPLACE_URL: simulator.url,
  MARKETPLACE_API_KEY: KEY,
  REQUESTS_PER_MINUTE: values['per-minute'],
  HEALTH_LISTEN: 'off',
  LOG_FORMAT: 'json',
  SHUTDOWN_TIMEOUT: '10',
};
const list = join(folder, 'list.csv');
const result = join(folder, 'result.csv');
const [fleetLog, personLog] = [join(folder, 'fleet.log'), join(folder, 'person.log')];
writeFileSync(list, listText(known.lines));
const person = new Person(env, folder, (text) => appendFileSync(personLog, text));
say(`seed ${values.seed}, ${values.queue}; logs in ${folder}`);
const { code: ready, stderr: whyNot } = await person.type(['migrate']);
if (ready !== 0) throw new Error(whyNot);
const fleet = new Fleet(['worker', 'worker', 'worker'], env, folder, fleetLog, [KEY]);
const watch = await AuditWatch.open(postgres.url);
weather.begin(Number(values.faults));

const over = new AbortController();
const untilOver = async (condition: () => boolean): Promise<boolean> => {
  while (!over.signal.aborted && !condition()) await sleep(50);
  return !over.signal.aborted;
};
/** Paced by calls and not by time, so that a slow machine gets as much done between two of them. */
const everyFewCalls = async (least: number, most: number, work: () => void): Promise<void> => {
  for (;;) {
    const due = simulator.requestCount + weather.between(least, most);
    if (!(await untilOver(() => simulator.requestCount >= due))) return;
    work();
  }
};
const stretches: string[] = [];
const badTimes = async (): Promise<void> => {
  for (const { name, at, seconds, begin, end } of stretchesOf(simulator, seller)) {
    if (!(await untilOver(() => watch.share >= at))) return;
    const [from, calls] = [performance.now(), simulator.requestCount];
    say(`${name}; ${Math.round(100 * watch.share)} % settled`);
    begin();
    // So long that every worker that goes on meets it, or that none goes on any more.
    await untilOver(() => {
      const [took, made] = [performance.now() - from, simulator.requestCount - calls];
      return took > 3 * seconds * 1_000 || (took > seconds * 1_000 && made >= CALLS_OF_STRETCH);
    });
    end();
    const lasted = Math.round((performance.now() - from) / 1000);
    stretches.push(`${name}: ${lasted} s, ${simulator.requestCount - calls} calls`);
    watch.touch();
  }
};
const mendStandstill = async (): Promise<void> => {
  while (await untilOver(() => watch.stillMs > STILL_MS)) {
    say('nothing moves: Ctrl-C, and on with it');
    watch.touch();
    person.interrupt();
  }
};
const patience = AbortSignal.timeout(Number(values.minutes) * 60_000);
const chaos = [
  everyFewCalls(100, 1_100, () => fleet.killOne(random)),
  everyFewCalls(300, 2_500, () => person.kill()),
  mendStandstill(),
  badTimes(),
];
const pursued = await pursue(person, list, result, patience);
over.abort();
await Promise.all(chaos);
const seconds = Math.round((performance.now() - began) / 1000);
say(`${pursued.done ? 'done' : 'given up'} after ${seconds} s`);
const exitCodes = await fleet.stop();

const csv = pursued.done ? readFileSync(result, 'utf8') : '';
const { differences, ...compared } = await compare(postgres.url, known, csv);
const calls = asked.validate + asked.account + asked.other;
const logs = readFileSync(fleetLog, 'utf8');
const codesInLogs =
  occurrences(logs, []) +
  [...new Set(logs.match(/[0-9a-f-]{36,37}/gi))].filter((word) => known.codes.has(word)).length;
const keyFound = {
  workerLogs: fleet.leaks.length,
  commandOutput: occurrences(readFileSync(personLog, 'utf8'), [KEY]),
  result: occurrences(csv, [KEY]),
  database: await inDatabase(postgres.url, KEY),
  redis: redis === null ? null : await inRedis(redis.url, [KEY]),
};
const keys = fleet.leaks.length + keyFound.commandOutput + keyFound.result + (keyFound.redis ?? 0);
const sound =
  pursued.done &&
  differences.length === 0 &&
  keys + Object.keys(keyFound.database).length + codesInLogs + weather.elsewhere === 0 &&
  simulator.defects.length === 0 &&
  exitCodes.every((code) => code === 0);
const kinds: Record<string, number> = {};
for (const { kind } of known.codes.values()) kinds[kind] = (kinds[kind] ?? 0) + 1;
process.stdout.write(
  `${JSON.stringify(
    {
      seed: Number(values.seed),
      queue: values.queue,
      seconds,
      list: { lines: known.lines.length, codes: known.codes.size, kinds },
      ...compared,
      calls: {
        ...asked,
        all: calls,
        perCode: calls / known.codes.size,
        counted: await watch.apiCalls(),
      },
      kills: { workers: fleet.kills, commands: person.kills },
      pursued,
      commands: person.commands,
      stretches,
      keyRevocations: stretches.filter((name) => name.startsWith('key revoked')).length,
      faults: { all: weather.total, byKind: weather.faults },
      keyFound,
      codesInLogs,
      requestsElsewhere: weather.elsewhere,
      logLines: fleet.lines,
      unaskedEnds: fleet.crashes,
      exitCodes,
      differences,
    },
    null,
    2,
  )}\n`,
);
fleet.abandon();
await watch.close();
await weather.close();
await simulator.close();
await redis?.close();
await postgres.close();
if (sound) rmSync(folder, { recursive: true, force: true });
process.exit(sound ? 0 : 1);
