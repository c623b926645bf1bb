import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { KEY, useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import {
  validatedCodes,
  cellsOf,
  codesMarket,
  codesOf,
  fileWith,
  freePath,
  isValid,
  run,
  settings,
  start,
  twoSellers,
} from './support.js';

const mirror = useMirror();

const count = async (table: string): Promise<number> => {
  const [row] = await mirror().rows<{ number: string }>(`SELECT count(*) AS number FROM ${table}`);
  return Number(row?.number);
};

/** Starts a marketplace with purchases, and returns settings for it. */
async function market(more: Record<string, string> = {}) {
  const sim = await codesMarket(mirror());
  return { sim, env: settings(mirror().databaseUrl, sim.url, more) };
}

const check = (
  args: readonly string[],
  env: Parameters<typeof run>[1],
  how?: Parameters<typeof run>[2],
) => run(['codes', 'check', ...args], env, how);

describe('codes check --fail-on', () => {
  it('exits with 5 if any code is invalid, for codes, lists and resumed audits', async () => {
    const { sim, env } = await market();
    const [refunded = '', good = ''] = codesOf(sim, 2);
    const ends = async (...args: string[]): Promise<number | null> => (await check(args, env)).code;
    expect(await ends(good, '--fail-on', 'invalid')).toBe(0);
    expect(await ends(good, refunded)).toBe(0);
    expect(await ends(good, refunded, '--fail-on', 'invalid')).toBe(5);
    const list = fileWith(`code\n${good}\n${refunded}`);
    expect(await ends(list, '--fail-on', 'invalid', '--json')).toBe(5);
    expect(await ends(fileWith(`code\n${good}`), '--fail-on', 'invalid')).toBe(0);
    const [last] = await mirror().rows<{ id: string }>(
      `SELECT max(audit_id) AS id FROM mirror.audits WHERE invalid > 0`,
    );
    const resume = ['audits', 'resume', last?.id ?? '', '--fail-on', 'invalid'];
    expect((await run(resume, env)).code).toBe(5);
  });

  it('exits with 5 if support is over, or the code is for another item, for codes and lists', async () => {
    const { sim, env } = await market();
    const { purchases, catalogue } = sim.seller(KEY);
    const [, expired = '', active = ''] = codesOf(sim, 3);
    purchases.change(expired, { supportedUntil: '2020-01-01T00:00:00Z' });
    purchases.change(active, { supportedUntil: '2099-01-01T00:00:00Z' });
    const item = String(purchases.find(active, catalogue)?.itemId);
    for (const of of [(code: string) => code, (code: string) => fileWith(`code\n${code}`)]) {
      const ends = async (code: string, ...args: string[]): Promise<number | null> =>
        (await check([of(code), ...args], env)).code;
      expect(await ends(expired, '--fail-on', 'invalid')).toBe(0);
      expect(await ends(expired, '--fail-on', 'invalid,expired')).toBe(5);
      expect(await ends(active, '--fail-on', 'invalid, expired')).toBe(0);
      expect(await ends(active, '--fail-on', 'other-item', '--item', item)).toBe(0);
      expect(await ends(active, '--fail-on', 'other-item', '--item', '1')).toBe(5);
    }
    const other = await check([active, '--item', '1'], env);
    expect(other.stdout).toContain('this is not item 1');
    expect(other.code).toBe(0);
    const json = await check([active, '--item', '1', '--json'], env);
    expect(JSON.parse(json.stdout)).toMatchObject([{ item_matches: false }]);
  });

  it('checks a code that looks like an option if it stands after --', async () => {
    const { env } = await market();
    const { stdout, code } = await check(['--fail-on', 'invalid', '--', '-h'], env);
    expect(stdout).toContain('✗ -h · invalid');
    expect(code).toBe(5);
    const documents = [
      '../../README.md',
      '../../docs/audits.md',
      '../../src/cli/commands/codes.ts',
    ];
    for (const name of documents) {
      const text = readFileSync(new URL(name, import.meta.url), 'utf8');
      expect(text, name).toMatch(
        /codes check --fail-on invalid,expired(?:,other-item --item 4711)? -- "\$CODE"/,
      );
      expect(text, name).not.toContain('check "$CODE"');
    }
  });

  it.each([
    [['--fail-on', 'inalid'], /"inalid" is no condition\. The conditions are invalid, unproven/],
    [['--fail-on', 'other-item'], /--fail-on other-item needs --item/],
    [['--item', 'Flat Theme'], /Items are numbered/],
    [['--fail-on', 'invalid', '--detach'], /cannot be used with .*--detach/],
    [['--fail-on', 'invalid', '--dry-run'], /cannot be used with .*--dry-run/],
  ])('can’t be combined with options that make it useless: %j', async (args, why) => {
    const { code, stderr } = await check(['some-code', ...args], {});
    expect(stderr).toMatch(why);
    expect(code).toBe(2);
  });
});

describe('codes check of a list', () => {
  it('writes the list in its order with the correct verdict on each code', async () => {
    const { sim, env } = await market();
    const codes = [...codesOf(sim, 120), 'made-up-1', 'made-up-2'];
    const lines = codes.flatMap((code, n) => [
      `c${n},${code}`,
      ...(n % 20 === 0 ? [`d${n},`] : []),
    ]);
    const list = fileWith(['customer,code', ...lines, `again,${codes[1]}`].join('\n'));
    const out = freePath('csv');
    const { code, stdout, stderr } = await check([list, '--out', out], env);
    expect(code, stderr).toBe(0);

    const [header, ...rows] = cellsOf(readFileSync(out, 'utf8'));
    expect(header?.slice(0, 5)).toEqual(['customer', 'code', 'verdict', 'reason', 'license_type']);
    expect(rows.map(([customer, asked]) => `${customer},${asked}`)).toEqual([
      ...lines,
      `again,${codes[1]}`,
    ]);
    for (const cells of rows) {
      const [, asked = '', verdict, , licence] = cells;
      const truth = isValid(sim, asked) ? 'valid' : 'invalid';
      expect(verdict, asked).toBe(asked === '' ? 'rejected' : truth);
      expect(licence !== '', asked).toBe(verdict === 'valid');
      const listed = asked === '' ? '' : asked === codes[1] ? '2' : '1';
      expect(cells[header?.indexOf('listed') ?? 0], asked).toBe(listed);
    }

    const asked = validatedCodes(sim);
    // And the negative control.
    expect(new Set(asked).size).toBe(codes.length + 1);
    // Each code once, the 14 denied ones thrice more, as few purchases are known, and known-valid codes.
    expect(asked.length).toBeLessThanOrEqual(1 + codes.length + 3 * 14 + 8);
    expect(stderr).toContain('The codes are in column 2, "code"');
    expect(stderr).toContain('7 lines can’t be checked:\n    line 3: the code is empty\n');
    expect(stderr).toContain('130 lines: 122 codes to check, 1 repeated, 7 rejected\n');
    expect(stdout).toMatch(/^✓ audit \d+ · main · list-\d+\.csv · 108 valid · 14 invalid\n/);
    expect(stdout).toContain(`result: ${out}`);
    for (const text of [stdout, stderr]) expect(text).not.toContain(codes[3]);
  });

  it('warns if no valid code is known, and counts the verdicts proven by account details alone', async () => {
    const { sim, env } = await market();
    const list = fileWith('code\nmade-up-1\nmade-up-2');
    const warning = /^warning: no valid code of this seller is known yet; .* --known-valid CODE$/m;
    const first = await check([list], env);
    expect(first.code, first.stderr).toBe(0);
    expect(first.stderr).toMatch(warning);
    expect(first.stdout).toMatch(
      /\n {2}2 codes invalid by account details alone, .* → check again with --known-valid CODE\n/,
    );
    const json = await check([list, '--json'], env);
    expect(JSON.parse(json.stdout)).toMatchObject({ account_proven: 2 });

    const [, valid = ''] = codesOf(sim, 2);
    const another = fileWith('code\nmade-up-3');
    const given = await check([another, '--known-valid', valid], env);
    expect(given.code, given.stderr).toBe(0);
    expect(given.stderr).not.toMatch(warning);
    expect(given.stdout).not.toContain('account details alone');
  });

  it('checks no code if the marketplace denies the code that is said to be valid', async () => {
    const { sim, env } = await market();
    const [refunded = '', good = ''] = codesOf(sim, 2);
    const list = fileWith('code\nmade-up-1\nmade-up-2\nmade-up-3');
    for (const what of [[list], [good], ['made-up-1', '--json']]) {
      const before = validatedCodes(sim).length;
      const args = ['codes', 'check', ...what, '--known-valid', refunded];
      const { code, stdout, stderr } = await run(args, env);
      const masked = `${refunded.slice(0, 4)}…`;
      expect(stderr).toContain(
        `error: the marketplace denies ${masked}, the code that you know is valid: no code was checked\n  → is it mistyped, or no longer valid?`,
      );
      expect(stdout + stderr).not.toContain(refunded);
      expect(stdout).toBe('');
      expect(code).toBe(1);
      expect(validatedCodes(sim).slice(before)).toEqual([refunded]);
    }
    expect(await count('mirror.audits')).toBe(0);
  });

  it('blames the key, not the known valid code, if the key opens no account', async () => {
    const { sim, env } = await market();
    const [, canary = '', good = ''] = codesOf(sim, 3);
    sim.faults.always('account', { kind: 'key-refused' });
    const denial = JSON.stringify({ status: 'error', msg: 'Invalid purchase code' });
    sim.faults.always('validate', { kind: 'reply', status: 404, body: denial });
    const { code, stderr } = await check([good, '--known-valid', canary], env);
    expect(validatedCodes(sim), 'no code is asked').toEqual([]);
    expect(stderr).toMatch(/error: .*refused the API key/);
    expect(code).toBe(1);
  });

  it('continues if the request for the known valid code fails', async () => {
    const { sim, env } = await market();
    const [, canary = '', good = ''] = codesOf(sim, 3);
    sim.faults.next('validate', { kind: 'server-error' });
    const { code, stderr } = await check([fileWith(good, 'txt'), '--known-valid', canary], env);
    expect(code, stderr).toBe(0);
  });

  it('reuses recent verdicts across lists with --max-age', async () => {
    const { sim, env } = await market();
    const codes = codesOf(sim, 30);
    const first = fileWith(codes.slice(0, 20).join('\n'), 'txt');
    const second = fileWith(codes.join('\n'), 'txt');
    expect((await check([first], env)).code).toBe(0);
    const [before, asked] = [sim.log.length, validatedCodes(sim).length];
    const dry = await check([second, '--max-age', '7d', '--dry-run'], env);
    expect(dry.stderr).toContain('10 codes to check, 20 checked recently enough');
    expect(sim.log.length).toBe(before);
    const again = await check([second, '--max-age', '7d', '--json'], env);
    expect(again.code).toBe(0);
    expect(JSON.parse(again.stdout)).toMatchObject({
      audit: { state: 'finished', codes: 30, reused: 20, pending: 0 },
      unproven: [],
      out: null,
    });
    const known = validatedCodes(sim)
      .slice(asked)
      .filter((code) => codes.slice(0, 20).includes(code));
    // Only as proofs of the key.
    expect(new Set(known).size).toBeLessThanOrEqual(3);
    expect(known.length).toBeLessThanOrEqual(5);
  });

  it('needs neither key nor marketplace if every verdict is reused; else checks the key before it creates an audit', async () => {
    const { sim, env } = await market();
    const [canary = '', ...codes] = codesOf(sim, 5);
    const list = fileWith(codes.join('\n'), 'txt');
    expect((await check([list], env)).code).toBe(0);
    const before = sim.log.length;
    const wrong = { ...env, MARKETPLACE_API_KEY: 'a wrong key' };
    const nowhere = { ...env, MARKETPLACE_URL: 'http://127.0.0.1:9' };
    for (const [settled, more] of [
      [wrong, ['--known-valid', canary]],
      [nowhere, []],
    ] as const) {
      const out = freePath('csv');
      const args = ['codes', 'check', list, '--max-age', '1h', '--out', out, ...more];
      const { code, stderr } = await run(args, settled);
      expect(code, stderr).toBe(0);
      expect(cellsOf(readFileSync(out, 'utf8'))).toHaveLength(5);
    }
    expect(sim.log.length).toBe(before);

    const audits = await count('mirror.audits');
    const another = fileWith([...codes, 'made-up-1'].join('\n'), 'txt');
    const refused = await check([another, '--max-age', '1h'], wrong);
    expect(refused.stderr).toMatch(/error: .*refused the API key.*; no code was checked\n/);
    expect(refused.code).toBe(1);
    expect(await count('mirror.audits')).toBe(audits);
    expect(validatedCodes(sim)).not.toContain('made-up-1');
  });

  it('with --dry-run prints the cost, makes no request and stores nothing', async () => {
    const { sim, env } = await market({ REQUESTS_PER_MINUTE: '60' });
    const list = fileWith(['code', ...codesOf(sim, 50), ''].join('\n'));
    const plain = await check([list, '--dry-run'], env);
    expect(plain.code).toBe(0);
    expect(plain.stdout).toBe('');
    expect(plain.stderr).toMatch(
      /50 codes to check\n53 calls \(3 of them for the API key\) at 60 a minute: about 52 s, until .*; each denied code takes 3.12 more calls, /,
    );
    const { stdout } = await check([list, '--dry-run', '--json'], env);
    expect(JSON.parse(stdout)).toMatchObject({
      dry_run: true,
      size: { lines: 50, codes: 50, reused: 0 },
      cost: {
        calls: 53,
        least_ms: 52_000,
        finish_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      },
      rejected: [],
    });
    expect(sim.log).toEqual([]);
    for (const table of ['audits', 'audit_entries', 'purchase_codes', 'sellers']) {
      expect(await count(`mirror.${table}`), table).toBe(0);
    }
  });

  it('reads from a pipe and writes only the result to one', async () => {
    const { sim, env } = await market();
    const codes = codesOf(sim, 12);
    const { code, stdout, stderr } = await check(['-', '--out', '-', '--format', 'ndjson'], env, {
      stdin: `${codes.join('\n')}\n`,
    });
    expect(code, stderr).toBe(0);
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { code: string; verdict: string; item_id: number });
    expect(lines.map((line) => line.code)).toEqual(codes);
    expect(lines.map((line) => line.verdict === 'valid')).toEqual(
      codes.map((one) => isValid(sim, one)),
    );
    expect(stderr).toMatch(/✓ audit \d+ · main · stdin · 10 valid · 2 invalid\n/);
  });

  it('on a terminal, says that it reads codes from there', async () => {
    const { sim, env } = await market();
    const stdin = codesOf(sim, 2).join('\n');
    const args = ['codes', 'check', '-', '--dry-run'];
    const typed = await run(args, env, { stdin, terminal: ['stdin'] });
    expect(typed.stderr).toMatch(
      /^reading codes from the terminal, one per line; end with Ctrl-D\nstdin:\n/,
    );
    expect(typed.code).toBe(0);
    expect((await run(args, env, { stdin })).stderr).toMatch(/^stdin:\n/);
  });

  it('leaves the work to other processes with --detach, and then only watches them', async () => {
    const { sim, env } = await market({ HEALTH_LISTEN: 'off', REQUESTS_PER_MINUTE: '600' });
    const list = fileWith(['code', ...codesOf(sim, 50)].join('\n'));
    const left = await check([list, '--detach'], env);
    expect(left.code).toBe(0);
    const id = /^audit (\d+) · in the queue/.exec(left.stdout)?.[1] ?? '';
    expect(left.stdout).toContain(`audits resume ${id}`);
    expect(validatedCodes(sim)).toEqual([]);

    const worker = start(['worker'], env);
    await until(() => validatedCodes(sim).length > 0);
    const out = freePath('csv');
    const watched = await run(['audits', 'resume', id, '--out', out], env);
    expect(watched.code, watched.stderr).toBe(0);
    expect(watched.stderr).toContain('Another process works on this audit; this one only watches.');
    expect(cellsOf(readFileSync(out, 'utf8'))).toHaveLength(51);
    expect(validatedCodes(sim).length).toBeLessThan(80);
    worker.process.kill('SIGTERM');
    expect((await worker.ended).code).toBe(0);
    expect(await count('mirror.processes')).toBe(0);
  });
});

describe('codes check of a code', () => {
  it('prints purchase and proof, and exits with 0 also for invalid codes', async () => {
    const { sim, env } = await market();
    const [refunded = '', good = ''] = codesOf(sim, 2);
    const { code, stdout } = await check([good, refunded], env);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      new RegExp(`^✓ ${good} · valid\n {2}licence .*\n {2}item +\\d+ · .*\n {2}price .* USD\n`),
    );
    expect(stdout).toContain('proof       the marketplace answered with the purchase');
    expect(stdout).toMatch(
      new RegExp(
        `\n\n✗ ${refunded} · invalid\n {2}proof +denied at .*Z and again at .*Z; your API key was tested .* \\(404 `,
      ),
    );
    const json = await check([good, '--max-age', '1h', '--json'], env);
    expect(JSON.parse(json.stdout)).toMatchObject([
      { code: good, verdict: 'valid', proof: 'purchase', reason: 'answered' },
    ]);
    expect(validatedCodes(sim).filter((asked) => asked === good).length).toBeLessThanOrEqual(4);
  });

  it('checks a denied code again, seconds later, before it is invalid', async () => {
    const { sim, env } = await market();
    const [refunded = '', good = ''] = codesOf(sim, 2);
    const { stdout } = await check([good, refunded, '--confirm-after', '2s'], env);
    expect(stdout).toContain(`✗ ${refunded} · invalid`);
    const [, evidence = 'no evidence'] =
      /proof +(denied at \S+ \S+Z and again at \S+Z; your API key was tested before and after \(\S+Z, \S+Z\)) \(404 /.exec(
        stdout,
      ) ?? [];
    const again = [
      ['codes', 'show', refunded],
      ['codes', 'show', refunded, '--json'],
      // Reuses the first answer.
      ['codes', 'check', refunded, '--max-age', '1h', '--json'],
    ];
    for (const one of again) expect((await run(one, env)).stdout).toContain(evidence);
    const shown = await run(['codes', 'show', refunded], env);
    expect(shown.stdout, 'denials are part of the proof').not.toContain('unproven');
    expect(shown.stdout.match(/ (?:denied|invalid) +404 /g)).toHaveLength(2);
    const asked = sim.log.filter(({ parameters }) => parameters['purchase_code'] === refunded);
    // Once in the first pass, and three times in its window, as few purchases are known.
    expect(asked.length).toBe(4);
  });

  it('prints nothing about how arguments are read', async () => {
    const { sim, env } = await market();
    const codes = codesOf(sim, 2);
    const { stderr } = await check([...codes, '--dry-run'], env);
    expect(stderr).toMatch(/^2 lines: 2 codes to check\n/m);
    expect(stderr).not.toMatch(/arguments|json|encoding/);
  });

  it('can be shown afterwards with all its checks, without a request', async () => {
    const { sim, env } = await market();
    const [, good = '', canary = ''] = codesOf(sim, 3);
    await check([good, canary], env);
    sim.seller(KEY).purchases.setState(good, 'refunded');
    await check([good], env);
    const before = sim.log.length;
    const shown = await run(['codes', 'show', good], env);
    expect(shown.stdout).toMatch(
      new RegExp(`^✗ ${good} · no longer valid\n {2}was +valid; no longer valid`),
    );
    expect(shown.stdout).toMatch(
      /\n\nchecked .*\n.* no longer valid +404 .*tested before and after.*\n.* denied +404 .*\n.* valid +200 .*the purchase\n/,
    );
    const json = await run(['codes', 'show', good, '--json'], env);
    expect(JSON.parse(json.stdout)).toMatchObject({
      verdict: 'no_longer_valid',
      support: null,
      checks: [{ reason: 'denied' }, { reason: 'denied' }, { verdict: 'valid', http_status: 200 }],
    });
    const unknown = await run(['codes', 'show', 'abc-unknown'], env);
    expect(unknown.stderr).toMatch(/^error: this code was never in a list.*\n {2}→ /);
    expect(sim.log.length).toBe(before);
  });

  it('exits with 4 and a remedy if the marketplace is down', async () => {
    const { sim, env } = await market();
    const [, good = ''] = codesOf(sim, 2);
    sim.faults.always('validate', { kind: 'maintenance', retryAfter: 3600 });
    const { code, stdout } = await check([good], env);
    expect(stdout).toMatch(new RegExp(`^\\? ${good} · unproven\n {2}why +.*\n {2}what to do .*\n`));
    expect(code).toBe(4);
    expect(await count(`mirror.purchase_codes WHERE verdict IS NOT NULL`)).toBe(0);
  });

  it('exits with 1 if the key is refused, without a verdict or an unfinished audit', async () => {
    const { sim, env } = await market({ MARKETPLACE_API_KEY: 'a wrong key' });
    const [, good = ''] = codesOf(sim, 2);
    const list = fileWith(['code', ...codesOf(sim, 5)].join('\n'));
    for (const what of [good, list]) {
      const { code, stdout, stderr } = await check([what], env);
      expect(stderr).toMatch(/error: .*refused the API key.*\n {2}→ check the API key.*\n$/);
      expect(stdout).toBe('');
      expect(code).toBe(1);
    }
    expect(await count(`mirror.purchase_codes WHERE verdict IS NOT NULL`)).toBe(0);
    expect(await count(`mirror.audits WHERE state = 'running'`)).toBe(0);
    // A single code is tried before the key is proven, because a valid one then costs few calls; and the control.
    expect(validatedCodes(sim).slice(1)).toEqual([codesOf(sim, 2)[1]]);
  });
});

describe('a list that does not look like codes', () => {
  const PROSE = 'Dear customer\nthank you for your order\nyours sincerely\n';
  const terminal = ['stdin', 'stderr'] as const;

  it('is refused in scripts with some of its lines, unless --yes; a dry run only warns', async () => {
    const { sim, env } = await market();
    const list = fileWith(PROSE, 'txt');
    const warning =
      /^warning: list-\d+\.txt: 3 of the first 3 records do not look like purchase codes:\n {4}line 1: "Dear customer"\n {4}line 2: /m;
    const refused = await check([list], env);
    expect(refused.stderr).toMatch(warning);
    expect(refused.stderr).toMatch(
      /\nerror: this does not look like a list of purchase codes; no code was checked\n {2}→ .*--yes/,
    );
    expect(refused.code).toBe(2);
    const quiet = await check([list, '-q'], env);
    expect(quiet.stderr, 'problems are said also with -q').toMatch(warning);
    const piped = await check(['-'], env, { stdin: PROSE, terminal });
    expect(piped.code).toBe(2);
    const dry = await check([list, '--dry-run'], env);
    expect(dry.stderr).toMatch(warning);
    expect(dry.code).toBe(0);
    expect(sim.log).toEqual([]);
    const forced = await check([list, '--yes'], env);
    expect(forced.stderr).not.toMatch(warning);
    expect(forced.code, forced.stderr).toBe(0);
  });

  it.each([
    ['y\n', 0],
    ['n\n', 2],
    ['', 2],
  ])('needs a confirmation on a terminal: %j exits with %i', async (stdin, expected) => {
    const { sim, env } = await market();
    const list = fileWith(PROSE, 'txt');
    const { code, stderr } = await check([list], env, { stdin, terminal });
    expect(stderr).toContain('Check it anyway? [y/N] ');
    expect(code, stderr).toBe(expected);
    expect(sim.log.length > 0).toBe(expected === 0);
  });

  it('is compared with the seller’s known codes; arguments are not', async () => {
    const { sim, env } = await market();
    expect((await check([fileWith(codesOf(sim, 40).join('\n'))], env)).code).toBe(0);
    const orders = ['order-100001', 'order-100002'];
    const list = await check([fileWith(orders.join('\n'))], env);
    expect(list.stderr).toMatch(
      /do not look like the known valid codes of main \(37 characters\):\n {4}line 1: ord… \(12 characters\)\n/,
    );
    expect(list.code).toBe(2);
    expect((await check([...orders, '--out', freePath('csv')], env)).code).toBe(0);
  });
});

describe('an API key in place of a code', () => {
  it('is neither sent, stored, printed nor written, in any case and column', async () => {
    const { sim, env } = await market();
    const [, good = ''] = codesOf(sim, 2);
    const rows = [`${good},${KEY}`, `${KEY},x`, ` ${KEY.toUpperCase()} ,y`];
    const out = freePath('csv');
    const args = [
      'codes',
      'check',
      fileWith(['code,note', ...rows].join('\n')),
      '--out',
      out,
      '--yes',
    ];
    const { code, stdout, stderr } = await run(args, env);
    expect(code, stderr).toBe(0);
    expect(stderr).toContain(
      'line 3: the code is an API key or a look-up token, which is masked here',
    );
    expect(cellsOf(readFileSync(out, 'utf8')).map((cells) => cells.slice(0, 3))).toEqual([
      ['code', 'note', 'verdict'],
      [good, '[secret]', 'valid'],
      ['[secret]', 'x', 'rejected'],
      ['[secret]', 'y', 'rejected'],
    ]);
    const [kept] = await mirror().rows<{ text: string }>(
      `SELECT concat((SELECT json_agg(a) FROM mirror.audits a), (SELECT json_agg(e) FROM mirror.audit_entries e),
                     (SELECT json_agg(p) FROM mirror.purchase_codes p)) AS text`,
    );
    for (const text of [stdout, stderr, readFileSync(out, 'utf8'), kept?.text ?? KEY]) {
      expect(text.toLowerCase()).not.toContain(KEY);
    }
    // The first one is the negative control.
    expect(new Set(validatedCodes(sim).slice(1))).toEqual(new Set([good]));
  });

  it.each([
    ['check', KEY],
    ['check', `'${KEY.toUpperCase()}'`, '--out', 'result.csv'],
    ['check', 'a-code', '--known-valid', KEY],
    ['show', KEY],
  ])('is refused as an argument: codes %s %s', async (...args) => {
    const { sim, env } = await market();
    const { code, stdout, stderr } = await run(['codes', ...args], env);
    expect(stderr).toMatch(
      /^error: an API key or a look-up token was given instead of a purchase code; .*\n {2}→ /,
    );
    expect((stdout + stderr).toLowerCase()).not.toContain(KEY);
    expect(code).toBe(2);
    expect(sim.log).toEqual([]);
    expect(await count('mirror.audits')).toBe(0);
  });

  it('is refused if it belongs to another seller, too', async () => {
    const sim = await codesMarket(mirror());
    const other = 'another-key-0123456789';
    const env = twoSellers(mirror().databaseUrl, sim.url, other);
    const list = fileWith(`${codesOf(sim, 2)[1]}\n${other}\n`, 'txt');
    const { code, stderr } = await check([list, '--seller', 'first'], env);
    expect(code, stderr).toBe(0);
    expect(stderr).toContain(
      'line 2: the code is an API key or a look-up token, which is masked here',
    );
    expect(validatedCodes(sim)).not.toContain(other);
  });
});

describe('wrong usage of codes check', () => {
  const list = () => fileWith('code,name\nabc-1,Ada\n');

  it.each([
    [['custumers.csv'], /^error: there is no file "custumers.csv"\n {2}→ /],
    [[], /^error: missing required argument 'codes'/],
    [['abc', '--column', 'code'], /^error: --column goes with a list/],
    [['abc', '--max-age', '7'], /error: option '--max-age .* has no unit/],
    [
      ['abc', '--out', 'result.xls'],
      /^error: can’t tell the format from the file name "result.xls"\n {2}→ /,
    ],
    [['abc', '--out', '-', '--json'], /^error: --json and --out - both write to stdout\n {2}→ /],
    [['abc', '--decimal-comma'], /^error: --decimal-comma needs --out\n {2}→ /],
    [['abc', '--out', 'x.json', '--decimal-comma'], /for CSV, and this writes json\n {2}→ /],
    [['abc', '--format', 'csv'], /^error: --format needs --out\n {2}→ /],
    [['abc', '--detach', '--dry-run'], /^error: option '--dry-run' cannot be used with/],
    [['abc', '--known-valid', ' '], /^error: option '--known-valid .* It is empty/],
    [['abc', '--out', '/no/such/folder/x.csv'], /there is no such folder\n {2}→ /],
    [['abc'], /^error: MARKETPLACE_URL is not set/],
  ])('exits with 2 and an error: %j', async (args, message) => {
    const { code, stdout, stderr } = await check([...args], {});
    expect(stderr).toMatch(message);
    expect(stdout).toBe('');
    expect(code).toBe(2);
  });

  it.each([
    ['a missing column', () => [list(), '--column', 'codes'], /there is no column "codes"/],
    [
      'a result that would replace a folder',
      () => {
        const path = freePath('csv');
        mkdirSync(path);
        return [list(), '--out', path];
      },
      /is a folder/,
    ],
  ])('exits with 2 before any request: %s', async (_what, args, message) => {
    const { sim, env } = await market();
    const { code, stdout, stderr } = await check([...args()], env);
    expect(stderr).toMatch(message);
    expect(stderr).toMatch(/\n {2}→ .*\n$/);
    expect(stdout).toBe('');
    expect(code).toBe(2);
    expect(sim.log).toEqual([]);
  });

  it('does not touch an earlier result if the audit is not created', async () => {
    const { sim, env } = await market({ MARKETPLACE_URL: 'http://127.0.0.1:9' });
    const out = freePath('csv');
    writeFileSync(out, 'an earlier result');
    const { code, stderr } = await check([list(), '--out', out], env);
    expect(stderr).toMatch(/error: 127\.0\.0\.1:9 can’t be reached.*no code was checked\n {2}→ /);
    // The remedy for syncs.
    expect(stderr).not.toContain('the copy is unchanged');
    expect(code).toBe(1);
    expect(readFileSync(out, 'utf8')).toBe('an earlier result');
    expect(sim.log).toEqual([]);
  });
});
