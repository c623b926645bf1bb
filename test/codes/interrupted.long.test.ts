import { describe, expect, it } from 'vitest';
import { fileWith, run, settings, start } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { diceOf } from './dice.js';
import { HttpMarket } from './plan/http-market.js';

const mirror = useMirror();

const CODES = Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? `sold-${n}` : `nobody-${n}`));
const valid = new Set([...CODES.filter((code) => code.startsWith('sold')), 'known-1']);

/** A mirrored seller with a known-valid code. */
async function market(seed: number): Promise<{ server: HttpMarket; env: Record<string, string> }> {
  const server = await HttpMarket.start('ada', { valid, items: [5, 6, 7], dice: diceOf(seed) });
  const env = { ...settings(mirror().databaseUrl, server.url, { REQUESTS_PER_MINUTE: '0' }) };
  await run(['sync'], env);
  await run(['codes', 'check', fileWith('known-1'), '--yes'], env);
  server.asked.length = 0;
  return { server, env };
}

async function verdicts(): Promise<Record<string, string>> {
  const rows = await mirror().rows<{ code: string; verdict: string }>(
    'SELECT code, verdict::text AS verdict FROM mirror.purchase_codes WHERE code = ANY($1) AND verdict IS NOT NULL',
    [CODES],
  );
  return Object.fromEntries(rows.map(({ code, verdict }) => [code, verdict]));
}

const TRUTH = Object.fromEntries(
  CODES.map((code) => [code, valid.has(code) ? 'valid' : 'invalid']),
);

describe('a check', () => {
  it.each([1, 2, 3])(
    'that is killed again and again, at any call, ends with every verdict right (seed %i)',
    async (seed) => {
      const { server, env } = await market(seed);
      const dice = diceOf(seed);
      const list = fileWith(CODES.join('\n'));
      let kills = 0;
      for (let isOver = false; !isOver;) {
        const id = await mirror().newestAudit();
        const isNew = kills === 0;
        const args = isNew ? ['codes', 'check', list, '--yes'] : ['audits', 'resume', id];
        const running = start([...args, '--confirm-after', '50ms'], env);
        let left = 1 + Math.floor(dice() * 60);
        server.onCall = () => {
          if (--left === 0 && kills < 12) running.process.kill('SIGKILL');
        };
        const { code, stderr } = await running.ended;
        expect(code, stderr).not.toBe(2);
        isOver = code !== null;
        if (!isOver) kills++;
      }
      expect(kills).toBeGreaterThan(0);
      expect(await verdicts()).toEqual(TRUTH);
    },
    240_000,
  );

  it('counts two denials as a minute apart by the database, when a worker goes on whose clock is 90 s ahead', async () => {
    const { server, env } = await market(1);
    const wait = ['--confirm-after', '3s'];
    const bad = CODES.filter((code) => !valid.has(code));
    const clock = (ms: number): Record<string, string> => {
      const script = `const now = Date.now; Date.now = () => now() + ${ms};`;
      const url = `data:text/javascript,${encodeURIComponent(script)}`;
      return { ...env, NODE_OPTIONS: `--import ${url}` };
    };
    const first = start(
      ['codes', 'check', fileWith(bad.join('\n')), '--yes', ...wait],
      clock(-45_000),
    );
    await until(async () => {
      const [row] = await mirror().rows<{ denied: number }>(
        'SELECT max(denied)::int AS denied FROM mirror.audits',
      );
      return row?.denied === bad.length;
    });
    first.process.kill('SIGKILL');
    await first.ended;
    const id = await mirror().newestAudit();
    await run(['audits', 'resume', id, ...wait], clock(45_000));
    const settled = await verdicts();
    for (const code of bad) {
      expect(settled[code]).toBe('invalid');
      const [one, two] = server.asked.filter(({ form }) => form === code).map(({ at }) => at);
      expect(Number(two) - Number(one)).toBeGreaterThanOrEqual(3_000);
    }
  });
});
