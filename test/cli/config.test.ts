import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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
  expect(good.stdout).toMatch(/^REPLY_INVALID +Hello \{name\},.*… +default$/m);
  const lines = good.stdout.split('\n').filter((line) => !line.startsWith('Not set'));
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(120);
  expect(good.stdout).toMatch(/^Not set: .*REDIS_URL/m);
  expect(good.code).toBe(0);
  const wrong = await run(['config', '--json'], { ...env, SYNC_CRON: 'at night' });
  const report = JSON.parse(wrong.stdout) as Record<string, unknown>;
  expect(report).toMatchObject({
    problems: [expect.stringMatching(/^SYNC_CRON has 2 fields instead of 5 /)],
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

it('doctor warns that everybody can read the file of a key; commands do not repeat it', async () => {
  const { cwd, env } = await exposedKey();
  const sync = await run(['sync', 'account'], env, { cwd });
  expect(sync).toMatchObject({ code: 0, stderr: expect.not.stringContaining('chmod') });
  const doctor = await run(['doctor'], env, { cwd });
  expect(doctor.stdout).toMatch(
    /^! configuration: MARKETPLACE_API_KEY_FILE can be read by every user .*\n.*main\.key$/m,
  );
});
