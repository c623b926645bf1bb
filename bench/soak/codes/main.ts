/** Audits a list of known codes while calls fail, the key is revoked and processes are killed. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { seededCatalogue, startSimulator } from '#product/simulator/index.js';
import { keyOf } from '../../marketplace.js';
import { Fleet, Terminal } from '../processes.js';
import { between, log, startSoak } from '../setup.js';
import { auditToEnd } from './audit.js';
import { compare, occurrences, occurrencesInRedis, rowsContaining } from './compare.js';
import { listText, makeCodes } from './known-codes.js';
import { FaultInjector, outagesOf } from './faults.js';

const USAGE = `npm run soak:codes -- [--codes 20000] [--queue redis|postgres] [--seed 1] [--faults 5]
                      [--per-minute 0] [--minutes 30]
Audits a list of known codes. 5 % of the calls fail. During outages all calls fail, or the key is revoked
or sells nothing. Three workers and the watching command are killed at random. At the end each code must
have exactly one verdict, the right one.
One fault is left out, because no rule can distinguish it from a true denial: a single call that is
answered as if the key were wrong, between good calls.`;

/** Time without progress after which the command gets Ctrl-C (ms). */
const STUCK_MS = 120_000;
/** Calls of all workers during an outage. */
const CALLS_PER_OUTAGE = 400;
const KEY = keyOf('ada');

const defaults = { codes: 20_000, faults: 5, 'per-minute': 0, minutes: 30 };
const soak = await startSoak(USAGE, defaults);
const { options, random, folder, postgres, redis } = soak;
const began = performance.now();
const known = makeCodes(options.codes, random);
const seller = { key: KEY, username: 'ada', catalogue: known.catalogue, purchases: known.own };
const other = {
  key: keyOf('bob'),
  username: 'bob',
  purchases: known.others,
  catalogue: seededCatalogue({ seed: 8, count: 60 }),
};
const callsOf = { validate: 0, account: 0, other: 0 };
const simulator = await startSimulator({
  profile: 'field-2',
  sellers: [seller, other],
  onAnswered: ({ operation }) => {
    callsOf[operation === 'validate' || operation === 'account' ? operation : 'other']++;
  },
});
const env = {
  ...soak.env,
  MARKETPLACE_URL: simulator.url,
  MARKETPLACE_API_KEY: KEY,
  REQUESTS_PER_MINUTE: String(options['per-minute']),
};
const pathOf = (name: string): string => join(folder, name);
const [list, result] = [pathOf('list.csv'), pathOf('result.csv')];
const [fleetLog, terminalLog] = [pathOf('fleet.log'), pathOf('terminal.log')];
writeFileSync(list, listText(known.lines));
const terminal = new Terminal(env, terminalLog);
const migrated = await terminal.run(['migrate']);
if (migrated.code !== 0) throw new Error(migrated.stderr);
const fleet = new Fleet(['worker', 'worker', 'worker'], env, fleetLog, [KEY]);
const client = new Client(postgres.url);
await client.connect();
const injector = new FaultInjector(simulator, random, log);
await injector.start(options.faults);

const over = new AbortController();
/** Waits for a condition. @returns false if the soak is over */
const waitFor = async (condition: () => boolean): Promise<boolean> => {
  while (!over.signal.aborted && !condition()) await sleep(50);
  return !over.signal.aborted;
};
/** Paced by calls instead of time, so that slow machines make the same progress in between. */
const everyFewCalls = async (min: number, max: number, work: () => void): Promise<void> => {
  for (;;) {
    const due = simulator.requestCount + between(random, min, max);
    if (!(await waitFor(() => simulator.requestCount >= due))) return;
    work();
  }
};
/** The share of checked codes in the newest audit, its calls, and when either last changed. */
const audit = { share: 0, calls: 0, changedAt: performance.now() };
const watchAudit = async (): Promise<void> => {
  while (!over.signal.aborted) {
    const { rows } = await client.query<{ share: number; calls: number }>(
      `SELECT 1 - pending / greatest(codes, 1)::float8 AS share, api_calls AS calls FROM mirror.audits
        ORDER BY audit_id DESC LIMIT 1`,
    );
    const { share, calls } = rows[0] ?? { share: 0, calls: 0 };
    if (share !== audit.share || calls !== audit.calls) {
      Object.assign(audit, { share, calls, changedAt: performance.now() });
    }
    await sleep(250);
  }
};
const outages: string[] = [];
const runOutages = async (): Promise<void> => {
  for (const { name, at, seconds, begin, end } of outagesOf(simulator, seller, options.minutes)) {
    if (!(await waitFor(() => audit.share >= at))) return;
    const [from, calls] = [performance.now(), simulator.requestCount];
    log(`${name}; ${Math.round(100 * audit.share)} % checked`);
    begin();
    // Ends after every worker has met the outage, or after all have paused.
    await waitFor(() => {
      const [took, made] = [performance.now() - from, simulator.requestCount - calls];
      return took > 3 * seconds * 1_000 || (took > seconds * 1_000 && made >= CALLS_PER_OUTAGE);
    });
    end();
    const lasted = Math.round((performance.now() - from) / 1000);
    outages.push(`${name}: ${lasted} s, ${simulator.requestCount - calls} calls`);
    audit.changedAt = performance.now();
  }
};
const interruptWhenStuck = async (): Promise<void> => {
  while (await waitFor(() => performance.now() - audit.changedAt > STUCK_MS)) {
    log('no progress: pressing Ctrl-C');
    audit.changedAt = performance.now();
    terminal.interrupt();
  }
};
const timeout = AbortSignal.timeout(options.minutes * 60_000);
const chaos = [
  everyFewCalls(100, 1_100, () => fleet.killOne(random)),
  everyFewCalls(300, 2_500, () => terminal.kill()),
  interruptWhenStuck(),
  runOutages(),
  watchAudit(),
];
const audited = await auditToEnd(terminal, list, result, timeout);
over.abort();
await Promise.all(chaos);
const seconds = Math.round((performance.now() - began) / 1000);
log(`${audited.done ? 'done' : 'given up'} after ${seconds} s`);
const exitCodes = await fleet.stop();

const csv = audited.done ? readFileSync(result, 'utf8') : '';
const { differences, ...compared } = await compare(client, known, csv);
const counted = await client.query<{ calls: number }>(
  'SELECT coalesce(sum(api_calls), 0)::int AS calls FROM mirror.audits',
);
const calls = callsOf.validate + callsOf.account + callsOf.other;
const loggedWords = new Set(readFileSync(fleetLog, 'utf8').match(/[0-9a-f-]{36,37}/gi));
const codesInLogs = [...loggedWords].filter((word) => known.codes.has(word)).length;
const keyFound = {
  workerLogs: fleet.leaks.length,
  commandOutput: occurrences(readFileSync(terminalLog, 'utf8'), KEY),
  result: occurrences(csv, KEY),
  database: await rowsContaining(client, KEY),
  redis: redis === null ? null : occurrencesInRedis(redis, KEY),
};
const { database: inTables, ...inTexts } = keyFound;
const passed =
  audited.done &&
  [differences, Object.keys(inTables), simulator.defects].every(({ length }) => length === 0) &&
  [...Object.values(inTexts), codesInLogs, injector.elsewhere].every(
    (found) => (found ?? 0) === 0,
  ) &&
  exitCodes.every((code) => code === 0);
const kinds: Record<string, number> = {};
for (const { kind } of known.codes.values()) kinds[kind] = (kinds[kind] ?? 0) + 1;
await client.end();
await injector.close();
await simulator.close();
await soak.end(
  {
    seconds,
    list: { lines: known.lines.length, codes: known.codes.size, kinds },
    ...compared,
    calls: {
      ...callsOf,
      all: calls,
      perCode: calls / known.codes.size,
      counted: counted.rows[0]?.calls,
    },
    kills: { workers: fleet.kills, commands: terminal.kills },
    audited,
    commands: terminal.commands,
    outages,
    keyRevocations: outages.filter((name) => name.startsWith('key revoked')).length,
    faults: {
      all: Object.values(injector.faults).reduce((sum, one) => sum + one, 0),
      byKind: injector.faults,
    },
    keyFound,
    codesInLogs,
    requestsElsewhere: injector.elsewhere,
    logLines: fleet.lines,
    crashes: fleet.crashes,
    exitCodes,
    differences,
  },
  passed,
);
