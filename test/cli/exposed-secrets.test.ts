import { chmodSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { seededCatalogue } from '../../src/simulator/index.js';
import { KEY, useMirror } from '../support/mirror.js';
import { run } from './support.js';

const mirror = useMirror();

it('a key file that everybody can read is told once a day by commands that use the key, since a warning with every command is read by nobody', async () => {
  const catalogue = seededCatalogue({ seed: 3, count: 2 });
  const sim = await mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
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
  const told = async (...args: string[]): Promise<boolean> => {
    const { code, stderr } = await run(args, env, { cwd });
    expect(code, stderr).toBe(0);
    return stderr.includes('main.key" can be read by every user of this machine: run chmod 600');
  };
  expect(await told('sql', 'select 1')).toBe(false);
  expect(await told('sync', 'account')).toBe(true);
  expect(await told('sync', 'account')).toBe(false);
  const yesterday = new Date(Date.now() - 25 * 3_600_000);
  utimesSync(join(cwd, 'data', 'exposed-secrets.txt'), yesterday, yesterday);
  expect(await told('sync', 'account')).toBe(true);
  const doctor = await run(['doctor'], env, { cwd });
  expect(doctor.stdout).toMatch(/^! configuration: .*main\.key" can be read/m);
});
