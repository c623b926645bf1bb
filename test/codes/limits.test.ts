import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { Purchases, seededCatalogue } from '../../src/simulator/index.js';
import { cellsOf, fileWith, freePath, settings, start } from '../cli/support.js';
import { KEY, useMirror } from '../support/mirror.js';

const mirror = useMirror();

it('the budget is shared by parallel checks, never exceeded, and spent almost only on codes', async () => {
  const catalogue = seededCatalogue({ seed: 3, count: 20 });
  const purchases = new Purchases({ seed: 11, count: 500 });
  // A hundred a second, with room for a machine that pauses for a third of a second and then sends what was due.
  const sim = await mirror().simulate({
    sellers: [{ key: KEY, username: 'ada', catalogue, purchases }],
    requestsPerMinute: 330,
    limit: { windowMs: 3_000 },
  });
  const env = settings(mirror().databaseUrl, sim.url, { REQUESTS_PER_MINUTE: '6000' });
  const isSold = (code: string): boolean => purchases.find(code, catalogue)?.state === 'valid';
  const codes = Array.from({ length: 300 }, (_, n) =>
    n % 10 === 9 ? `nobody-bought-${n}` : purchases.codeAt(n),
  );
  const check = async (list: readonly string[]): Promise<void> => {
    const out = freePath('csv');
    const running = start(
      ['codes', 'check', fileWith(list.join('\n')), '--yes', '--out', out],
      env,
    );
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(0);
    const verdicts = cellsOf(readFileSync(out, 'utf8'))
      .slice(1)
      .map((cells) => cells[1]);
    expect(verdicts).toEqual(list.map((one) => (isSold(one) ? 'valid' : 'invalid')));
  };
  await Promise.all([check(codes.slice(0, 150)), check(codes.slice(150))]);
  const denied = codes.filter((code) => !isSold(code));
  // A denied code is asked up to four times; proofs are 12 % of the asks in windows, 2 % of the list, and a few.
  const asks = codes.length + 3 * denied.length;
  const proofs = 0.12 * 3 * denied.length + 0.02 * codes.length + 2 * 8;
  expect(sim.requestCount).toBeLessThanOrEqual(asks + proofs);
  expect(sim.log.filter(({ status }) => status === 429)).toEqual([]);
});
