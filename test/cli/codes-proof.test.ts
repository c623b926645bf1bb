import { describe, expect, it } from 'vitest';
import { openOddMarket, type OddMarket, type Said } from '../codes/odd-market.js';
import { KEY, useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import {
  cellsOf,
  codesMarket,
  codesOf,
  fileWith,
  freePath,
  run,
  settings,
  start,
} from './support.js';
import { readFileSync } from 'node:fs';

const mirror = useMirror();

/** Checks a list of codes, one a line. @returns the verdict on each line, and its reason */
async function checkList(
  lines: readonly string[],
  env: Readonly<Record<string, string>>,
  ...options: readonly string[]
): Promise<Record<string, string>> {
  const out = freePath('csv');
  const list = fileWith(['code', ...lines].join('\n'));
  const { stderr } = await run(['codes', 'check', list, '--yes', '--out', out, ...options], env);
  const [header = [], ...rows] = cellsOf(readFileSync(out, 'utf8'));
  const at = header.indexOf('verdict');
  expect(rows, stderr).toHaveLength(lines.length);
  return Object.fromEntries(rows.map((row) => [row[0] ?? '', row[at] ?? '']));
}

const opened = async (
  say: (code: string, nth: number) => Said,
): Promise<{ readonly market: OddMarket; readonly env: Record<string, string> }> => {
  const market = await openOddMarket(say);
  return { market, env: settings(mirror().databaseUrl, market.url.href, {}) };
};

const hex = (n: number): string => n.toString(16).padStart(4, '0').repeat(8);
const codes = (from: number, count: number): string[] =>
  Array.from({ length: count }, (_, n) => hex(from + n));
const all = (verdict: string, list: readonly string[]): Record<string, string> =>
  Object.fromEntries(list.map((code) => [code, verdict]));

describe('a code that was invalid', () => {
  it('is not called invalid again by single denials: a re-check with a dead key leaves 20 reversed refunds and known-valid codes as they were, with their dates', async () => {
    const sim = await codesMarket(mirror());
    const env = settings(mirror().databaseUrl, sim.url, {});
    const { purchases } = sim.seller(KEY);
    const [, ...some] = codesOf(sim, 30);
    const good = some.filter(
      (code) => purchases.find(code, sim.seller(KEY).catalogue)?.state === 'valid',
    );
    const [refunded, known] = [good.slice(0, 20), good.slice(20, 25)];
    for (const code of refunded) purchases.setState(code, 'refunded');
    await checkList([...refunded, ...known], env);
    const states = () =>
      mirror().rows<{ code: string; verdict: string }>(
        `SELECT code, verdict, last_checked_at FROM mirror.purchase_codes WHERE code = ANY($1) ORDER BY code`,
        [[...refunded, ...known]],
      );
    const before = await states();
    expect(Object.fromEntries(before.map(({ code, verdict }) => [code, verdict]))).toEqual({
      ...all('invalid', refunded),
      ...all('valid', known),
    });
    for (const code of refunded) purchases.setState(code, 'valid');
    sim.seller(KEY).sells = false;
    const recheck = start(['codes', 'recheck', '--older-than', '0s'], env);
    await until(async () => {
      const [audit] = await mirror().rows<{ problem: string | null }>(
        `SELECT problem FROM mirror.audits WHERE source = 'recheck'`,
      );
      return audit?.problem?.includes('known to be valid are denied') === true;
    });
    recheck.process.kill('SIGKILL');
    await recheck.ended;
    expect(await states()).toEqual(before);
  });
});

describe('one refunded known-valid code', () => {
  it.each([1, 3])(
    'among %i leaves no bad code without a verdict, since known-valid codes never run out',
    async (count) => {
      const known = codes(1, count);
      let isRefunded = false;
      const { env } = await opened((code) =>
        known.includes(code) && !(isRefunded && code === known[0])
          ? { purchaseOf: code }
          : 'denied',
      );
      await checkList(known, env);
      isRefunded = true;
      // An item of the catalogue would stand for the only known-valid code; without one, account details must do.
      const bad = codes(1_000, 30);
      expect(await checkList(bad, env)).toEqual(all('invalid', bad));
      const [gone] = await mirror().rows(
        'SELECT verdict FROM mirror.purchase_codes WHERE code = $1',
        [known[0]],
      );
      if (count === 1) expect(gone?.['verdict']).toBe('no_longer_valid');
    },
  );
});

describe('a code that lists spell in several ways', () => {
  it('is one purchase, and proofs ask for it as it was found: dressed ones were denied, and later codes unproven', async () => {
    const code = hex(7);
    const { env, market } = await opened((asked) =>
      asked === code ? { purchaseOf: code } : 'denied',
    );
    const spelled = [`Purchase code: ${code}`, `#${code}`, code];
    expect(await checkList(spelled, env)).toEqual(all('valid', spelled));
    expect(
      await mirror().rows(
        'SELECT count(*)::int AS rows, sum(price)::text FROM reporting.purchases',
      ),
    ).toEqual([{ rows: 1, sum: '19.90' }]);
    const before = market.asked().length;
    const bad = codes(1_000, 2);
    expect(await checkList(bad, env)).toEqual(all('invalid', bad));
    const proofs = new Set(
      market
        .asked()
        .slice(before)
        .filter((asked) => asked.includes(code)),
    );
    expect([...proofs]).toEqual([code]);
    // The next list is reused, whatever it calls the code.
    const asked = market.asked().length;
    expect(await checkList([`#${code}`], env, '--max-age', '1d')).toEqual({
      [`#${code}`]: 'valid',
    });
    expect(market.asked()).toHaveLength(asked);
  });
});

it('a marketplace that finds everything proves nothing, and stored verdicts stay', async () => {
  const code = hex(9);
  let findsAll = false;
  const { env } = await opened((asked) =>
    findsAll || asked === code ? { purchaseOf: asked } : 'denied',
  );
  await checkList([code], env);
  findsAll = true;
  const nonsense = codes(1_000, 20);
  expect(await checkList([code, ...nonsense], env)).toEqual(all('unproven', [code, ...nonsense]));
  expect(await mirror().rows('SELECT code FROM reporting.purchases')).toEqual([{ code }]);
  // What the control showed, not the last answer, is why.
  const { stdout } = await run(['codes', 'check', ...nonsense.slice(0, 1), '--json'], env);
  expect(JSON.parse(stdout)).toMatchObject([{ verdict: 'unproven', reason: 'finds-everything' }]);
});

it('two machines whose clocks are 90 s apart wait for the second check, since time is the database’s', async () => {
  const { env, market } = await opened(() => 'denied');
  const [bad = ''] = codes(1, 1);
  const behind = `data:text/javascript,const%20now%3DDate.now%3BDate.now%3D()%3D%3Enow()-90000`;
  const list = fileWith(`code\n${bad}`);
  const options = ['--yes', '--confirm-after', '3s'];
  const first = start(['codes', 'check', list, ...options], {
    ...env,
    NODE_OPTIONS: `--import ${behind}`,
  });
  const isDenied = async (): Promise<boolean> => {
    const rows = await mirror().rows('SELECT FROM mirror.audit_codes WHERE denied_at IS NOT NULL');
    return rows.length > 0;
  };
  await until(isDenied);
  first.process.kill('SIGKILL');
  await first.ended;
  const times = () => market.asked().filter((asked) => asked === bad).length;
  const deniedAt = performance.now();
  const [audit] = await mirror().rows<{ id: string }>('SELECT audit_id AS id FROM mirror.audits');
  const second = run(['audits', 'resume', audit?.id ?? '', '--confirm-after', '3s'], env);
  await until(() => times() > 1);
  expect(performance.now() - deniedAt).toBeGreaterThan(1_500);
  expect((await second).code).toBe(0);
});

it.each([
  ['one code has no answer', (code: string) => code === hex(1), 1],
  ['not even the negative control can be read', () => true, 2],
])(
  'where %s, codes are given up at once, since somebody waits, and the next re-check takes them',
  async (_, isOdd, unproven) => {
    let isDown = true;
    const { env } = await opened((code) => {
      if (isDown && isOdd(code)) return { body: 'no JSON' };
      return code === hex(2) ? { purchaseOf: code } : 'denied';
    });
    const { code, stdout } = await run(['codes', 'check', hex(1), hex(2), '--json'], env);
    const odd = { verdict: 'unproven', reason: 'unreadable' };
    expect(JSON.parse(stdout)).toMatchObject([odd, unproven === 2 ? odd : { verdict: 'valid' }]);
    expect(code).toBe(4);
    expect(await mirror().rows('SELECT state, unproven, problem FROM mirror.audits')).toEqual([
      { state: 'finished', unproven, problem: null },
    ]);
    isDown = false;
    const again = await run(['codes', 'recheck', '--older-than', '30d', '--json'], env);
    expect(JSON.parse(again.stdout)).toMatchObject({
      audit: { codes: unproven, valid: unproven - 1, invalid: 1 },
    });
  },
);

describe('a store from before chance was counted', () => {
  it('asks a denied code twice more in its window, although it knows 300 purchases: they say nothing of chance', async () => {
    const asked: string[] = [];
    const { env } = await opened((code) => {
      asked.push(code);
      return code <= hex(300) ? { purchaseOf: code } : 'denied';
    });
    await checkList(codes(1, 5), env);
    await mirror().rows(
      `INSERT INTO mirror.purchase_codes (seller_id, code, verdict, proof, verdict_since, first_checked_at, last_checked_at)
       SELECT 'main', lpad(to_hex(n), 4, '0'), 'valid', 'purchase', now(), now(), now()
         FROM generate_series(6, 300) n`,
    );
    const bad = hex(9_000);
    expect(await checkList([bad], env)).toEqual(all('invalid', [bad]));
    expect(asked.filter((code) => code === bad)).toHaveLength(1 + 3);
  });
});

describe('a clock that was ahead', () => {
  it('delays no second check: its denials are believed to be of now at the latest', async () => {
    const { env } = await opened(() => 'denied');
    const list = fileWith(`code\n${codes(1, 3).join('\n')}`);
    const first = start(['codes', 'check', list, '--yes', '--confirm-after', '2s'], env);
    await until(async () => {
      const [audit] = await mirror().rows('SELECT denied FROM mirror.audits');
      return audit?.['denied'] === 3;
    });
    first.process.kill('SIGKILL');
    await first.ended;
    const ahead = `jsonb_set(jsonb_set(memory, '{controlAt}', to_jsonb(extract(epoch FROM now()) * 1000 + 1e7)), '{retryAt}', to_jsonb(extract(epoch FROM now()) * 1000 + 1e7))`;
    await mirror().rows(`UPDATE mirror.audits SET memory = ${ahead} WHERE memory IS NOT NULL`);
    await mirror().rows(
      `UPDATE mirror.audit_codes SET asked_at = asked_at + interval '3 hours',
              denied_at = denied_at + interval '3 hours', first_denied_at = first_denied_at + interval '3 hours'`,
    );
    const { code, stderr } = await run(['audits', 'resume', await mirror().newestAudit()], env);
    expect(code, stderr).toBe(0);
    expect(await mirror().rows('SELECT invalid FROM mirror.audits')).toEqual([{ invalid: 3 }]);
  });

  it('keeps no verdict: a code that it called valid can be refunded, and is due for a re-check', async () => {
    let isRefunded = false;
    const { env } = await opened((code) =>
      code === hex(1) && isRefunded ? 'denied' : code < hex(5) ? { purchaseOf: code } : 'denied',
    );
    await checkList(codes(1, 4), env);
    await mirror().rows(
      `UPDATE mirror.purchase_codes SET last_checked_at = last_checked_at + interval '1 year'`,
    );
    isRefunded = true;
    const verdicts = await checkList(codes(1, 4), env);
    expect(verdicts[hex(1)]).toBe('no_longer_valid');
    const shown = await run(['codes', 'show', hex(1), '--json'], env);
    expect(JSON.parse(shown.stdout)).toMatchObject({ verdict: 'no_longer_valid' });
  });
});
