import { describe, expect, it } from 'vitest';
import { fileWith, run, settings, start } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
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
  it.each([1, 2])(
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
          if (--left === 0 && kills < 6) running.process.kill('SIGKILL');
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
});
