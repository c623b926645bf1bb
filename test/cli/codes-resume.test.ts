import {
  existsSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Simulator } from '../../src/simulator/index.js';
import { KEY, useMirror } from '../support/mirror.js';
import { hasRedis, redisTitle, startRedis } from '../support/redis.js';
import {
  askedFor,
  cellsOf,
  codesMarket,
  codesOf,
  fileWith,
  freePath,
  isValid,
} from './codes-support.js';
import { folder, run, settings, start, until, type Running } from './support.js';

const mirror = useMirror();

/** Codes that some audit has settled. */
async function settled(): Promise<Set<string>> {
  const rows = await mirror().rows<{ code: string }>(
    `SELECT code FROM mirror.audit_codes a JOIN mirror.purchase_codes p USING (code_id)
      WHERE a.verdict IS NOT NULL`,
  );
  return new Set(rows.map(({ code }) => code));
}

async function newestAudit(): Promise<string> {
  const [row] = await mirror().rows<{ id: string }>(
    'SELECT max(audit_id) AS id FROM mirror.audits',
  );
  return row?.id ?? '';
}

/** Whether a statement waits for a table that is locked. */
async function isHeldUp(): Promise<boolean> {
  const rows = await mirror().rows('SELECT 1 FROM pg_locks WHERE NOT granted');
  return rows.length > 0;
}

/** A check of so many codes that is in the middle of them. */
async function underWay(
  sim: Simulator,
  codes: readonly string[],
  more: Readonly<Record<string, string>> = {},
): Promise<Running> {
  const list = fileWith(['code', ...codes].join('\n'));
  const env = settings(mirror().databaseUrl, sim.url, { REQUESTS_PER_MINUTE: '1800', ...more });
  const running = start(['codes', 'check', list], env);
  await until(async () => running.process.exitCode !== null || (await settled()).size >= 40);
  return running;
}

/** Goes on with the audit; returns which codes were asked for, canaries left out. */
async function goOn(sim: Simulator, codes: readonly string[]): Promise<readonly string[]> {
  const before = askedFor(sim).length;
  const done = await settled();
  expect(done.size).toBeGreaterThanOrEqual(40);
  expect(done.size).toBeLessThan(codes.length);
  const out = freePath('csv');
  const env = settings(mirror().databaseUrl, sim.url);
  const resumed = await run(['audits', 'resume', await newestAudit(), '--out', out], env);
  expect(resumed.code, resumed.stderr).toBe(0);
  for (const [code = '', verdict] of cellsOf(readFileSync(out, 'utf8')).slice(1)) {
    expect(verdict, code).toBe(isValid(sim, code) ? 'valid' : 'invalid');
  }
  const asked = askedFor(sim).slice(before);
  const again = asked.filter((code) => done.has(code));
  // Of what was recorded, none but a canary is asked for: before and after the others, and where
  // several denials came in a row.
  expect(new Set(again).size, again.join()).toBeLessThanOrEqual(2);
  expect(again.length).toBeLessThanOrEqual(10);
  return asked;
}

describe('an audit that was stopped', () => {
  it('by Ctrl-C ends in order with 130 and says how to go on, which asks nothing again that was recorded', async () => {
    const sim = await codesMarket(mirror());
    const codes = codesOf(sim, 200);
    const running = await underWay(sim, codes);
    running.process.kill('SIGINT');
    const { code, stdout, stderr } = await running.ended;
    expect(code).toBe(130);
    expect(stdout).toBe('');
    const id = await newestAudit();
    expect(stderr).toMatch(
      new RegExp(
        `stopping; what was answered is kept, and this goes on:\n→ .*audits resume ${id}\n$`,
      ),
    );
    const shown = await run(['audits', 'show', id], settings(mirror().databaseUrl, sim.url));
    expect(shown.stdout).toMatch(
      new RegExp(`^audit ${id} · main · list-\\d+\\.csv · unfinished\n`),
    );
    expect(shown.stdout).toContain(`audits resume ${id}\n`);
    await goOn(sim, codes);
  });

  it('is left alone by other commands: it may have been stopped for good, and each call is paid for', async () => {
    const sim = await codesMarket(mirror());
    const codes = codesOf(sim, 200);
    const running = await underWay(sim, codes);
    running.process.kill('SIGINT');
    expect((await running.ended).code).toBe(130);
    const before = askedFor(sim).length;
    const others = Array.from({ length: 60 }, (_, i) => `of-another-list-${i}`);
    const env = settings(mirror().databaseUrl, sim.url, { REQUESTS_PER_MINUTE: '1800' });
    const next = await run(
      ['codes', 'check', fileWith(['code', ...others].join('\n')), '--yes'],
      env,
    );
    expect(next.code, next.stderr).toBe(0);
    // None but a canary.
    const foreign = askedFor(sim)
      .slice(before)
      .filter((code) => codes.includes(code));
    expect(new Set(foreign).size, foreign.join()).toBeLessThanOrEqual(2);
  });

  /** Interrupts the audit twice while what it would record in between can't be written. */
  async function interruptTwice(more: Readonly<Record<string, string>>): Promise<void> {
    const sim = await codesMarket(mirror());
    const codes = codesOf(sim, 200);
    const running = await underWay(sim, codes, more);
    const holder = await mirror().pool.connect();
    try {
      await holder.query('BEGIN');
      await holder.query('LOCK TABLE mirror.audits IN ACCESS EXCLUSIVE MODE');
      // Interrupted just after it had recorded all that was answered, it would have nothing to wait for.
      await until(isHeldUp);
      running.process.kill('SIGINT');
      expect(await Promise.race([running.ended, sleep(1_000, 'still there')])).toBe('still there');
      running.process.kill('SIGINT');
      expect((await running.ended).code).toBe(130);
    } finally {
      await holder.query('ROLLBACK');
      holder.release();
    }
    await goOn(sim, codes);
  }

  it('by a second Ctrl-C ends though the store does not answer, and loses nothing', async () => {
    await interruptTwice({});
  });

  it.skipIf(!hasRedis)(
    redisTitle('by a second Ctrl-C does so with its queue in Redis as well'),
    async () => {
      const redis = await startRedis();
      try {
        await interruptTwice({ REDIS_URL: `redis://${redis.host}:${redis.port}` });
      } finally {
        await redis.dispose();
      }
    },
  );

  it('by kill -9 goes on likewise, and at once, though the queue takes it for being worked on', async () => {
    const sim = await codesMarket(mirror());
    const codes = codesOf(sim, 200);
    const running = await underWay(sim, codes);
    running.process.kill('SIGKILL');
    await running.ended;
    await goOn(sim, codes);
  });

  it('because the key was revoked calls nothing invalid, and goes on when it is back', async () => {
    const sim = await codesMarket(mirror());
    const codes = codesOf(sim, 120);
    const running = await underWay(sim, codes);
    sim.faults.always('validate', { kind: 'key-refused' });
    sim.faults.always('account', { kind: 'key-refused' });
    await until(() => running.stderr().includes('held up:'));
    running.process.kill('SIGINT');
    const { code, stderr } = await running.ended;
    expect(code).toBe(130);
    expect(stderr).toContain('held up: the marketplace refused the API key');
    for (const one of await settled()) {
      const [row] = await mirror().rows<{ verdict: string }>(
        'SELECT verdict FROM mirror.purchase_codes WHERE code = $1',
        [one],
      );
      expect(row?.verdict, one).toBe(isValid(sim, one) ? 'valid' : 'invalid');
    }
    sim.faults.clear();
    const out = freePath('csv');
    const env = settings(mirror().databaseUrl, sim.url);
    const resumed = await run(['audits', 'resume', await newestAudit(), '--out', out], env);
    expect(resumed.code, resumed.stderr).toBe(0);
  });
});

describe('the result of an audit that was stopped', () => {
  /** Stops `codes check --out …` in a folder of its own; returns the folder, the audit and the hint. */
  async function stopped(sim: Simulator, out: string) {
    const [place, elsewhere] = [mkdtempSync(join(folder(), 'here-')), folder()];
    const list = fileWith(['code', ...codesOf(sim, 120)].join('\n'));
    const slow = settings(mirror().databaseUrl, sim.url, { REQUESTS_PER_MINUTE: '1800' });
    const running = start(['codes', 'check', list, '--out', out], slow, place);
    await until(async () => running.process.exitCode !== null || (await settled()).size >= 40);
    running.process.kill('SIGINT');
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(130);
    const hint = /\n→ .* (audits resume .*)\n$/.exec(stderr)?.[1]?.split(' ') ?? [];
    const env = settings(mirror().databaseUrl, sim.url);
    return { place, elsewhere, env, hint, id: await newestAudit() };
  }

  it('goes where it was to go, by the hint alone and from any folder, and once only', async () => {
    const sim = await codesMarket(mirror());
    const { place, elsewhere, env, hint, id } = await stopped(sim, 'result.csv');
    const path = join(realpathSync(place), 'result.csv');
    const shown = await run(['audits', 'show', id], env);
    expect(shown.stdout).toMatch(`\nresult         goes to ${path}\n`);
    expect(existsSync(path)).toBe(false);
    const resumed = await run(hint, env, { cwd: elsewhere });
    expect(resumed.code, resumed.stderr).toBe(0);
    expect(resumed.stdout).toContain(`  result: ${path}\n`);
    expect(cellsOf(readFileSync(path, 'utf8'))).toHaveLength(121);
    const json = await run(['audits', 'show', id, '--json'], env);
    const result = { path, format: 'csv', writtenAt: expect.stringMatching(/Z$/) };
    expect(JSON.parse(json.stdout)).toMatchObject({ audit: { result } });
    writeFileSync(path, 'edited since');
    const again = await run(hint, env);
    expect(again.stdout).toContain(`  result: ${path}\n`);
    expect(readFileSync(path, 'utf8')).toBe('edited since');
  });

  it('goes to another file when the folder is gone, which is told before anything is asked', async () => {
    const sim = await codesMarket(mirror());
    const { place, env, hint, id } = await stopped(sim, 'result.csv');
    rmSync(place, { recursive: true });
    const asked = sim.log.length;
    const refused = await run(hint, env);
    expect(refused.stderr).toMatch(
      /^error: the result of audit \d+ can’t go to ".*\/result\.csv": there is no such folder\n {2}→ .*--out/,
    );
    expect(refused.code).toBe(2);
    expect(sim.log.length).toBe(asked);
    const out = freePath('ndjson');
    const resumed = await run([...hint, '--out', out], env);
    expect(resumed.code, resumed.stderr).toBe(0);
    expect(readFileSync(out, 'utf8').trimEnd().split('\n')).toHaveLength(120);
    expect((await run(['audits', 'show', id], env)).stdout).toMatch(
      /\nresult +\S+\.ndjson, written /,
    );
  });

  it('is written by who comes back, when others finished the audit meanwhile', async () => {
    const sim = await codesMarket(mirror());
    const { place, env, hint, id } = await stopped(sim, 'result.json');
    const both = await run([...hint, '--detach', '--out', 'x.csv'], env);
    expect(both.stderr).toMatch(/^error: option '--detach' cannot be used with option '--out/);
    const left = await run([...hint, '--detach'], env);
    expect(left.stdout).toMatch(
      /→ .*audits resume \d+ {3}\(here, or to watch; it writes .*result\.json\)\n/,
    );
    const worker = start(['worker'], { ...env, HEALTH_LISTEN: 'off' });
    await until(async () => (await mirror().store.audits.get(BigInt(id)))?.state === 'finished');
    worker.process.kill('SIGTERM');
    await worker.ended;
    const shown = await run(['audits', 'show', id], env);
    expect(shown.stdout).toMatch(/\nresult +goes to .*\/result\.json\n/);
    expect(shown.stdout).toContain(`audits resume ${id}\n`);
    expect((await run(hint, env)).code).toBe(0);
    expect(JSON.parse(readFileSync(join(place, 'result.json'), 'utf8'))).toHaveLength(120);
  });

  it('is printed again by the hint, where it was to be printed', async () => {
    const sim = await codesMarket(mirror());
    const { env, hint } = await stopped(sim, '-');
    const resumed = await run(hint, env);
    expect(resumed.code, resumed.stderr).toBe(0);
    expect(cellsOf(resumed.stdout)).toHaveLength(121);
  });
});

describe('audits', () => {
  async function unfinished(): Promise<{ env: Readonly<Record<string, string>>; id: string }> {
    const sim = await codesMarket(mirror());
    const list = fileWith(
      ['name,code', 'Ada,', ...codesOf(sim, 30).map((c) => `x,${c}`)].join('\n'),
    );
    const env = settings(mirror().databaseUrl, sim.url);
    expect((await run(['codes', 'check', list, '--detach'], env)).code).toBe(0);
    return { env, id: await newestAudit() };
  }

  it('are listed and shown, also as JSON', async () => {
    const { env, id } = await unfinished();
    const list = await run(['audits', 'list', '--json'], env);
    const audits = [{ auditId: Number(id), sellerId: 'main', state: 'running', pending: 30 }];
    expect(JSON.parse(list.stdout)).toMatchObject({ audits });
    expect((await run(['audits', 'list'], env)).stdout).toMatch(/unfinished .* 0 %/);
    const shown = await run(['audits', 'show', id, '--json'], env);
    expect(JSON.parse(shown.stdout)).toMatchObject({
      audit: { lines: 31, rejected: 1, codes: 30, pending: 30 },
      unproven: [],
      list: { columns: ['name', 'code'], layout: { lists: [{ format: 'csv', column: 'code' }] } },
    });
    await mirror().store.ensureSeller('other', 'other.example');
    expect((await run(['audits', 'show', id, '--seller', 'other'], env)).stderr).toMatch(
      `error: there is no audit ${id} of this seller\n  → \``,
    );
    expect((await run(['audits', 'list', '--seller', 'other'], env)).stdout).toBe(
      'There is no audit yet of this seller.\n',
    );
    expect((await run(['audits', 'show', '0'], env)).code).toBe(2);
  });

  it('come with remedies that name the program as it is to be typed, so that they can be pasted', async () => {
    const { env, id } = await unfinished();
    expect((await run(['audits', 'resume', id], env)).code).toBe(0);
    const own = String.raw`\n  → .*\`node \S*dist/cli/main\.js`;
    for (const [args, next] of [
      [['audits', 'show', '999999'], 'audits list'],
      [['codes', 'show', 'a-code'], 'codes check a-code'],
      [['codes', 'show', '999999'], 'audits show 999999'],
      [['audits', 'cancel', id], `audits export ${id}`],
    ] as const) {
      const { code, stderr } = await run(args, env);
      expect(stderr).toMatch(new RegExp(`^error: .*${own} ${next}\``));
      expect(code).toBe(1);
    }
  });

  it('of a seller whom nobody knows are not said to be none, since the name may be misspelt', async () => {
    const { env, id } = await unfinished();
    for (const command of [
      ['codes', 'show', 'a-code'],
      ['audits', 'list'],
      ...['show', 'resume', 'cancel', 'export'].map((name) => ['audits', name, id]),
    ]) {
      expect(await run([...command, '--seller', 'nope'], env), command.join(' ')).toEqual({
        code: 2,
        stdout: '',
        stderr: 'error: no seller "nope" is configured or in the store\n  → there is: main\n',
      });
    }
  });

  it('are exported before they have ended too, with what is not asked yet as pending', async () => {
    const { env, id } = await unfinished();
    const { code, stdout, stderr } = await run(['audits', 'export', id], env);
    expect(code).toBe(0);
    const [header, first, second] = cellsOf(stdout);
    expect(header?.slice(0, 3)).toEqual(['name', 'code', 'verdict']);
    expect(first?.slice(0, 3)).toEqual(['Ada', '', 'rejected']);
    expect(first?.at(-1)).toBe('none: the code is empty');
    expect(second?.[2]).toBe('pending');
    expect(stderr).toBe('The audit has not ended: 30 of 30 codes are "pending".\n');
    const json = await run(['audits', 'export', id, '--json'], env);
    expect(JSON.parse(json.stdout)).toHaveLength(31);
    const both = await run(['audits', 'export', id, '--json', '--format', 'csv'], env);
    expect(both.code).toBe(2);
    for (const ending of ['csv', 'ndjson']) {
      const out = freePath(ending);
      const named = await run(['audits', 'export', id, '--out', out, '--json'], env);
      expect(named.stderr).toMatch(/^error: --json and the ending of ".*" differ\n {2}→ /);
      expect(named.code).toBe(2);
      expect(existsSync(out)).toBe(false);
    }
    const asJson = freePath('json');
    expect((await run(['audits', 'export', id, '--out', asJson, '--json'], env)).code).toBe(0);
    expect(JSON.parse(readFileSync(asJson, 'utf8'))).toEqual(JSON.parse(json.stdout));
    const nowhere = await run(['audits', 'export', id, '--out', '/no/such/x.csv'], env);
    expect(nowhere.stderr).toMatch(/there is no such folder\n {2}→ /);
    expect(nowhere.code).toBe(2);
  });

  it('are cancelled for as long as nobody resumes them', async () => {
    const { env, id } = await unfinished();
    const cancelled = await run(['audits', 'cancel', id], env);
    expect(cancelled.stdout).toContain('30 codes not asked yet · cancelled');
    expect((await run(['audits', 'show', id], env)).stdout).toContain('· cancelled\n');
    const resumed = await run(['audits', 'resume', id, '--json'], env);
    expect(resumed.code, resumed.stderr).toBe(0);
    expect(JSON.parse(resumed.stdout)).toMatchObject({ audit: { state: 'finished', pending: 0 } });
    const again = await run(['audits', 'cancel', id], env);
    expect(again.stderr).toMatch(/^error: audit \d+ is finished: there is nothing to cancel\n/);
    expect(again.code).toBe(1);
    const calm = await run(['audits', 'resume', id], env);
    expect(calm.code).toBe(0);
    expect(calm.stdout).toMatch(/^✓ audit/);
  });

  it('are made of codes that are known, the most useful first', async () => {
    const sim = await codesMarket(mirror());
    const codes = codesOf(sim, 20);
    const env = settings(mirror().databaseUrl, sim.url);
    const list = fileWith(codes.join('\n'), 'txt');
    expect((await run(['codes', 'check', list], env)).code).toBe(0);
    const young = await run(['codes', 'recheck', '--older-than', '30d'], env);
    expect(young.stdout).toBe('No code is due: all known ones were asked for more recently.\n');
    expect(young.code).toBe(0);

    const own = sim.seller(KEY).purchases;
    own.setState(codes[1] ?? '', 'refunded');
    const out = freePath('json');
    const args = ['codes', 'recheck', '--older-than', '0', '--valid-only', '--limit', '15'];
    const again = await run([...args, '--out', out], env);
    expect(again.code, again.stderr).toBe(0);
    expect(again.stdout).toMatch(/^✓ audit \d+ · main · recheck · /);
    const rows = JSON.parse(readFileSync(out, 'utf8')) as { code: string; verdict: string }[];
    expect(rows).toHaveLength(15);
    for (const { code, verdict } of rows) {
      expect(verdict, code).toBe(isValid(sim, code) ? 'valid' : 'invalid');
    }
    const none = await run(['codes', 'recheck'], env);
    expect(none.stderr).toMatch(/^error: required option '--older-than/);
    expect(none.code).toBe(2);
  });
});
