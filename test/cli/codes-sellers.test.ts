import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Purchases, seededCatalogue } from '../../src/simulator/index.js';
import { KEY, useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import {
  cellsOf,
  fileWith,
  folder,
  freePath,
  run,
  SECOND_KEY,
  start,
  twoSellers,
} from './support.js';

const mirror = useMirror();

/** Two sellers of one marketplace, each with own purchases. */
async function market(secondKey = SECOND_KEY) {
  const shop = (key: string, username: string, seed: number) => {
    const catalogue = seededCatalogue({ seed, count: 12 });
    const purchases = new Purchases({ seed, count: 50 });
    const sold = Array.from({ length: 50 }, (_, at) => purchases.codeAt(at));
    const valid = sold.filter((code) => purchases.find(code, catalogue)?.state === 'valid');
    return { key, username, catalogue, purchases, valid };
  };
  const [ada, bob] = [shop(KEY, 'ada', 3), shop(SECOND_KEY, 'bob', 4)];
  const sim = await mirror().simulate({ sellers: [ada, bob] });
  const env = twoSellers(mirror().databaseUrl, sim.url, secondKey);
  const check = (...args: string[]) => run(['codes', 'check', ...args], env);
  /** How often the code was asked, since the simulator started. */
  const asked = (code: string) =>
    sim.log.filter(({ parameters }) => parameters['purchase_code'] === code).length;
  return { sim, env, ofFirst: ada.valid, ofSecond: bob.valid, check, asked };
}

/** Every verdict that is stored. */
const verdicts = () =>
  mirror().rows<{ seller: string; code: string; verdict: string }>(
    `SELECT seller_id AS seller, code, verdict FROM mirror.purchase_codes
      WHERE verdict IS NOT NULL ORDER BY code, seller_id`,
  );

it('asks one seller after another, who sold a code the last time first, and says who sold it; a code is invalid after a second check with each', async () => {
  const { sim, ofFirst, ofSecond, check, asked } = await market();
  const [one = '', two = ''] = [ofFirst[0], ofSecond[0]];
  const { code, stdout } = await check(two, one, 'never-sold-1', '--json', '--fail-on', 'invalid');
  expect(code).toBe(5);
  expect(JSON.parse(stdout)).toMatchObject([
    { code: two, verdict: 'valid', seller: 'second' },
    { code: one, verdict: 'valid', seller: 'first' },
    { code: 'never-sold-1', verdict: 'invalid', seller: null },
  ]);
  // A denial of another seller is no verdict.
  const stored = await verdicts();
  expect(stored).toHaveLength(4);
  expect(stored).toEqual(
    expect.arrayContaining([
      { seller: 'second', code: two, verdict: 'valid' },
      { seller: 'first', code: one, verdict: 'valid' },
      { seller: 'first', code: 'never-sold-1', verdict: 'invalid' },
      { seller: 'second', code: 'never-sold-1', verdict: 'invalid' },
    ]),
  );
  const before = asked(two);
  const calls = sim.requestCount;
  const young = await check(two, '--max-age', '7d');
  expect(young.stdout).toMatch(/✓ \S+ · valid\n\s+seller\s+second\n/);
  expect(sim.requestCount).toBe(calls);
  await check(two);
  expect(asked(two)).toBe(before + 1);
});

describe('a list', () => {
  const listOf = (...codes: string[]) =>
    fileWith(['name,code', ...codes.map((code, n) => `buyer ${n},${code}`)].join('\n'));

  it('is asked of one seller after another, and its one result says who sold each code', async () => {
    const { sim, ofFirst, ofSecond, check } = await market();
    const [one = '', two = ''] = [ofFirst[0], ofSecond[0]];
    const out = freePath('csv');
    const list = listOf(two, one, 'never-sold-1', '', two);
    const { code, stdout, stderr } = await check(list, '--yes', '--out', out);
    expect(code, stderr).toBe(0);
    const [header = [], ...rows] = cellsOf(readFileSync(out, 'utf8'));
    expect(header.slice(0, 4)).toEqual(['name', 'code', 'seller', 'verdict']);
    expect(rows.map((cells) => cells.slice(0, 4))).toEqual([
      ['buyer 0', two, 'second', 'valid'],
      ['buyer 1', one, 'first', 'valid'],
      ['buyer 2', 'never-sold-1', '', 'invalid'],
      ['buyer 3', '', '', 'rejected'],
      ['buyer 4', two, 'second', 'valid'],
    ]);
    expect(stdout).toContain(`result: ${out}`);
    expect(await verdicts()).toEqual(
      [
        { seller: 'first', code: 'never-sold-1', verdict: 'invalid' },
        { seller: 'second', code: 'never-sold-1', verdict: 'invalid' },
        { seller: 'first', code: one, verdict: 'valid' },
        { seller: 'second', code: two, verdict: 'valid' },
      ].sort((a, b) => (a.code < b.code ? -1 : Number(a.code > b.code)) || 0),
    );
    const lines = await mirror().rows(
      `SELECT seller_id AS seller, lines, codes, valid, invalid FROM mirror.audits ORDER BY audit_id`,
    );
    expect(lines).toEqual([
      { seller: 'first', lines: 3, codes: 2, valid: 1, invalid: 1 },
      { seller: 'second', lines: 3, codes: 2, valid: 1, invalid: 1 },
    ]);

    // Stored answers come first: nothing is asked for that any seller is known to have sold.
    const calls = sim.requestCount;
    const sold = listOf(one, two);
    const args = ['--max-age', '7d', '--fail-on', 'invalid', '--out', '-', '--format', 'json'];
    const json = await check(sold, ...args);
    expect(json.code, json.stderr).toBe(0);
    expect(JSON.parse(json.stdout)).toMatchObject([
      { verdict: 'valid', seller: 'first' },
      { verdict: 'valid', seller: 'second' },
    ]);
    expect(sim.requestCount).toBe(calls);
    const told = ['--yes', '--max-age', '7d', '--json', '--fail-on', 'invalid'];
    const bad = await check(listOf('never-sold-1'), ...told);
    expect(bad.code, bad.stderr).toBe(5);
    expect(JSON.parse(bad.stdout)).toMatchObject({
      audits: [{ audit: { seller_id: 'first' } }, { audit: { seller_id: 'second' } }],
      out: null,
    });
  });

  it('asks the other sellers about a code that the one who sold it denies now', async () => {
    const { sim, ofSecond, check, asked } = await market();
    const list = listOf(ofSecond[0] ?? '');
    await check(list);
    const before = asked(ofSecond[0] ?? '');
    sim.seller(SECOND_KEY).purchases.setState(ofSecond[0] ?? '', 'refunded');
    const { stdout } = await check(list, '--out', '-', '--fail-on', 'invalid');
    expect(cellsOf(stdout)[1]?.slice(2, 4)).toEqual(['', 'no_longer_valid']);
    expect(asked(ofSecond[0] ?? '') - before).toBeGreaterThan(3);
  });

  it('whose check is killed between two sellers goes on with --max-age: nothing that was answered is asked again', async () => {
    const { sim, ofFirst, ofSecond, env } = await market();
    const list = listOf(...ofFirst.slice(0, 5), ...ofSecond.slice(0, 5), 'never-sold-1');
    sim.faults.always('validate', { kind: 'stall', ms: 60 });
    const running = start(['codes', 'check', list, '--yes'], env);
    await until(async () => {
      const rows = await mirror().rows(`SELECT FROM mirror.audits WHERE seller_id = 'second'`);
      return rows.length > 0;
    });
    running.process.kill('SIGKILL');
    await running.ended;
    // Held for ten minutes at most.
    const held = await mirror().rows(
      `SELECT coalesce(held_until < now() + interval '11 minutes', true) AS "isShort" FROM mirror.audits`,
    );
    expect(held.every(({ isShort }) => isShort)).toBe(true);
    const out = freePath('csv');
    const { code, stderr } = await run(
      ['codes', 'check', list, '--yes', '--max-age', '1d', '--out', out],
      env,
    );
    expect(code, stderr).toBe(0);
    const [, ...rows] = cellsOf(readFileSync(out, 'utf8'));
    expect(rows.map((cells) => cells[2])).toEqual([
      ...Array.from({ length: 5 }, () => 'first'),
      ...Array.from({ length: 5 }, () => 'second'),
      '',
    ]);
  });

  it('is checked with the sellers who can be asked, if the key of one is refused; what nobody found is unproven', async () => {
    const { ofFirst, ofSecond, check } = await market('a-key-that-was-revoked');
    const list = listOf(ofFirst[0] ?? '', ofSecond[0] ?? '');
    const { code, stdout } = await check(list, '--out', '-');
    expect(code).toBe(4);
    expect(
      cellsOf(stdout)
        .slice(1)
        .map((cells) => cells.slice(2, 4)),
    ).toEqual([
      ['first', 'valid'],
      ['', 'pending'],
    ]);
    // The same of an argument: that seller may have sold it.
    const given = await check(ofSecond[1] ?? '', '--json');
    expect(given.code).toBe(4);
    expect(JSON.parse(given.stdout)).toMatchObject([{ verdict: 'unproven', seller: null }]);
  });
});

it('shows with --dry-run by how much several sellers multiply the calls, and needs --seller for what is about one', async () => {
  const { sim, check } = await market();
  const { code, stdout, stderr } = await check('abc-1', 'abc-2', '--dry-run', '--json');
  expect(code, stderr).toBe(0);
  expect(stderr).toContain('2 sellers: up to 2 × the calls of one');
  expect(JSON.parse(stdout)).toMatchObject({
    dry_run: true,
    factor: 2,
    sellers: [
      { seller: 'first', size: { codes: 2 } },
      { seller: 'second', size: { codes: 2 } },
    ],
  });
  for (const [message, ...args] of [
    [/valid belongs to one seller.*\n.*: first, second\n$/, '--known-valid', 'abc-2'],
    [/^error: --detach needs one seller.*\n.*: first, second\n$/, '--detach'],
  ] as const) {
    const refused = await check('abc-1', ...args);
    expect(refused.stderr).toMatch(message);
    expect(refused.code).toBe(2);
  }
  expect(sim.log).toEqual([]);
});

it('needs --seller if there are more than 20, since each code would be asked of all', async () => {
  const file = join(folder(), 'many.json');
  const names = Array.from({ length: 21 }, (_, at) => `seller-${at}`);
  const sellers = names.map((name) => ({ name, url: 'http://127.0.0.1:9', keyEnv: `KEY_${name}` }));
  writeFileSync(file, JSON.stringify({ sellers }));
  const env = {
    DATABASE_URL: mirror().databaseUrl,
    SELLERS_FILE: file,
    ...Object.fromEntries(names.map((name, at) => [`KEY_${name}`, `a-key-of-seller-number-${at}`])),
  };
  const { code, stderr } = await run(['codes', 'check', 'abc-1'], env);
  expect(stderr).toMatch(/^error: 21 sellers are configured, and at most 20 .*\n.*--seller\n$/);
  expect(code).toBe(2);
});
