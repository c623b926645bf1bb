import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { query, trialDataDir } from '../store/embedded/trial.js';
import { run } from './support.js';

describe('db', () => {
  it('keeps the embedded server up for other tools until it is told to stop', async () => {
    const env = { DATA_DIR: await trialDataDir('db') };
    expect(await run(['db', 'url'], env)).toMatchObject({ code: 1, stdout: '' });

    const started = await run(['db', 'start'], env);
    expect(started.code).toBe(0);
    const psql = /^ {2}psql "\$\((.* db url)\)"$/m.exec(started.stdout)?.[1] ?? '';
    expect(psql).toMatch(/^DATA_DIR=\S*data \S/);

    const { stdout } = await run(['db', 'url'], env);
    const address = new URL(stdout);
    // The password is shown where it is asked for, and nowhere else.
    expect(address.password).not.toBe('');
    expect(started.stdout).not.toContain(address.password);
    expect(started.stdout).toMatch(new RegExp(`^ {2}port +${address.port}$`, 'm'));
    expect(await query(stdout.trim(), 'SELECT count(*)::int AS n FROM reporting.items')).toEqual([
      { n: 0 },
    ]);

    const asked = await run(['sql', '--format', 'ndjson', 'select current_user as role'], env);
    expect(asked.stdout).toMatch(/^\{"role":"mirror_reader_\d+"\}\n$/);

    const status = await run(['db', 'status', '--json'], env);
    expect(JSON.parse(status.stdout)).toMatchObject({
      held: true,
      server: { port: Number(address.port), sessions: [] },
    });
    expect(status.stdout).not.toContain(address.password);

    expect(await run(['db', 'stop', '--now'], env)).toMatchObject({
      code: 0,
      stdout: 'The embedded server is stopped.\n',
    });
    expect((await run(['db', 'status'], env)).stdout).toMatch(/^server +not running$/m);
  });

  it.each(['start', 'stop', 'url', 'status'])(
    'has nothing to %s when DATABASE_URL is set, and does not print that address',
    async (command) => {
      const env = { DATABASE_URL: 'postgres://ada:pa55word@db.example/x' };
      const { code, stdout, stderr } = await run(['db', command], env);
      expect(stderr).toMatch(/^error: DATABASE_URL is set, so there is no embedded server/);
      expect(stdout + stderr).not.toContain('pa55word');
      expect(code).toBe(2);
    },
  );

  it('says what is wrong with a data folder', async () => {
    const dataDir = await trialDataDir('file');
    writeFileSync(dataDir, 'a file');
    const { code, stderr } = await run(['db', 'start'], { DATA_DIR: join(dataDir, 'below') });
    expect(stderr).toMatch(/^error: .*\n {2}→ .*DATA_DIR.*\n$/);
    expect(code).toBe(1);
  });
});
