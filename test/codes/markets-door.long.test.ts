import { describe, expect, it } from 'vitest';
import { fileWith, run, settings, start } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { HttpMarket } from './plan/http-market.js';
import { caseOf, type Kind } from './plan/kinds.js';
import { MARKETS } from './plan/markets.js';

const mirror = useMirror();
const WAIT = ['--confirm-after', '50ms'];
/** Markets of each kind. A market takes some three seconds: `MARKETS=20` is for changes of the rules. */
const COUNT = Number(process.env['MARKETS'] ?? 1);
/** Outages pause a check for minutes of real time. */
const QUICK = MARKETS.filter(([name]) => !name.includes('other faults'));

/** A check that asked nothing for so long (ms) after its first call waits for a person. */
const IDLE_MS = 2_000;

/** Runs a check until it ends, or waits for a person who mends the key. */
async function checkWhileAsked(
  server: HttpMarket,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const running = start(args, env);
  let askedAt = Infinity;
  let calls = 0;
  server.onCall = () => {
    calls++;
    askedAt = performance.now();
  };
  const isOver = (): boolean => running.process.exitCode !== null;
  await until(() => isOver() || performance.now() - askedAt > IDLE_MS);
  running.process.kill('SIGKILL');
  const { code, stderr } = await running.ended;
  // 2: the command was not understood.
  expect(code, stderr).not.toBe(2);
  expect(calls).toBeGreaterThan(0);
}

/** Checks the list of one random market through the command, and returns verdicts that are wrong. */
async function wrongIn(kind: Kind, seed: number): Promise<readonly string[]> {
  const { codes, known, market } = caseOf(kind, seed);
  const { valid, items = [], dice } = market;
  const server = await HttpMarket.start('ada', { valid, items, dice });
  const env = settings(mirror().databaseUrl, server.url, { REQUESTS_PER_MINUTE: '0' });
  await run(['sync'], env);
  if (known.length > 0) await run(['codes', 'check', fileWith(known.join('\n')), '--yes'], env);
  server.asked.length = 0;
  server.become(
    market,
    market.last === 'swapped' || JSON.stringify(market.stretches ?? []).includes('swapped'),
  );
  await checkWhileAsked(
    server,
    ['codes', 'check', fileWith(codes.join('\n')), '--yes', ...WAIT],
    env,
  );
  const rows = await mirror().rows<{ code: string; verdict: string }>(
    'SELECT code, verdict::text AS verdict FROM mirror.purchase_codes WHERE verdict IS NOT NULL',
  );
  await mirror().reset();
  return rows
    .filter(({ code, verdict }) => (verdict === 'valid') !== valid.has(code))
    .map(({ code, verdict }) => `seed ${seed}: ${code} ${verdict}`);
}

describe(`through \`codes check\`, on ${COUNT} random markets of each kind`, () => {
  it.each(QUICK)(
    '%s: no verdict is wrong',
    async (_, kind) => {
      const wrong: string[] = [];
      let markets = 0;
      for (let seed = 1; seed <= COUNT; seed++) {
        const some = await wrongIn(kind, seed);
        wrong.push(...some);
        if (some.length > 0) markets++;
      }
      // Chance may deny a valid code four times.
      const allowed = kind.deniedShare === undefined ? 0 : 1;
      expect(markets <= allowed ? [] : wrong).toEqual([]);
    },
    600_000,
  );
});
