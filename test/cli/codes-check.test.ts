import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { startJobs, useServices } from '../service/support.js';
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
  twoSellers,
} from './support.js';

const mirror = useMirror();
useServices();

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
  it('exits with 5 if support is over, or a code is invalid or for another item: codes, lists and resumed audits', async () => {
    const { sim, env } = await market();
    const { purchases, catalogue } = sim.seller(KEY);
    const [refunded = '', expired = '', active = ''] = codesOf(sim, 3);
    purchases.change(expired, { supportedUntil: '2020-01-01T00:00:00Z' });
    purchases.change(active, { supportedUntil: '2099-01-01T00:00:00Z' });
    const item = String(purchases.find(active, catalogue)?.itemId);
    const list = (...codes: string[]): string => fileWith(['code', ...codes].join('\n'));
    const cases: readonly (readonly [number, ...string[]])[] = [
      [0, active, refunded, expired],
      [5, active, refunded, '--fail-on', 'invalid'],
      [0, expired, '--fail-on', 'invalid'],
      [5, expired, '--fail-on', 'invalid,expired'],
      [0, active, '--fail-on', 'invalid, expired'],
      [0, active, '--fail-on', 'other-item', '--item', item],
      [5, active, '--fail-on', 'other-item', '--item', '1'],
      [5, list(expired), '--fail-on', 'invalid,expired'],
      [5, list(active), '--fail-on', 'other-item', '--item', '1'],
      [0, list(active), '--fail-on', 'invalid'],
      [5, list(active, refunded), '--fail-on', 'invalid', '--json'],
    ];
    for (const [code, ...args] of cases) {
      expect((await check([...args, '--max-age', '1h'], env)).code, args.join(' ')).toBe(code);
    }
    const resume = ['audits', 'resume', await mirror().newestAudit(), '--fail-on', 'invalid'];
    expect((await run(resume, env)).code).toBe(5);
    const other = [active, '--item', '1', '--max-age', '1h'];
    expect((await check(other, env)).stdout).toContain('this is not item 1');
    const json = await check([...other, '--json'], env);
    expect(JSON.parse(json.stdout)).toMatchObject([{ item_matches: false }]);
  });

  it('checks a code that looks like an option if it stands after --', async () => {
    const { env } = await market();
    const { stdout, code } = await check(['--fail-on', 'invalid', '--', '-h'], env);
    expect(stdout).toContain('✗ -h · invalid');
    expect(code).toBe(5);
    for (const name of ['README.md', 'docs/audits.md', 'src/cli/commands/codes.ts']) {
      const text = readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
      expect(text, name).toMatch(
        /codes check --fail-on invalid,expired(?:,other-item --item 4711)? -- "\$CODE"/,
      );
      expect(text, name).not.toContain('check "$CODE"');
    }
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
    expect(stdout).toMatch(/^✓ check \d+ · main · list-\d+\.csv · 108 valid · 14 invalid\n/);
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

  it('asks first for the code that is said to be valid: none is checked if it is denied, or the key opens no account', async () => {
    const { sim, env } = await market();
    const [refunded = '', good = '', other = ''] = codesOf(sim, 3);
    for (const what of [[fileWith('code\nmade-up-1\nmade-up-2')], [good, '--json']]) {
      const before = validatedCodes(sim).length;
      const { code, stdout, stderr } = await check([...what, '--known-valid', refunded], env);
      const masked = `${refunded.slice(0, 4)}…`;
      expect(stderr).toContain(
        `error: the marketplace denies ${masked}, the code that you know is valid: no code was checked\n  → is it mistyped, or no longer valid?`,
      );
      expect(stdout + stderr).not.toContain(refunded);
      expect([code, stdout]).toEqual([1, '']);
      expect(validatedCodes(sim).slice(before)).toEqual([refunded]);
    }
    expect(await count('mirror.audits')).toBe(0);

    sim.faults.next('validate', { kind: 'server-error' });
    const failed = await check([fileWith(good, 'txt'), '--known-valid', other], env);
    expect(failed.code, `no answer is no denial: ${failed.stderr}`).toBe(0);

    const before = validatedCodes(sim).length;
    sim.faults.always('account', { kind: 'key-refused' });
    const denial = JSON.stringify({ status: 'error', msg: 'Invalid purchase code' });
    sim.faults.always('validate', { kind: 'reply', status: 404, body: denial });
    const { code, stderr } = await check([good, '--known-valid', other], env);
    expect(validatedCodes(sim).length, 'no code is asked').toBe(before);
    expect(stderr, 'the key is blamed, not the code').toMatch(/error: .*refused the API key/);
    expect(code).toBe(1);
  });

  it('reuses recent verdicts across lists with --max-age; without other codes it needs neither key nor marketplace', async () => {
    const { sim, env } = await market();
    const codes = codesOf(sim, 30);
    const settled = fileWith(codes.slice(0, 20).join('\n'), 'txt');
    const list = fileWith(codes.join('\n'), 'txt');
    expect((await check([settled], env)).code).toBe(0);
    const [calls, audits] = [sim.log.length, await count('mirror.audits')];
    const wrong = { ...env, MARKETPLACE_API_KEY: 'a wrong key' };
    const out = freePath('csv');
    for (const [settings, more] of [
      [wrong, ['--known-valid', codes[1] ?? '']],
      [{ ...env, MARKETPLACE_URL: 'http://127.0.0.1:9' }, []],
    ] as const) {
      const args = [settled, '--max-age', '1h', '--out', out, ...more];
      const { code, stderr } = await check(args, settings);
      expect(code, stderr).toBe(0);
      expect(cellsOf(readFileSync(out, 'utf8'))).toHaveLength(21);
    }
    const dry = await check([list, '--max-age', '7d', '--dry-run'], env);
    expect(dry.stderr).toContain('10 codes to check, 20 checked recently enough');
    expect(sim.log.length).toBe(calls);

    const before = validatedCodes(sim).length;
    const refused = await check([list, '--max-age', '1h'], wrong);
    expect(refused.stderr).toMatch(/error: .*refused the API key.*; no code was checked\n/);
    expect(refused.code).toBe(1);
    expect(await count('mirror.audits')).toBe(audits + 2);
    expect(validatedCodes(sim).length).toBe(before);

    const again = await check([list, '--max-age', '7d', '--json'], env);
    expect(again.code).toBe(0);
    expect(JSON.parse(again.stdout)).toMatchObject({
      audit: { state: 'finished', codes: 30, reused: 20, pending: 0 },
      unproven: [],
      out: null,
    });
    const known = validatedCodes(sim)
      .slice(before)
      .filter((code) => codes.slice(0, 20).includes(code));
    // Only as proofs of the key.
    expect(new Set(known).size).toBeLessThanOrEqual(3);
    expect(known.length).toBeLessThanOrEqual(5);
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
    const given = await check([...codesOf(sim, 2), '--dry-run'], env);
    expect(given.stderr).toMatch(/^2 lines: 2 codes to check\n/m);
    expect(given.stderr, 'how arguments are read is plain').not.toMatch(/arguments|json|encoding/);
    const typed = await check(['-', '--dry-run'], env, { stdin: 'ab-1', terminal: ['stdin'] });
    expect(typed.stderr).toMatch(
      /^reading codes from the terminal, one per line; end with Ctrl-D\nstdin:\n/,
    );
    expect((await check(['-', '--dry-run'], env, { stdin: 'ab-1' })).stderr).toMatch(/^stdin:\n/);
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
    expect(stderr).toMatch(/✓ check \d+ · main · stdin · 10 valid · 2 invalid\n/);
  });

  it('leaves the work to other processes with --detach, and then only watches them', async () => {
    const { sim, env } = await market({ REQUESTS_PER_MINUTE: '1200' });
    const list = fileWith(['code', ...codesOf(sim, 40)].join('\n'));
    const left = await check([list, '--detach'], env);
    expect(left.code).toBe(0);
    const id = /^check (\d+) · in the queue/.exec(left.stdout)?.[1] ?? '';
    expect(left.stdout).toContain(`audits resume ${id}`);
    expect(validatedCodes(sim)).toEqual([]);

    const more = { REQUESTS_PER_MINUTE: '1200' };
    const worker = await startJobs(mirror(), sim.url, more, { scheduler: false });
    await until(() => validatedCodes(sim).length > 0);
    const out = freePath('csv');
    const watched = await run(['audits', 'resume', id, '--out', out], env);
    expect(watched.code, watched.stderr).toBe(0);
    expect(watched.stderr).toContain('Another process works on this check; this one only watches.');
    expect(cellsOf(readFileSync(out, 'utf8'))).toHaveLength(41);
    expect(validatedCodes(sim).length).toBeLessThan(70);
    await worker.stop();
  });
});

describe('codes check of a code', () => {
  it('prints purchase and proof, asks a denied code again seconds later, and can be shown afterwards without a request', async () => {
    const { sim, env } = await market();
    const [refunded = '', good = '', other = ''] = codesOf(sim, 3);
    const timesAsked = (code: string): number =>
      validatedCodes(sim).filter((asked) => asked === code).length;
    const { code, stdout } = await check([good, refunded, other, '--confirm-after', '1s'], env);
    expect(code, 'also for invalid codes').toBe(0);
    expect(stdout).toMatch(
      new RegExp(`^✓ ${good} · valid\n {2}licence .*\n {2}item +\\d+ · .*\n {2}price .* USD\n`),
    );
    expect(stdout).toContain('proof       the marketplace answered with the purchase');
    const [, evidence = 'no evidence'] =
      /invalid\n {2}proof +(denied at \S+ \S+Z and again at \S+Z; your API key was tested before and after \(\S+Z, \S+Z\)) \(404 /.exec(
        stdout,
      ) ?? [];
    expect(stdout).toContain(`\n\n✗ ${refunded} · invalid\n`);
    // Once in the first pass, and three times in its window, as few purchases are known.
    expect(timesAsked(refunded)).toBe(4);
    expect(timesAsked(good)).toBeLessThanOrEqual(4);
    const reused = await check([good, refunded, '--max-age', '1h', '--json'], env);
    expect(JSON.parse(reused.stdout)).toMatchObject([
      { code: good, verdict: 'valid', proof: 'purchase', reason: 'answered' },
      { code: refunded, evidence },
    ]);
    expect((await run(['codes', 'show', refunded, '--json'], env)).stdout).toContain(evidence);
    const denied = await run(['codes', 'show', refunded], env);
    expect(denied.stdout).toContain(evidence);
    expect(denied.stdout, 'denials are part of the proof').not.toContain('unproven');
    expect(denied.stdout.match(/ (?:denied|invalid) +404 /g)).toHaveLength(2);

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

  it('is refused with some of its lines, unless --yes or somebody confirms it; a dry run only warns', async () => {
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
    for (const stdin of ['n\n', '']) {
      const asked = await check([list], env, { stdin, terminal });
      expect(asked.stderr).toContain('Check it anyway? [y/N] ');
      expect(asked.code, stdin).toBe(2);
    }
    expect(sim.log).toEqual([]);
    const confirmed = await check([list], env, { stdin: 'y\n', terminal });
    expect(confirmed.code, confirmed.stderr).toBe(0);
    const forced = await check([list, '--yes', '--dry-run'], env);
    expect(forced.stderr).not.toMatch(warning);
  });

  it('is compared with the seller’s known codes; arguments are not', async () => {
    const { sim, env } = await market();
    expect((await check([fileWith(codesOf(sim, 25).join('\n'))], env)).code).toBe(0);
    const orders = ['order-100001', 'order-100002'];
    const list = await check([fileWith(orders.join('\n'))], env);
    expect(list.stderr).toMatch(
      /do not look like the known valid codes of main \(37 characters\):\n {4}line 1: ord… \(12 characters\)\n/,
    );
    expect(list.code).toBe(2);
    expect((await check([...orders, '--dry-run'], env)).stderr).not.toContain('do not look like');
  });
});

describe('an API key or a look-up token in place of a code', () => {
  it('is neither sent, stored, printed nor written, in any case, column and seller’s list', async () => {
    const sim = await codesMarket(mirror());
    const other = 'another-key-0123456789';
    const env = twoSellers(mirror().databaseUrl, sim.url, other);
    const [, good = ''] = codesOf(sim, 2);
    const token = /smt_[\w-]+/.exec((await run(['tokens', 'add', 'shop'], env)).stdout)?.[0] ?? '';
    const secrets = [KEY, token.toLowerCase(), other];
    expect(token).not.toBe('');
    const rows = [`${good},${KEY}`, `${KEY},x`, ` ${KEY.toUpperCase()} ,y`];
    const others = [`${other},z`, `${token},x`, `${good},${token}`];
    const [list, out] = [fileWith(['code,note', ...rows, ...others].join('\n')), freePath('csv')];
    const args = [list, '--seller', 'first', '--out', out, '--yes'];
    const { code, stdout, stderr } = await check(args, env);
    expect(code, stderr).toBe(0);
    expect(stderr).toContain(
      'line 3: the code is an API key or a look-up token, which is masked here',
    );
    const result = readFileSync(out, 'utf8');
    expect(cellsOf(result).map((cells) => cells.slice(0, 3))).toEqual([
      ['code', 'note', 'verdict'],
      [good, '[secret]', 'valid'],
      ['[secret]', 'x', 'rejected'],
      ['[secret]', 'y', 'rejected'],
      ['[secret]', 'z', 'rejected'],
      ['[secret]', 'x', 'rejected'],
      [good, '[secret]', 'valid'],
    ]);
    const [kept] = await mirror().rows<{ text: string }>(
      `SELECT concat((SELECT json_agg(a) FROM mirror.audits a), (SELECT json_agg(e) FROM mirror.audit_entries e),
                     (SELECT json_agg(p) FROM mirror.purchase_codes p)) AS text`,
    );
    for (const text of [stdout, stderr, result, kept?.text ?? KEY]) {
      for (const secret of secrets) expect(text.toLowerCase()).not.toContain(secret);
    }
    // The first one is the negative control.
    expect(new Set(validatedCodes(sim).slice(1))).toEqual(new Set([good]));

    const [calls, audits] = [sim.log.length, await count('mirror.audits')];
    for (const given of [
      ['check', KEY, '--seller', 'first'],
      ['check', `'${KEY.toUpperCase()}'`, '--out', 'result.csv'],
      ['check', token],
      ['check', 'a-code', '--seller', 'first', '--known-valid', token],
      ['show', KEY],
      ['show', token],
      ['erase', token],
    ]) {
      const refused = await run(['codes', ...given], env);
      expect(refused.stderr).toMatch(
        /^error: an API key or a look-up token was given instead of a purchase code; .*\n {2}→ /,
      );
      for (const secret of secrets) {
        expect((refused.stdout + refused.stderr).toLowerCase()).not.toContain(secret);
      }
      expect(refused.code).toBe(2);
    }
    expect([sim.log.length, await count('mirror.audits')]).toEqual([calls, audits]);
  });
});

describe('wrong usage of codes check', () => {
  const list = () => fileWith('code,name\nabc-1,Ada\n');

  it('exits with 2 and an error, before any request', async () => {
    const folder = freePath('csv');
    mkdirSync(folder);
    const { sim, env } = await market();
    const cases: readonly (readonly [RegExp, readonly string[], Record<string, string>?])[] = [
      [/^error: there is no file "custumers.csv"\n {2}→ /, ['custumers.csv']],
      [/^error: missing required argument 'codes'/, []],
      [/^error: --column goes with a list/, ['abc', '--column', 'code']],
      [/error: option '--max-age .* has no unit/, ['abc', '--max-age', '7']],
      [
        /can’t tell the format from the file name "result.xls"\n {2}→ /,
        ['abc', '--out', 'result.xls'],
      ],
      [/^error: --json and --out - both write to stdout\n {2}→ /, ['abc', '--out', '-', '--json']],
      [/^error: --decimal-comma needs --out\n {2}→ /, ['abc', '--decimal-comma']],
      [/for CSV, and this writes json\n {2}→ /, ['abc', '--out', 'x.json', '--decimal-comma']],
      [/^error: --format needs --out\n {2}→ /, ['abc', '--format', 'csv']],
      [/^error: option '--dry-run' cannot be used with/, ['abc', '--detach', '--dry-run']],
      [/cannot be used with .*--detach/, ['abc', '--fail-on', 'invalid', '--detach']],
      [/cannot be used with .*--dry-run/, ['abc', '--fail-on', 'invalid', '--dry-run']],
      [
        /"inalid" is no condition\. The conditions are invalid, unproven/,
        ['abc', '--fail-on', 'inalid'],
      ],
      [/--fail-on other-item needs --item/, ['abc', '--fail-on', 'other-item']],
      [/Items are numbered/, ['abc', '--item', 'Flat Theme']],
      [/^error: the code of --known-valid is empty/, ['abc', '--known-valid', ' ']],
      [/there is no such folder\n {2}→ /, ['abc', '--out', '/no/such/folder/x.csv']],
      [/^error: MARKETPLACE_URL is not set/, ['abc']],
      [/there is no column "codes"\n {2}→ /, [list(), '--column', 'codes'], env],
      [/is a folder.*\n {2}→ /, [list(), '--out', folder], env],
    ];
    for (const [message, args, settings = {}] of cases) {
      const { code, stdout, stderr } = await check(args, settings);
      expect(stderr).toMatch(message);
      expect([code, stdout], args.join(' ')).toEqual([2, '']);
    }
    expect(sim.log).toEqual([]);
  });

  it('sends no code to another marketplace than that of the seller’s copy, and says so', async () => {
    const { sim, env } = await market();
    const codes = codesOf(sim, 2);
    expect((await check([codes[0] ?? ''], env)).code).toBe(0);
    const calls = sim.log.length;
    await mirror().rows(`UPDATE mirror.sellers SET marketplace = 'old.example'`);
    const { code, stderr } = await check([codes[1] ?? ''], env);
    expect(stderr).toMatch(
      /error: this seller belongs to another marketplace: the copy of "main" is of old\.example, not of 127\.0\.0\.1:\d+\n/,
    );
    expect(stderr).not.toContain('another account');
    expect(code).toBe(1);
    expect(sim.log.length).toBe(calls);
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
