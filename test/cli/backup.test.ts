import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { syncAccount } from '../../src/jobs/sync-account.js';
import { syncCatalogue } from '../../src/jobs/sync-catalogue.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import { database, execute, rowsIn } from '../store/backup/support.js';
import { folder, run, settings, start, until } from './support.js';

const mirror = useMirror();

/** A mirror of a few items, and its settings. */
async function mirrored(): Promise<{ url: string; env: Record<string, string> }> {
  const catalogue = seededCatalogue({ seed: 3, count: 12 });
  const sim = await mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
  await syncAccount(mirror().deps(sim.url), never);
  await syncCatalogue(mirror().deps(sim.url), never);
  return { url: sim.url, env: { ...settings(mirror().databaseUrl, sim.url) } };
}

describe('backup and restore', () => {
  it('bring a mirror into another store, where it is current and goes on', async () => {
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
    expect(again.stderr).toContain('error: the store has data\n  → Say --replace');
    expect(again.code).toBe(1);
  });

  it('say what is wrong with a name or a file, and leave nothing behind', async () => {
    const env = { DATABASE_URL: mirror().databaseUrl };
    const nowhere = join(folder(), 'nowhere', 'mirror.tar.gz');
    const backup = await run(['backup', nowhere], env);
    expect(backup.stderr).toContain('there is no such folder');
    expect(backup.code).toBe(2);
    const dash = await run(['backup', '-'], env);
    expect(dash.stderr).toContain('not to stdout');
    expect(dash.code).toBe(2);
    const missing = await run(['restore', nowhere], env);
    expect(missing.stderr).toContain('there is no such file');
    expect(missing.code).toBe(2);
    const list = join(folder(), 'kunden.csv');
    writeFileSync(list, 'name;code\nada;x\n');
    const other = await run(['restore', list], env);
    expect(other.stderr).toMatch(
      /^error: .*kunden\.csv is not a seller-mirror backup\n {2}→ .*\n$/,
    );
    expect(other.code).toBe(1);
    const whole = join(folder(), 'whole.tar.gz');
    await run(['backup', whole, '--json'], env);
    const check = await run(['restore', whole, '--check', '--json'], env);
    expect(JSON.parse(check.stdout)).toMatchObject({ restored: false, rows: { items: 0 } });
    const empty = await database({ empty: true });
    const file = join(folder(), 'never.tar.gz');
    const none = await run(['backup', file], { DATABASE_URL: empty.url });
    expect(none.stderr).toContain('there is no mirror in this database yet');
    expect(none.code).toBe(1);
    expect(existsSync(file)).toBe(false);
  });

  it('killed in the middle of a restore, leave the store as it was', async () => {
    await mirror().store.sellers.ensure('main', 'example.com');
    await execute(
      mirror().databaseUrl,
      `INSERT INTO mirror.purchase_codes (seller_id, code, raw)
       SELECT 'main', 'code-' || n, jsonb_build_object('n', repeat(md5(n::text), 20))
         FROM generate_series(1, 60000) n`,
    );
    const file = join(folder(), 'large.tar.gz');
    expect((await run(['backup', file], { DATABASE_URL: mirror().databaseUrl })).code).toBe(0);
    const target = await database();
    await execute(
      target.url,
      `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('mine', 'x')`,
    );
    const before = await rowsIn(target.url);
    const restoring = start(['restore', file, '--replace'], { DATABASE_URL: target.url });
    const copying = `SELECT FROM pg_stat_activity WHERE datname = current_database()
      AND application_name = 'seller-mirror restore' AND query LIKE 'COPY mirror."purchase_codes"%'`;
    const present = `SELECT FROM pg_stat_activity WHERE datname = current_database()
      AND application_name = 'seller-mirror restore'`;
    await until(async () => (await execute(target.url, copying)).length > 0);
    restoring.process.kill('SIGKILL');
    await restoring.ended;
    await until(async () => (await execute(target.url, present)).length === 0);
    expect(await rowsIn(target.url)).toEqual(before);
  });
});

describe('prune', () => {
  it('says what would go, then lets it go, and keeps everything unless a setting says otherwise', async () => {
    const { env } = await mirrored();
    const nothing = await run(['prune'], env);
    expect(nothing.stdout).toContain('Everything is kept for ever');
    expect(nothing.code).toBe(0);
    await execute(
      mirror().databaseUrl,
      `INSERT INTO mirror.runs (seller_id, kind, state, started_at, finished_at, holder)
       SELECT 'main', 'account', 'failed', '2020-01-01Z', '2020-01-01Z', 'a test' FROM generate_series(1, 3)`,
      `UPDATE mirror.runs SET run_id = -run_id WHERE state = 'failed'`,
    );
    const days = { ...env, KEEP_RUNS_DAYS: '90' };
    const dry = await run(['prune', '--dry-run'], days);
    expect(dry.stdout).toMatch(/^runs +\d{4}-.*Z +3 +\d+ B$/m);
    expect(dry.stdout).toMatch(/Would go: 3 rows, about \d+ B\. Nothing was deleted\.\n$/);
    expect((await run(['prune', '--json'], days)).stdout).toContain('"rows": 3');
    expect((await run(['prune'], days)).stdout).toBe('There is nothing to delete.\n');
    const stranger = await run(['prune', '--seller', 'nobody'], days);
    expect(stranger.stderr).toContain('the store knows no seller "nobody"');
    expect(stranger.code).toBe(2);
  });
});
