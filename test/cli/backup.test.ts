import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { syncAccount } from '../../src/catalogue/account.js';
import { ensureSeller } from '../../src/catalogue/sellers-store.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import { query } from '../support/postgres.js';
import { database, rowsIn } from '../db/backup/support.js';
import { folder, marketOf, run, settings } from './support.js';

const mirror = useMirror();
const matching = (pattern: RegExp) => expect.stringMatching(pattern) as string;

/** A mirror of a few items, and its settings. */
async function mirrored(): Promise<{ url: string; env: Readonly<Record<string, string>> }> {
  const { sim, deps, sync, env } = await marketOf(mirror());
  await syncAccount(deps, never);
  await sync();
  return { url: sim.url, env };
}

describe('backup and restore', () => {
  it('copy a mirror into another store, which is then current and can sync', async () => {
    const { url, env } = await mirrored();
    const file = join(folder(), 'mirror.tar.gz');
    const backup = await run(['backup', file], env);
    expect(backup.stdout).toMatch(
      /^✓ .*mirror\.tar\.gz · [\d.]+ kB in .*\n {2}the state of .*Z: 1 seller · 12 items · 2 runs\n$/,
    );
    expect(backup.code).toBe(0);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(gunzipSync(readFileSync(file)).includes(KEY)).toBe(false);

    const target = await database();
    const other = { ...settings(target.url, url) };
    expect((await run(['restore', file], other)).stdout).toContain('sync` brings it up to date');
    expect(await rowsIn(target.url)).toEqual(await rowsIn(mirror().databaseUrl));
    const status = await run(['status'], other);
    expect(status.stdout).toMatch(/items +12 live/);
    const sync = await run(['sync'], other);
    expect(sync.stdout + sync.stderr).toContain('12 unchanged');
    const again = await run(['restore', file, '--json'], other);
    expect(again.stderr).toContain('error: the store has data\n  → Use --replace');
    expect(again.code).toBe(1);
  });

  it('explain what is wrong with a file, and leave nothing behind', async () => {
    const env = { DATABASE_URL: mirror().databaseUrl };
    const list = join(folder(), 'customers.csv');
    writeFileSync(list, 'name;code\nada;x\n');
    expect(await run(['restore', list], env)).toMatchObject({
      code: 1,
      stderr: matching(/^error: .*customers\.csv is not a seller-mirror backup\n {2}→ .*\n$/),
    });
    const whole = join(folder(), 'whole.tar.gz');
    await run(['backup', whole, '--json'], env);
    const check = await run(['restore', whole, '--check', '--json'], env);
    expect(JSON.parse(check.stdout)).toMatchObject({ restored: false, rows: { items: 0 } });
    const empty = await database({ empty: true });
    const file = join(folder(), 'never.tar.gz');
    expect(await run(['backup', file], { DATABASE_URL: empty.url })).toMatchObject({
      code: 1,
      stderr: matching(/there is no mirror in this database yet/),
    });
    expect(existsSync(file)).toBe(false);
  });
});

describe('prune', () => {
  it('shows what it would delete, then deletes it; without a setting it deletes nothing', async () => {
    const { env } = await mirrored();
    expect(await run(['prune'], env)).toMatchObject({
      code: 0,
      stdout: matching(/^Everything is kept forever/),
    });
    await query(
      mirror().databaseUrl,
      `INSERT INTO mirror.runs (seller_id, kind, state, started_at, finished_at, holder)
       SELECT 'main', 'account', 'failed', '2020-01-01Z', '2020-01-01Z', 'a test' FROM generate_series(1, 3)`,
      `UPDATE mirror.runs SET run_id = -run_id WHERE state = 'failed'`,
    );
    const days = { ...env, KEEP_RUNS_DAYS: '90' };
    const dry = await run(['prune', '--dry-run'], days);
    expect(dry.stdout).toMatch(/^runs +\d{4}-.*Z +3 +\d+ B$/m);
    expect(dry.stdout).toMatch(/This would delete 3 rows, about \d+ B\. Nothing was deleted\.\n$/);
    expect((await run(['prune', '--json'], days)).stdout).toContain('"rows": 3');
    expect((await run(['prune'], days)).stdout).toBe('There is nothing to delete.\n');
  });

  it('with --seller deletes rows of that seller only, since others may keep theirs', async () => {
    const { env } = await mirrored();
    await ensureSeller(mirror().db, 'other', 'example.com');
    await query(
      mirror().databaseUrl,
      `INSERT INTO mirror.runs (seller_id, kind, state, started_at, finished_at, holder)
       SELECT seller_id, 'account', 'failed', '2020-01-01Z', '2020-01-01Z', 'a test'
         FROM unnest(ARRAY['main', 'other']) AS s (seller_id), generate_series(1, 3)`,
      `UPDATE mirror.runs SET run_id = -run_id WHERE state = 'failed'`,
    );
    await run(['prune', '--seller', 'main'], { ...env, KEEP_RUNS_DAYS: '90' });
    const left = await mirror().rows(
      `SELECT seller_id, count(*)::int AS runs FROM mirror.runs WHERE run_id < 0 GROUP BY seller_id`,
    );
    // One of them is the other seller’s newest run, but two would be deleted without --seller.
    expect(left).toEqual([{ seller_id: 'other', runs: 3 }]);
  });
});
