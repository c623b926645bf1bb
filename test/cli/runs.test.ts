import { describe, expect, it } from 'vitest';
import { syncCatalogue } from '../../src/jobs/sync-catalogue.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import { run, settings } from './support.js';

const mirror = useMirror();

/** Two runs; the second met a record that can't be read. */
async function twoRuns(): Promise<bigint> {
  const catalogue = seededCatalogue({ seed: 3, count: 12 });
  const sim = await mirror().simulate({
    sellers: [{ key: KEY, username: 'ada', catalogue }],
    profile: 'field-2',
  });
  const deps = mirror().deps(sim.url);
  await syncCatalogue(deps, never);
  catalogue.breakRecord(
    1003,
    `{"id":1003,"name":"\u001B]0;owned\u0007","price":"${'x'.repeat(5000)}"}`,
  );
  return (await syncCatalogue(deps, never)).runId;
}

describe('runs', () => {
  it('lists the newest first, as many as wanted', async () => {
    const newest = await twoRuns();
    const env = { DATABASE_URL: mirror().databaseUrl };
    const { code, stdout } = await run(['runs', '--limit', '1'], env);
    expect(code).toBe(0);
    const [head, first, ...rest] = stdout.trimEnd().split('\n');
    expect(head).toMatch(/^ *run +seller +kind +state +started/);
    expect(first).toMatch(new RegExp(`^ *${newest} +main +items +succeeded`));
    expect(rest).toEqual([]);
  });

  it('shows one whole: figures, warnings, quirks, and records it could not read, shortened', async () => {
    const id = await twoRuns();
    const env = { DATABASE_URL: mirror().databaseUrl };
    const { code, stdout } = await run(['runs', String(id)], env);
    expect(code).toBe(0);
    expect(stdout).toContain(`run ${id} · main · items · succeeded`);
    expect(stdout).toMatch(/^listed +12$/m);
    expect(stdout).toMatch(/^quarantined +1$/m);
    expect(stdout).toContain('could not be read and are in mirror.quarantine');
    expect(stdout).toContain('envelope.items-object');
    expect(stdout).toMatch(/item 1003: .*\n {4}\{"id":1003,"name":"","price":"x+…\n/);
    expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThan(400);
    const json = await run(['runs', String(id), '--json'], env);
    expect(JSON.parse(json.stdout)).toMatchObject({
      run: { run_id: Number(id), quarantined: 1 },
      quarantine: [{ item_id: 1003, raw: expect.stringMatching(/^\{"id":1003.*…$/s) as string }],
    });
  });

  it('says so when there is no such run', async () => {
    const { code, stderr } = await run(['runs', '4711'], { DATABASE_URL: mirror().databaseUrl });
    expect(stderr).toBe('error: there is no run 4711\n  → `seller-mirror runs` lists them\n');
    expect(code).toBe(1);
  });
});

/** Forty items, of which twenty are gone, one with a hostile name; all others got a new price. */
async function held(more: Readonly<Record<string, string>> = {}) {
  const catalogue = seededCatalogue({ seed: 3, count: 40 });
  catalogue.change(1001, { name: 'Evil \u001B]0;owned\u0007\u202E name' });
  const sim = await mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
  const env = settings(mirror().databaseUrl, sim.url, more);
  await syncCatalogue(mirror().deps(sim.url), never);
  for (const { id } of [...catalogue.truth()]) {
    if (id <= 1020) catalogue.remove(id);
    else catalogue.change(id, { priceRegularCents: 100 });
  }
  const sync = await run(['sync', 'items'], env);
  const [newest] = await mirror().rows<{ id: string }>('SELECT max(run_id) AS id FROM mirror.runs');
  return { env, sync, id: newest?.id ?? '' };
}

describe('a held run', () => {
  it('is told with names and both remedies by sync, status and runs, beside what changed everywhere', async () => {
    const { env, sync, id } = await held();
    expect(sync.code).toBe(3);
    const sentence = '20 of 40 items are no longer listed (1001 Evil';
    const [approve, reject] = [
      `seller-mirror runs approve ${id}`,
      `seller-mirror runs reject ${id}`,
    ];
    const wide = 'price_regular changed in all 20 items';
    const status = await run(['status'], env);
    const details = await run(['runs', 'show', id], env);
    for (const { stdout } of [sync, status, details]) {
      for (const words of [sentence, 'and 17 more', approve, reject, wide]) {
        expect(stdout).toContain(words);
      }
      expect(stdout).not.toMatch(/(?!\n)\p{Cc}|\u202E/u);
    }
    expect(status.stdout).toMatch(/^! main · current/m);
    expect(status.stdout).toMatch(/^ {2}held +.*run \d+ \(items, held\)/m);
    const json = await run(['status', '--json'], env);
    expect(JSON.parse(json.stdout)).toMatchObject([
      {
        last_problem: { problem_code: 'held', held: { items: 20, confirmed: 20, present: 40 } },
        last_wide: { changes: [{ field: 'price_regular', items: 20, of: 20 }] },
      },
    ]);
  });

  it('is settled by approve, which says what it did and is no harm twice', async () => {
    const { env, id } = await held();
    const { code, stdout } = await run(['runs', 'approve', id], env);
    expect(stdout).toMatch(
      new RegExp(`^✓ main · run ${id} approved: 20 of 20 items removed \\(run \\d+\\)\n$`),
    );
    expect(code).toBe(0);
    const again = await run(['runs', 'approve', id, '--json'], env);
    expect(again.code).toBe(0);
    expect(JSON.parse(again.stdout)).toMatchObject({
      ...{ run_id: Number(id), decision: 'approved', already: true, removed: 0 },
      decided_by: expect.stringMatching(/ on /) as string,
    });
    const status = await run(['status'], env);
    expect(status.stdout).toContain('20 live · 0 missing · 20 removed');
    expect(status.stdout).not.toMatch(/held|remedy/);
    expect((await run(['runs', 'show', id], env)).stdout).toMatch(
      /approved at .* by .*; run \d+ carried/,
    );
    const late = await run(['runs', 'reject', id], env);
    expect(late.stderr).toMatch(/^error: run \d+ was approved already.*\n {2}→ /);
    expect(late.code).toBe(1);
  });

  it('is settled by reject, which keeps the items missing', async () => {
    const { env, id } = await held();
    const { code, stdout } = await run(['runs', 'reject', id], env);
    expect(stdout).toContain(`run ${id} rejected: 20 items stay missing`);
    expect(code).toBe(0);
    expect((await run(['sync', 'items'], env)).code).toBe(0);
    expect((await run(['status'], env)).stdout).toContain('20 live · 20 missing · 0 removed');
  });

  it('is told by reject as it is after an approval that could not remove all', async () => {
    const { env, id } = await held({ LOOKUPS_PER_RUN: '12' });
    const approved = await run(['runs', 'approve', id], env);
    expect(approved.stdout).toContain(`run ${id} approved: 12 of 20 items removed`);
    const { code, stdout } = await run(['runs', 'reject', id], env);
    expect(stdout).toMatch(
      /rejected: 8 items stay missing\n {2}12 removed before, by run \d+ when it was approved, /,
    );
    expect(code).toBe(0);
    expect((await run(['runs', 'show', id], env)).stdout).toMatch(
      /rejected at .* by .*; run \d+ removed items before, when it was approved\n/,
    );
  });

  it('waits while a run works for the seller, and names it', async () => {
    const { env, id } = await held();
    const lock = await mirror().store.sellers.lock('main');
    const { code, stderr } = await run(['runs', 'approve', id], env);
    await lock.release();
    expect(stderr).toMatch(/^error: seller "main" is being mirrored already by .*\n {2}→ /);
    expect(code).toBe(1);
  });

  it.each([
    ['4711', 1, /there is no run 4711\n {2}→ `seller-mirror runs`/],
    ['0', 2, /Runs are numbered/],
    ['twelve', 2, /Runs are numbered/],
  ])('that does not exist, %s, ends with %d', async (id, exitCode, why) => {
    const { code, stderr } = await run(['runs', 'approve', id], {
      DATABASE_URL: mirror().databaseUrl,
    });
    expect(stderr).toMatch(why);
    expect(code).toBe(exitCode);
  });
});
