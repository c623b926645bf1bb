import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { isInstalled } from '../support/installed.js';
import { useMirror } from '../support/mirror.js';
import {
  cellsOf,
  codesMarket,
  codesOf,
  fileWith,
  freePath,
  printed,
  run,
  settings,
} from './support.js';

const mirror = useMirror();

describe('audits', () => {
  async function unfinished(): Promise<{ env: Readonly<Record<string, string>>; id: string }> {
    const sim = await codesMarket(mirror());
    const list = fileWith(
      ['name,code', 'Ada,', ...codesOf(sim, 30).map((c) => `x,${c}`)].join('\n'),
    );
    const env = settings(mirror().databaseUrl, sim.url);
    await printed(['codes', 'check', list, '--detach'], env);
    return { env, id: await mirror().newestAudit() };
  }

  it('can be listed, shown and exported before they end, also as JSON; codes without an answer are pending', async () => {
    const { env, id } = await unfinished();
    const audits = [{ audit_id: Number(id), seller_id: 'main', state: 'running', pending: 30 }];
    expect(JSON.parse(await printed(['audits', 'list', '--json'], env))).toMatchObject(audits);
    expect(await printed(['audits', 'list'], env)).toMatch(
      /^check .* no longer valid .*\n.* running /,
    );
    await mirror().rows(`UPDATE mirror.audits SET problem = 'the key is refused'`);
    const shown = await printed(['audits', 'show', id], env);
    expect(shown).toMatch(/^check \d+ · main · list-\d+\.csv · unfinished\n✗ the key is refused\n/);
    expect(shown).toMatch(/\nlines +31\nlines without a code +1\ncodes +30\n/);
    expect(shown).toContain('Read as csv, because its name ends in "csv".\n');
    expect(shown).toContain(`audits resume ${id}`);
    // No time that was recorded by a clock that was ahead.
    for (const [ahead, expected] of [
      ['1 hour', expect.any(String) as string],
      ['30 days', null],
    ] as const) {
      await mirror().rows('UPDATE mirror.audits SET resume_at = now() + $1::interval', [ahead]);
      expect(JSON.parse(await printed(['audits', 'show', id, '--json'], env))).toMatchObject({
        audit: { lines: 31, rejected: 1, codes: 30, pending: 30, resume_at: expected },
        unproven: [],
        list: { columns: ['name', 'code'], layout: { lists: [{ format: 'csv', column: 'code' }] } },
      });
    }

    const { code, stdout, stderr } = await run(['audits', 'export', id], env);
    expect(code).toBe(0);
    const [header, first, second] = cellsOf(stdout);
    expect(header?.slice(0, 3)).toEqual(['name', 'code', 'verdict']);
    expect(first?.slice(0, 3)).toEqual(['Ada', '', 'rejected']);
    expect(first?.slice(-2)).toEqual(['none', 'the code is empty']);
    expect(second?.[2]).toBe('pending');
    expect(stderr).toBe('The check has not ended yet: 30 of 30 codes are "pending".\n');
    const json = JSON.parse(await printed(['audits', 'export', id, '--json'], env)) as unknown[];
    expect(json).toHaveLength(31);
    const asJson = freePath('json');
    await printed(['audits', 'export', id, '--out', asJson, '--json'], env);
    expect(JSON.parse(readFileSync(asJson, 'utf8'))).toEqual(json);
    const both = await run(['audits', 'export', id, '--json', '--format', 'csv'], env);
    expect(both.code).toBe(2);
    const out = freePath('csv');
    const named = await run(['audits', 'export', id, '--out', out, '--json'], env);
    expect(named.stderr).toMatch(/^error: --json and the ending of ".*" differ\n {2}→ /);
    expect([named.code, existsSync(out)]).toEqual([2, false]);
    const nowhere = await run(['audits', 'export', id, '--out', '/no/such/x.csv'], env);
    expect(nowhere.stderr).toMatch(/there is no such folder\n {2}→ /);
    expect(nowhere.code).toBe(2);
  });

  it('of another seller are not found, those of an unknown one are an error, and a workbook for more lines than a sheet has rows', async () => {
    const { env, id } = await unfinished();
    await mirror().rows(
      `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('other', 'other.example')`,
    );
    expect((await run(['audits', 'show', id, '--seller', 'other'], env)).stderr).toMatch(
      `error: there is no check ${id} of this seller\n  → \``,
    );
    expect(await printed(['audits', 'list', '--seller', 'other'], env)).toBe(
      'No checks match the filter.\n',
    );
    for (const command of [
      ['codes', 'show', 'a-code'],
      ['audits', 'list'],
      ...['show', 'resume', 'cancel', 'export'].map((name) => ['audits', name, id]),
    ]) {
      expect(await run([...command, '--seller', 'nope'], env), command.join(' ')).toEqual({
        code: 2,
        stdout: '',
        stderr: 'error: no seller "nope" is configured or in the store\n  → known: main, other\n',
      });
    }
    await mirror().rows('UPDATE mirror.audits SET lines = 1048576');
    const out = freePath('xlsx');
    const market = { ...env, MARKETPLACE_URL: 'http://127.0.0.1:9' };
    for (const command of ['export', 'resume']) {
      const refused = await run(['audits', command, id, '--out', out], market);
      expect(refused.stderr, command).toMatch(
        /^error: an Excel sheet has room for 1,048,575 rows, and these are 1,048,576\n {2}→ .*\.csv/,
      );
      expect(refused.code).toBe(2);
    }
    expect(existsSync(out)).toBe(false);
  });

  it('of 20,000 lines are exported by looking up each code once: comparing each with all would take two minutes', async () => {
    const sim = await codesMarket(mirror());
    const env = settings(mirror().databaseUrl, sim.url);
    const lines = Array.from({ length: 20_000 }, (_, n) => `code-${n}`);
    const left = await run(
      ['codes', 'check', fileWith(lines.join('\n')), '--yes', '--detach'],
      env,
    );
    expect(left.code, left.stderr).toBe(0);
    const out = await printed(['audits', 'export', await mirror().newestAudit()], env);
    expect(out.trimEnd().split('\n')).toHaveLength(20_001);
  });

  it('stay cancelled until they are resumed, and suggest commands that can be pasted as they are', async () => {
    const { env, id } = await unfinished();
    const cancelled = await printed(['audits', 'cancel', id], env);
    expect(cancelled).toMatch(/check \d+ is cancelled: 30 codes not checked yet\n/);
    expect(await printed(['audits', 'show', id], env)).toContain('· cancelled\n');
    const resumed = await printed(['audits', 'resume', id, '--json'], env);
    expect(JSON.parse(resumed)).toMatchObject({ audit: { state: 'finished', pending: 0 } });
    expect(await printed(['audits', 'show', id], env)).not.toContain('audits cancel');
    const again = await run(['audits', 'cancel', id], env);
    expect(again.stderr).toMatch(/^error: check \d+: there is nothing to do, /);
    expect(await printed(['audits', 'resume', id], env)).toMatch(/^✓ check/);
    const own = String.raw`\n  → .*\`seller-mirror`;
    const notFound = 2;
    for (const [args, next, status] of [
      [['audits', 'show', '999999'], 'audits', notFound],
      [['audits', 'export', '999999'], 'audits list', notFound],
      [['codes', 'show', 'a-code'], 'codes check a-code', notFound],
      [['codes', 'show', '999999'], 'audits show 999999', notFound],
      [['audits', 'cancel', id], `audits show ${id}`, 1],
    ] as const) {
      const { code, stderr } = await run(args, env);
      expect(stderr).toMatch(new RegExp(`^error: .*${own} ${next}\``));
      expect(code, args.join(' ')).toBe(status);
    }
    await mirror().rows('UPDATE mirror.audits SET valid = valid - 1, unproven = 1');
    for (const what of ['show', 'resume']) {
      const { stdout } = await run(['audits', what, id], env);
      expect(stdout).toContain('check the list again with --max-age 7d');
    }
  });
});

it.skipIf(!isInstalled('jq'))(
  'the line of docs/lists.md prints the addresses of customers with an invalid code (needs jq)',
  async () => {
    const sim = await codesMarket(mirror());
    const env = settings(mirror().databaseUrl, sim.url);
    const lines = ['Name,E-mail,Code', 'Bob,bob@buyers.test,a-bad-code-1', 'Di,di@buyers.test,'];
    const list = fileWith([...lines, `Ada,ada@buyers.test,${codesOf(sim, 2)[1]}`].join('\n'));
    await printed(['codes', 'check', list], env);
    const page = readFileSync(new URL('../../docs/lists.md', import.meta.url), 'utf8');
    const [, filter = ''] = /jq -r '(select[^']+)'/.exec(page) ?? [];
    const id = await mirror().newestAudit();
    const input = await printed(['audits', 'export', id, '--format', 'ndjson'], env);
    expect(execFileSync('jq', ['-r', filter], { input, encoding: 'utf8' })).toBe(
      'bob@buyers.test\n',
    );
  },
);

describe('codes recheck', () => {
  it('checks known codes again, unless they were checked recently', async () => {
    const sim = await codesMarket(mirror());
    const codes = codesOf(sim, 20);
    const env = settings(mirror().databaseUrl, sim.url);
    const list = fileWith(codes.join('\n'), 'txt');
    await printed(['codes', 'check', list], env);
    expect(await printed(['codes', 'recheck', '--older-than', '30d'], env)).toBe(
      'No code is due: all known codes were checked more recently.\n',
    );

    const out = freePath('json');
    const args = ['codes', 'recheck', '--older-than', '0', '--valid-only', '--limit', '15'];
    const again = await printed([...args, '--out', out], env);
    expect(again).toMatch(/^✓ check \d+ · main · recheck · 15 valid/);
    expect(JSON.parse(readFileSync(out, 'utf8'))).toHaveLength(15);
  });
});
