import { once } from 'node:events';
import { Pool } from 'undici';
import { createToken } from '#product/service/tokens-store.js';
import { openDb } from '#product/db/db.js';
import { Secret } from '#product/domain/secret.js';
import { unlimitedBudget } from '#product/marketplace/budget.js';
import { createMarketplace } from '#product/marketplace/client.js';
import { seededPurchases } from '#product/simulator/index.js';
import { startProgram, type Settings } from './children.js';
import { BenchDatabase } from './database.js';
import { withMarketplace } from './marketplace.js';
import { bounded, information, median, milliseconds, perSecond, type Line } from './table.js';

const KNOWN = 1_000;
const CODES = 3_000;
const CALLERS = 16;
/** Known codes asked by all callers together. */
const ANSWERS = 40_000;
/** Codes that are asked for the first time, one after another. */
const FIRST = 300;

/** Targets: answers a second, and milliseconds. */
const LEAST_RATE = 2_000;
const P99_MS = 20;
const BEYOND_CALL_MS = 20;

/** Measures the look-up API: codes that are known, and the first answer about others, beside one marketplace call. */
export async function apiLines(): Promise<Line[]> {
  const database = await BenchDatabase.open();
  try {
    return await withMarketplace({ items: 20, codes: CODES }, async ({ url, key }) => {
      const purchases = seededPurchases({ seed: 1, count: CODES });
      const codes = Array.from({ length: CODES }, (_, n) => purchases.codeAt(n));
      const settings = {
        HOME: database.folder,
        DATABASE_URL: database.url,
        MARKETPLACE_URL: url,
        MARKETPLACE_API_KEY: key,
        REQUESTS_PER_MINUTE: '0',
        API_LISTEN: '127.0.0.1:0',
        LOG_FORMAT: 'json',
      };
      const marketplace = createMarketplace({
        baseUrl: new URL(url),
        key: new Secret(key),
        budget: unlimitedBudget,
      });
      try {
        return await withApi(settings, async (ask) => [
          ...(await firstAnswers(ask, codes.slice(KNOWN), (code) => marketplace.validate(code))),
          ...(await knownAnswers(ask, codes.slice(0, KNOWN))),
        ]);
      } finally {
        await marketplace.close();
      }
    });
  } finally {
    await database.close();
  }
}

/** Asks about a code. @returns the verdict */
type Ask = (code: string) => Promise<string>;

async function withApi<T>(settings: Settings, work: (ask: Ask) => Promise<T>): Promise<T> {
  const db = openDb(settings['DATABASE_URL'] ?? '', 'bench');
  const token = await createToken(db, 'bench', null);
  await db.close();
  let onUrl: (url: string) => void = () => undefined;
  const started = new Promise<string>((resolve) => (onUrl = resolve));
  const child = startProgram(['api'], settings, (line) => {
    const address = /"api":"(http[^"]+)"/.exec(line)?.[1];
    if (address !== undefined) onUrl(address);
  });
  const ended = once(child, 'exit');
  const url = await Promise.race([started, ended.then(() => null)]);
  if (url === null) throw new Error('the look-up API did not start');
  const pool = new Pool(url, { connections: CALLERS });
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  try {
    return await work(async (code) => {
      const body = JSON.stringify({ code });
      const reply = await pool.request({
        path: '/v1/codes/check',
        method: 'POST',
        headers,
        body,
      });
      const answer = (await reply.body.json()) as { verdict?: string; error?: string };
      if (reply.statusCode !== 200) throw new Error(`${reply.statusCode}: ${answer.error}`);
      return answer.verdict ?? '';
    });
  } finally {
    await pool.close();
    child.kill('SIGTERM');
    await ended;
  }
}

/** Asks about new codes, by turns through the API and at the marketplace itself. */
async function firstAnswers(
  ask: Ask,
  codes: readonly string[],
  call: (code: string) => Promise<unknown>,
): Promise<Line[]> {
  const own: number[] = [];
  const calls: number[] = [];
  for (let n = 0; own.length < FIRST; n += 2) {
    const [code, other] = [codes[n], codes[n + 1]];
    if (code === undefined || other === undefined) throw new Error('too few codes');
    const started = performance.now();
    await call(other);
    const called = performance.now();
    const verdict = await ask(code);
    if (verdict !== 'valid') continue;
    calls.push(called - started);
    own.push(performance.now() - called);
  }
  const beyond = median(own) - median(calls);
  return [
    information('One call of the marketplace', milliseconds(median(calls))),
    {
      ...bounded('API: first answer about a valid code', beyond, BEYOND_CALL_MS, milliseconds),
      figure: milliseconds(median(own)),
      target: `<= call + ${BEYOND_CALL_MS} ms`,
    },
  ];
}

async function knownAnswers(ask: Ask, codes: readonly string[]): Promise<Line[]> {
  const verdicts = new Map<string, string>();
  for (const code of codes) verdicts.set(code, await ask(code));
  const known = codes.filter((code) => verdicts.get(code) === 'valid');
  const times: number[] = [];
  let asked = 0;
  const lane = async (): Promise<void> => {
    while (asked < ANSWERS) {
      const code = known[asked++ % known.length] ?? '';
      const started = performance.now();
      await ask(code);
      times.push(performance.now() - started);
    }
  };
  const began = performance.now();
  await Promise.all(Array.from({ length: CALLERS }, lane));
  const rate = (times.length * 1000) / (performance.now() - began);
  const sorted = times.toSorted((a, b) => a - b);
  const at = (part: number): number => sorted[Math.floor(part * (sorted.length - 1))] ?? NaN;
  const who = `${CALLERS} callers`;
  return [
    {
      what: `API: known codes, ${who}`,
      figure: perSecond(rate, 'answers'),
      ratio: '',
      target: `>= ${perSecond(LEAST_RATE, 'answers')}`,
      met: rate >= LEAST_RATE,
    },
    information(`API: median of these`, milliseconds(at(0.5))),
    bounded('API: 99 % of these', at(0.99), P99_MS, milliseconds),
  ];
}
