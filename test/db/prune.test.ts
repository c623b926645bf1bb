import { once } from 'node:events';
import { Client } from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  codesMarket,
  codesOf,
  fileWith,
  marketOf,
  printed,
  run,
  settings,
  start,
} from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { query } from '../support/postgres.js';

const mirror = useMirror();
const matching = (pattern: RegExp) => expect.stringMatching(pattern) as string;

type Environment = Readonly<Record<string, string>>;
const KEEP_A_DAY: Environment = {
  KEEP_RAW_DAYS: '1',
  KEEP_RUNS_DAYS: '1',
  KEEP_VERSIONS_DAYS: '1',
  KEEP_AUDITS_DAYS: '1',
};

/** Makes rows two days older. */
async function age(table: string, ...columns: readonly string[]): Promise<void> {
  const set = columns.map((name) => `${name} = ${name} - interval '2 days'`);
  await mirror().rows(`UPDATE mirror.${table} SET ${set.join(', ')}`);
}

interface Pruned {
  readonly what: string;
  readonly rows: number;
  readonly left: readonly string[];
}

/** Prunes everything older than a day. @returns what was pruned of one kind */
async function prune(what: string, env: Environment): Promise<Pruned | undefined> {
  const text = await printed(['prune', '--json'], { ...env, ...KEEP_A_DAY });
  const { pruned } = JSON.parse(text) as { pruned: readonly Pruned[] };
  return pruned.find((one) => one.what === what);
}

/** A marketplace whose items were mirrored once. */
async function mirrored(count = 12) {
  const market = await marketOf(mirror(), count);
  await printed(['sync'], market.env);
  return market;
}

/** Runs of two years ago, the newest of which is kept. */
const OLD_RUNS = (sellers: string, count: number): string => `
  INSERT INTO mirror.runs (seller_id, kind, state, started_at, finished_at, holder)
  SELECT seller_id, 'account', 'failed', '2020-01-01Z', '2020-01-01Z', 'a test'
    FROM unnest(ARRAY[${sellers}]) AS s (seller_id), generate_series(1, ${count})`;

describe('prune', () => {
  it('shows what it would delete, then deletes it, of one seller or of all; without a setting nothing', async () => {
    const { env } = await mirrored();
    expect(await printed(['prune'], env)).toMatch(/^Everything is kept forever/);
    await mirror().rows(
      `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('other', 'x')`,
    );
    await mirror().rows(OLD_RUNS(`'main', 'other'`, 3));
    await mirror().rows(`UPDATE mirror.runs SET run_id = -run_id WHERE state = 'failed'`);
    const days = { ...env, KEEP_RUNS_DAYS: '90' };
    const ofMain = ['prune', '--seller', 'main'];
    const dry = await printed([...ofMain, '--dry-run'], days);
    expect(dry).toMatch(/^runs +\d{4}-.*Z +3 +\d+ B$/m);
    expect(dry).toMatch(/This would delete 3 rows, about \d+ B\. Nothing was deleted\.\n$/);
    expect(await printed([...ofMain, '--json'], days)).toContain('"rows": 3');
    const left = await mirror().rows(
      `SELECT seller_id, count(*)::int AS runs FROM mirror.runs WHERE run_id < 0 GROUP BY seller_id`,
    );
    expect(left).toEqual([{ seller_id: 'other', runs: 3 }]);
    // The other seller’s newest run is kept.
    expect(await printed(['prune', '--json'], days)).toContain('"rows": 2');
    expect(await printed(['prune'], days)).toBe('There is nothing to delete.\n');
  });

  it('is done by one process at a time', async () => {
    const { env } = await mirrored(1);
    const other = new Client(mirror().databaseUrl);
    await other.connect();
    onTestFinished(() => other.end());
    await other.query(`SELECT pg_advisory_lock(hashtextextended('seller-mirror/prune', 0))`);
    expect(await run(['prune'], { ...env, ...KEEP_A_DAY })).toMatchObject({
      code: 1,
      stderr: matching(/^error: another process is pruning this store\n {2}→ wait/),
    });
  });

  it('continues the next time after Ctrl-C', async () => {
    const { env } = await mirrored(1);
    await mirror().rows(OLD_RUNS(`'main'`, 120_000));
    const running = start(['prune'], { ...env, ...KEEP_A_DAY });
    const pruning = () =>
      mirror().rows(`SELECT FROM pg_stat_activity WHERE query ~ 'pruned AS'
                          AND datname = current_database() AND pid <> pg_backend_pid()`);
    await expect.poll(pruning, { timeout: 30_000, interval: 5 }).not.toEqual([]);
    running.process.kill('SIGINT');
    await once(running.process, 'close');
    await prune('runs', env);
    expect(await mirror().rows(`SELECT FROM mirror.runs WHERE state = 'failed'`)).toHaveLength(1);
  });
});

describe('records as received', () => {
  it('are pruned without making an item look changed, also one that is synced alone', async () => {
    const { env } = await mirrored();
    const items = () => mirror().rows('SELECT * FROM reporting.items ORDER BY item_id');
    const before = await items();
    expect((await prune('items as received', env))?.rows ?? 0).toBe(0); // they are a minute old
    await age('items', 'changed_at', 'valid_from');
    const old = await items();
    expect(await prune('items as received', env)).toMatchObject({ rows: 12, left: [] });
    expect((await prune('items as received', env))?.rows ?? 0).toBe(0);
    for (const { item_id: id } of before.slice(0, 3)) {
      await printed(['sync', 'item', String(id)], env);
    }
    expect(await printed(['sync'], env)).toContain('12 unchanged');
    expect(await mirror().rows('SELECT * FROM mirror.item_changes')).toEqual([]);
    expect(await mirror().rows('SELECT * FROM mirror.account_versions')).toEqual([]);
    expect(await items()).toEqual(old);
  });

  it('that could not be read are pruned once later lists lack them', async () => {
    const { catalogue, env } = await marketOf(mirror());
    catalogue.breakRecord(1003, '{"id":1003,"name":"x","price":"x"}');
    await run(['sync'], env);
    await age('quarantine', 'last_seen_at');
    expect((await prune('records that could not be read', env))?.rows ?? 0).toBe(0);
    await mirror().rows('UPDATE mirror.quarantine SET last_run_id = 0');
    expect((await prune('records that could not be read', env))?.rows).toBe(1);
  });

  it('of purchases are pruned without a change that readers of changes would see', async () => {
    const { env } = await mirrored(1);
    await mirror().rows(
      `INSERT INTO mirror.purchase_codes (seller_id, code, verdict, purchase_seen_at, raw)
       VALUES ('main', 'a', 'valid', now() - interval '2 days', '{"x": 1}')`,
    );
    const rows = () =>
      mirror().rows('SELECT code, verdict, changed_seq FROM mirror.purchase_codes');
    const before = await rows();
    expect((await prune('purchases as received', env))?.rows).toBe(1);
    expect(await rows()).toEqual(before);
    expect(await mirror().rows('SELECT raw FROM mirror.purchase_codes')).toEqual([{ raw: null }]);
  });

  it('are skipped while a run writes items, which it finds by their place', async () => {
    const { env } = await mirrored();
    await age('items', 'changed_at', 'valid_from');
    const writer = new Client(mirror().databaseUrl);
    await writer.connect();
    onTestFinished(() => writer.end());
    await writer.query('BEGIN');
    await writer.query(
      `SELECT pg_advisory_xact_lock_shared(hashtextextended('seller-mirror/items/main', 0))`,
    );
    expect(await prune('items as received', env)).toMatchObject({ rows: 0, left: ['main'] });
    await writer.query('COMMIT');
    expect(await prune('items as received', env)).toMatchObject({ rows: 12 });
  });
});

describe('runs', () => {
  it('are kept if a row refers to them, if they are the newest of their kind, or if they were held', async () => {
    const { sim, env } = await marketOf(mirror());
    for (let night = 0; night < 4; night++) await printed(['sync', 'items'], env);
    sim.faults.always('any', { kind: 'key-refused' });
    for (let night = 0; night < 2; night++) await run(['sync', 'items'], env);
    await mirror().rows(`UPDATE mirror.runs SET state = 'held' WHERE run_id = (
      SELECT run_id FROM mirror.runs ORDER BY run_id OFFSET 1 LIMIT 1)`);
    await age('runs', 'started_at', 'finished_at');
    const runs = () => mirror().rows('SELECT run_id, state FROM mirror.runs ORDER BY run_id');
    const all = await runs();
    expect(all.map(({ state }) => state)).toEqual([
      ...['succeeded', 'held', 'succeeded', 'succeeded', 'failed', 'failed'],
    ]);
    expect((await prune('runs', env))?.rows).toBe(2);
    expect(await runs()).toEqual([0, 1, 3, 5].map((n) => all[n]));
    expect((await prune('runs', env))?.rows ?? 0).toBe(0);
  });

  it('that are pruned affect no report but the daily count of runs, whose comment says so', async () => {
    const { env } = await marketOf(mirror());
    for (let night = 0; night < 3; night++) await printed(['sync', 'items'], env);
    await mirror().rows(
      `UPDATE mirror.runs SET started_at = started_at - run_id * interval '1 day',
                              finished_at = finished_at - run_id * interval '1 day'`,
    );
    const reports = () =>
      query(
        mirror().databaseUrl,
        `SELECT to_jsonb(d) - 'runs' AS row FROM reporting.items_daily d
         UNION ALL SELECT to_jsonb(f) - 'account_age_seconds' - 'items_age_seconds' FROM reporting.freshness f
         UNION ALL SELECT to_jsonb(h) FROM reporting.item_history h`,
      );
    const before = await reports();
    await printed(['prune'], { ...env, KEEP_RUNS_DAYS: '1' });
    expect(await mirror().rows('SELECT FROM mirror.runs')).toHaveLength(2);
    expect(await reports()).toEqual(before);
    const [column] = await mirror().rows<{ comment: string }>(`
      SELECT col_description(attrelid, attnum) AS comment FROM pg_attribute
       WHERE attrelid = 'reporting.items_daily'::regclass AND attname = 'runs'`);
    expect(column?.comment).toContain('KEEP_RUNS_DAYS');
  });
});

describe('lists of checks', () => {
  it('are pruned once the check has ended, with figures, codes and checks kept; others keep everything', async () => {
    const market = await codesMarket(mirror());
    const env = settings(mirror().databaseUrl, market.url);
    const [a = '', b = '', c = '', d = '', e = ''] = codesOf(market, 12).slice(1);
    const check = (codes: readonly string[], ...more: string[]) =>
      run(['codes', 'check', fileWith(codes.join('\n'), 'txt'), '--yes', ...more], env);
    await check([a, b, c]);
    await check([a, d], '--detach');
    await check([e], '--detach');
    await printed(['audits', 'cancel', '3'], env);
    await age('audits', 'finished_at');
    const figures = () => printed(['audits', 'show', '1', '--json'], env);
    const before = JSON.parse(await figures()) as { audit?: object };
    expect((await prune('lists of finished checks', env))?.rows).toBe(3);
    expect((JSON.parse(await figures()) as { audit?: object }).audit).toEqual(before.audit);
    const left = await mirror().rows(
      `SELECT audit_id::int AS audit, count(*)::int AS rows FROM mirror.audit_entries GROUP BY 1 ORDER BY 1`,
    );
    expect(left).toEqual([
      { audit: 2, rows: 2 },
      { audit: 3, rows: 1 },
    ]);
    expect(await mirror().rows('SELECT FROM mirror.code_checks')).not.toEqual([]);
  });
});
