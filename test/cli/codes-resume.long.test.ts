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
import { useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import {
  validatedCodes,
  cellsOf,
  codesMarket,
  codesOf,
  fileWith,
  folder,
  freePath,
  isValid,
  run,
  type Running,
  settings,
  start,
} from './support.js';

const mirror = useMirror();

/** Returns the codes with a verdict in any audit. */
async function settled(): Promise<Set<string>> {
  const rows = await mirror().rows<{ code: string }>(
    `SELECT code FROM mirror.audit_codes a JOIN mirror.purchase_codes p USING (code_id)
      WHERE a.verdict IS NOT NULL`,
  );
  return new Set(rows.map(({ code }) => code));
}

/** True if a statement waits for a lock. */
async function isWaitingForLock(): Promise<boolean> {
  const rows = await mirror().rows('SELECT 1 FROM pg_locks WHERE NOT granted');
  return rows.length > 0;
}

/** Starts a check of the codes, and waits until it has verdicts on some of them. */
async function startCheck(sim: Simulator, codes: readonly string[]): Promise<Running> {
  const list = fileWith(['code', ...codes].join('\n'));
  const env = settings(mirror().databaseUrl, sim.url, { REQUESTS_PER_MINUTE: '1800' });
  const running = start(['codes', 'check', list], env);
  await until(async () => running.process.exitCode !== null || (await settled()).size >= 20);
  return running;
}

/** Resumes the audit to its end. Expects correct verdicts, and no second request for a recorded code. */
async function expectResumes(sim: Simulator, codes: readonly string[], id?: string): Promise<void> {
  const before = validatedCodes(sim).length;
  const done = await settled();
  expect(done.size).toBeGreaterThanOrEqual(20);
  expect(done.size).toBeLessThan(codes.length);
  const out = freePath('csv');
  const env = settings(mirror().databaseUrl, sim.url);
  const resumed = await run(
    ['audits', 'resume', id ?? (await mirror().newestAudit()), '--out', out],
    env,
  );
  expect(resumed.code, resumed.stderr).toBe(0);
  for (const [code = '', verdict] of cellsOf(readFileSync(out, 'utf8')).slice(1)) {
    expect(verdict, code).toBe(isValid(sim, code) ? 'valid' : 'invalid');
  }
  const again = validatedCodes(sim)
    .slice(before)
    .filter((code) => done.has(code));
  // Only codes that are known to be valid, which prove the key.
  expect(again.filter((code) => !isValid(sim, code))).toEqual([]);
  expect(again.length).toBeLessThanOrEqual(20);
}

describe('an audit that was stopped', () => {
  it('by Ctrl-C exits with 130 and the command to continue, which repeats no recorded request; other commands leave it alone', async () => {
    const sim = await codesMarket(mirror());
    const codes = codesOf(sim, 200);
    const running = await startCheck(sim, codes);
    running.process.kill('SIGINT');
    const { code, stdout, stderr } = await running.ended;
    expect(code).toBe(130);
    expect(stdout).toBe('');
    const id = await mirror().newestAudit();
    expect(stderr).toMatch(
      new RegExp(`stopping; all answers are kept; to continue:\n→ .*audits resume ${id}\n$`),
    );
    const shown = await run(['audits', 'show', id], settings(mirror().databaseUrl, sim.url));
    expect(shown.stdout).toMatch(
      new RegExp(`^check ${id} · main · list-\\d+\\.csv · unfinished\n`),
    );
    expect(shown.stdout).toContain(`audits resume ${id}`);

    const before = validatedCodes(sim).length;
    const others = fileWith(
      ['code', ...Array.from({ length: 30 }, (_, n) => `of-another-list-${n}`)].join('\n'),
    );
    const env = settings(mirror().databaseUrl, sim.url);
    const next = await run(['codes', 'check', others, '--yes'], env);
    expect(next.code, next.stderr).toBe(0);
    // Only codes that are known to be valid, which prove the key.
    const foreign = validatedCodes(sim)
      .slice(before)
      .filter((one) => codes.includes(one));
    const done = await settled();
    expect(foreign.filter((one) => !done.has(one) || !isValid(sim, one))).toEqual([]);
    expect(foreign.length).toBeLessThanOrEqual(10);
    await expectResumes(sim, codes, id);
  });

  it('by Ctrl-C twice costs no more calls than one that was not stopped, but for a few', async () => {
    const [count, stops] = [1_600, [400, 1_000]];
    const sim = await codesMarket(mirror(), { purchases: count });
    const list = fileWith(['code', ...codesOf(sim, count)].join('\n'));
    const env = settings(mirror().databaseUrl, sim.url);
    let args: readonly string[] = ['codes', 'check', list];
    for (const requests of stops) {
      const running = start(args, env);
      sim.afterRequests(requests - sim.requestCount, () => running.process.kill('SIGINT'));
      expect((await running.ended).code).toBe(130);
      args = ['audits', 'resume', await mirror().newestAudit()];
    }
    const { code, stderr } = await run(args, env);
    expect(code, stderr).toBe(0);
    expect((await settled()).size).toBe(count);
    // Each tenth code is denied. Each stop proves the key once more, and repeats calls under way.
    const denied = count / 10;
    const proofs = 0.12 * denied + 0.02 * count + 4;
    expect(sim.requestCount).toBeLessThanOrEqual(count + denied + proofs + stops.length * 20);
  });

  it('by a second Ctrl-C exits although the store hangs, and loses nothing', async () => {
    const sim = await codesMarket(mirror());
    const codes = codesOf(sim, 200);
    const running = await startCheck(sim, codes);
    const holder = await mirror().pool.connect();
    try {
      await holder.query('BEGIN');
      await holder.query('LOCK TABLE mirror.audits IN ACCESS EXCLUSIVE MODE');
      // Otherwise it may have recorded all answers, and need not wait for the store.
      await until(isWaitingForLock);
      running.process.kill('SIGINT');
      expect(await Promise.race([running.ended, sleep(1_000, 'still running')])).toBe(
        'still running',
      );
      running.process.kill('SIGINT');
      expect((await running.ended).code).toBe(130);
    } finally {
      await holder.query('ROLLBACK');
      holder.release();
    }
    await expectResumes(sim, codes);
  });

  it('by kill -9 can be resumed at once', async () => {
    const sim = await codesMarket(mirror());
    const codes = codesOf(sim, 200);
    const running = await startCheck(sim, codes);
    running.process.kill('SIGKILL');
    await running.ended;
    await expectResumes(sim, codes);
  });

  it('because the key was revoked has no invalid code, and can be resumed when the key works', async () => {
    const sim = await codesMarket(mirror());
    const codes = codesOf(sim, 120);
    const running = await startCheck(sim, codes);
    sim.faults.always('validate', { kind: 'key-refused' });
    sim.faults.always('account', { kind: 'key-refused' });
    await until(() => running.stderr().includes('\npaused'));
    running.process.kill('SIGINT');
    const { code, stderr } = await running.ended;
    expect(code).toBe(130);
    expect(stderr).toMatch(/^paused until \S+ \S+: the marketplace refused the API key/m);
    sim.faults.clear();
    await expectResumes(sim, codes);
  });
});

describe('a workbook for a list of more lines than a sheet has rows', () => {
  it('is refused before the first request', async () => {
    const sim = await codesMarket(mirror());
    const [list, out] = [fileWith('a-code\n'.repeat(1_048_576)), freePath('xlsx')];
    const env = settings(mirror().databaseUrl, sim.url);
    const { code, stderr } = await run(['codes', 'check', list, '--yes', '--out', out], env);
    expect(stderr).toContain('has room for 1,048,575 rows, and these are 1,048,576\n  → ');
    expect(code).toBe(2);
    expect(sim.log).toEqual([]);
    expect(existsSync(out)).toBe(false);
    expect(await mirror().rows('SELECT FROM mirror.audits')).toEqual([]);
  });
});

describe('the result of an audit that was stopped', () => {
  /** Stops `codes check --out …` in its own folder. `hint` is the printed command that continues. */
  async function stopped(sim: Simulator, out: string, ...more: string[]) {
    const [place, elsewhere] = [mkdtempSync(join(folder(), 'here-')), folder()];
    const list = fileWith(['code', ...codesOf(sim, 120)].join('\n'));
    const slow = settings(mirror().databaseUrl, sim.url, { REQUESTS_PER_MINUTE: '1800' });
    const running = start(['codes', 'check', list, '--out', out, ...more], slow, place);
    await until(async () => running.process.exitCode !== null || (await settled()).size >= 20);
    running.process.kill('SIGINT');
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(130);
    const hint = /\n→ .* (audits resume .*)\n$/.exec(stderr)?.[1]?.split(' ') ?? [];
    const env = settings(mirror().databaseUrl, sim.url);
    return { place, elsewhere, env, hint, id: await mirror().newestAudit() };
  }

  it('is written once to the original file, by the printed command in any folder', async () => {
    const sim = await codesMarket(mirror());
    const { place, elsewhere, env, hint, id } = await stopped(sim, 'result.csv', '--decimal-comma');
    const path = join(realpathSync(place), 'result.csv');
    const shown = await run(['audits', 'show', id], env);
    expect(shown.stdout).toMatch(new RegExp(`\nresult +will be in ${path}\n`));
    expect(existsSync(path)).toBe(false);
    const resumed = await run(hint, env, { cwd: elsewhere });
    expect(resumed.code, resumed.stderr).toBe(0);
    expect(resumed.stdout).toContain(`  result: ${path}\n`);
    const lines = readFileSync(path, 'utf8').trimEnd().split('\r\n');
    expect(lines).toHaveLength(121);
    expect(lines.join('\n')).toMatch(/;\d+,\d\d;/);
    const json = await run(['audits', 'show', id, '--json'], env);
    const result = {
      path,
      format: 'csv',
      decimal_comma: true,
      written_at: expect.stringMatching(/Z$/),
    };
    expect(JSON.parse(json.stdout)).toMatchObject({ audit: { result } });
    writeFileSync(path, 'edited since');
    const again = await run(hint, env);
    expect(again.stdout).toContain(`  result: ${path}\n`);
    expect(readFileSync(path, 'utf8')).toBe('edited since');
  });

  it('can be written to another file if the folder is gone, which is reported before any request', async () => {
    const sim = await codesMarket(mirror());
    const { place, env, hint, id } = await stopped(sim, 'result.csv');
    rmSync(place, { recursive: true });
    const asked = sim.log.length;
    const refused = await run(hint, env);
    expect(refused.stderr).toMatch(
      /^error: the result of check \d+ can’t be written to ".*\/result\.csv": there is no such folder\n {2}→ .*--out/,
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

  it('is written by `audits resume` after other processes have finished the audit', async () => {
    const sim = await codesMarket(mirror());
    const { place, env, hint, id } = await stopped(sim, 'result.json');
    const both = await run([...hint, '--detach', '--out', 'x.csv'], env);
    expect(both.stderr).toMatch(
      /^error: option '--detach' cannot be used with option '-o, --output/,
    );
    const left = await run([...hint, '--detach'], env);
    expect(left.stdout).toMatch(
      /→ .*audits resume \d+ {3}\(works on it here, or watches; it writes .*result\.json\)\n/,
    );
    const worker = start(['worker'], { ...env, HEALTH_LISTEN: 'off' });
    await until(async () => {
      const rows = await mirror().rows(`SELECT FROM mirror.audits WHERE state = 'finished'`);
      return rows.length > 0;
    });
    worker.process.kill('SIGTERM');
    await worker.ended;
    const shown = await run(['audits', 'show', id], env);
    expect(shown.stdout).toMatch(/\nresult +will be in .*\/result\.json\n/);
    expect(shown.stdout).toContain(`audits resume ${id}`);
    expect((await run(hint, env)).code).toBe(0);
    expect(JSON.parse(readFileSync(join(place, 'result.json'), 'utf8'))).toHaveLength(120);
  });

  it('is printed by the printed command if it was meant for stdout', async () => {
    const sim = await codesMarket(mirror());
    const { env, hint } = await stopped(sim, '-');
    const resumed = await run(hint, env);
    expect(resumed.code, resumed.stderr).toBe(0);
    expect(cellsOf(resumed.stdout)).toHaveLength(121);
  });
});
