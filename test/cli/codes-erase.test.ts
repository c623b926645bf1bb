import { expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { codesMarket, codesOf, fileWith, printed, run, settings } from './support.js';

const mirror = useMirror();

it('codes erase removes a code’s text and its lines’ own columns; sums stay, and it is never asked again', async () => {
  const sim = await codesMarket(mirror(), { purchases: 20 });
  const env = settings(mirror().databaseUrl, sim.url);
  const [, code = '', other = ''] = codesOf(sim, 3);
  await printed(['sync'], env);
  const list = fileWith(`mail,code\nann@example.com,${code}\nbob@example.com,${other}\n`);
  await printed(['codes', 'check', list], env);
  const figures = () =>
    mirror().rows(
      'SELECT sum(purchases)::int AS purchases, sum(revenue) AS revenue FROM reporting.revenue_by_month',
    );
  const before = await figures();
  expect(await printed(['codes', 'erase', code], env)).toMatch(
    /^main · erased as code \d+, with 1 line of lists\n$/,
  );
  expect(await figures()).toEqual(before);
  // Nowhere in the store: every table, as text.
  const tables = await mirror().rows<{ name: string }>(
    `SELECT format('%I.%I', table_schema, table_name) AS name FROM information_schema.tables
      WHERE table_schema IN ('mirror', 'bullmq') AND table_type = 'BASE TABLE'`,
  );
  for (const { name } of tables) {
    for (const text of [code, 'ann@example.com']) {
      const found = await mirror().rows(`SELECT FROM ${name} t WHERE strpos(t::text, $1) > 0`, [
        text,
      ]);
      expect(found, `${name} has ${text}`).toEqual([]);
    }
  }
  const exported = await printed(['audits', 'export', '1', '--out', '-'], env);
  expect(exported).toContain('bob@example.com');
  expect(exported).not.toContain('ann@example.com');
  const asked = sim.log.length;
  await printed(['codes', 'recheck', '--older-than', '0s'], env);
  const texts = sim.log.slice(asked).map(({ parameters }) => parameters['purchase_code'] ?? '');
  expect(texts).toContain(other);
  expect(texts.filter((text) => text === code || text.includes('erased'))).toEqual([]);
  const again = await run(['codes', 'erase', code], env);
  expect(again.stderr).toMatch(/the store does not have this code/);
});
