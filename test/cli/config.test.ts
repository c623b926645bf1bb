import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { KEY, useMirror } from '../support/mirror.js';
import { marketOf, run, settings } from './support.js';

it('config shows settings and their sources, as a table or JSON, and exits with 2 when one is wrong', async () => {
  const env = settings('postgres://a:pa55word@db/x', 'https://market.example');
  const good = await run(['config'], env);
  expect(good.stdout).toMatch(/^MARKETPLACE_API_KEY +set \(secret\) +environment$/m);
  expect(good.stdout).toMatch(/^SYNC_CRON +0 2 \* \* \* +default$/m);
  expect(good.stdout).toMatch(/^Not set: .*REDIS_URL/m);
  expect(good.code).toBe(0);
  const wrong = await run(['config', '--json'], { ...env, SYNC_CRON: 'at night' });
  const report = JSON.parse(wrong.stdout) as Record<string, unknown>;
  expect(report).toMatchObject({
    problems: [expect.stringMatching(/^SYNC_CRON "at night" /)],
    warnings: [],
    sellers: [],
  });
  expect(report['settings']).toContainEqual({
    name: 'DATABASE_URL',
    value: null,
    from: 'environment',
    is_secret: true,
  });
  expect(wrong.code).toBe(2);
  expect(good.stdout + wrong.stdout).not.toContain('pa55word');
});

const mirror = useMirror();

/** A folder with a key file that everybody can read, and settings that name it. */
async function exposedKey() {
  const { sim } = await marketOf(mirror(), 2);
  const cwd = mkdtempSync(join(tmpdir(), 'seller-mirror-exposed-'));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  writeFileSync(join(cwd, 'main.key'), KEY);
  chmodSync(join(cwd, 'main.key'), 0o644);
  const env = {
    DATABASE_URL: mirror().databaseUrl,
    MARKETPLACE_URL: sim.url,
    MARKETPLACE_API_KEY_FILE: 'main.key',
    REQUESTS_PER_MINUTE: '0',
  };
  return { cwd, env };
}

it('commands that use a key warn once a day that everybody can read its file; nobody reads a constant warning', async () => {
  const { cwd, env } = await exposedKey();
  const isWarned = async (...args: string[]): Promise<boolean> => {
    const { code, stderr } = await run(args, env, { cwd });
    expect(code, stderr).toBe(0);
    return stderr.includes('main.key" can be read by every user of this machine: run chmod 600');
  };
  expect(await isWarned('sql', 'select 1')).toBe(false);
  expect(await isWarned('sync', 'account')).toBe(true);
  expect(await isWarned('sync', 'account')).toBe(false);
  const yesterday = new Date(Date.now() - 25 * 3_600_000);
  utimesSync(join(cwd, 'data', 'exposed-secrets.txt'), yesterday, yesterday);
  expect(await isWarned('sync', 'account')).toBe(true);
  const doctor = await run(['doctor'], env, { cwd });
  expect(doctor.stdout).toMatch(/^! configuration: .*main\.key" can be read/m);
});

it('the record of that warning is never written through a link, which could overwrite another file', async () => {
  const { cwd, env } = await exposedKey();
  const target = join(cwd, 'target.txt');
  writeFileSync(target, 'untouched');
  mkdirSync(join(cwd, 'data'));
  const record = join(cwd, 'data', 'exposed-secrets.txt');
  symlinkSync(target, record);
  const { code, stderr } = await run(['sync', 'account'], env, { cwd });
  expect(code, stderr).toBe(0);
  expect(stderr).toContain('run chmod 600');
  expect(readFileSync(target, 'utf8')).toBe('untouched');
  expect(lstatSync(record).isFile()).toBe(true);
  expect(lstatSync(record).mode & 0o777).toBe(0o600);
});
