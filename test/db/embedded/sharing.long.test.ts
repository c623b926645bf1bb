import { readdir, rm, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { printed, start } from '../../cli/support.js';
import { query } from '../../support/postgres.js';
import { ask, connected, serverPid, statusOf, trialDataDir, urlOf, watcherPids } from './trial.js';

const PATIENT = { timeout: 30_000 };

describe('the embedded server is shared', () => {
  it('by four commands that start at the same time: one creates it, all use it', async () => {
    const DATA_DIR = await trialDataDir();
    const commands = [1, 2, 3, 4].map(() => start(['migrate'], { DATA_DIR }).ended);
    expect((await Promise.all(commands)).map(({ stderr }) => stderr)).toEqual(['', '', '', '']);
    expect(await readdir(DATA_DIR)).toEqual(['postgres']); // the slower commands left no drafts
    await connected(DATA_DIR);
    await expect.poll(() => watcherPids(DATA_DIR), PATIENT).toHaveLength(1);
  });

  it('without keeping the streams of the command that started it open, so that `demo | cat` ends', async () => {
    const DATA_DIR = await trialDataDir();
    // Resolves once nobody holds its output open.
    expect((await start(['migrate'], { DATA_DIR }).ended).code).toBe(0);
    expect(await serverPid(DATA_DIR)).not.toBeNull();
  });
});

describe('the embedded database', () => {
  it('is owned by a role that may create schemas but is no superuser, and needs a password that only the file’s owner can read', async () => {
    const DATA_DIR = await trialDataDir();
    await printed(['db', 'start'], { DATA_DIR });
    const url = await urlOf(DATA_DIR);
    expect(await query(url, 'SELECT rolsuper FROM pg_roles WHERE rolname = current_user')).toEqual([
      { rolsuper: false },
    ]);
    await query(url, 'CREATE SCHEMA mine');
    await expect(query(url, 'CREATE ROLE other')).rejects.toThrow(/permission denied/);
    const stranger = Object.assign(new URL(url), { password: 'guessed' });
    await expect(query(stranger.href, 'SELECT 1')).rejects.toThrow(/password authentication/);
    const { location } = await statusOf(DATA_DIR);
    expect((await stat(`${location}/credentials.json`)).mode & 0o777).toBe(0o600);
    const [settings] = await query(
      url,
      `SELECT current_setting('fsync') AS fsync, current_setting('data_checksums') AS checksums,
              current_setting('server_encoding') AS encoding`,
    );
    expect(settings).toEqual({ fsync: 'on', checksums: 'on', encoding: 'UTF8' });
  });
});

describe('a command that meets a stopping server', () => {
  it('gets it started again, and is never cut off', async () => {
    const dataDir = await trialDataDir();
    await ask(dataDir, 'select 1');
    // The server stops two to three seconds after its last session.
    for (let pause = 2_000; pause <= 3_000; pause += 200) {
      await sleep(pause);
      expect(await ask(dataDir, 'select 1 as one')).toBe('{"one":1}\n');
    }
  });
});

describe('the embedded server stops', () => {
  it('after `db stop` and once psql has disconnected, not while it is held; it comes back at the same address', async () => {
    // Also in a folder whose name has spaces, umlauts and quotes.
    const DATA_DIR = await trialDataDir(`Müller's "größe" $HOME `);
    await printed(['db', 'start'], { DATA_DIR });
    const url = await urlOf(DATA_DIR);
    await sleep(5_000); // longer than the idle time
    expect(await statusOf(DATA_DIR)).toMatchObject({ held: true, server: { sessions: [] } });
    const sleeping = query(url, 'SELECT pg_sleep(5), 1 AS done');
    expect(await printed(['db', 'stop'], { DATA_DIR })).toMatch(/stops (?:when|in a few seconds)/);
    expect(await sleeping).toMatchObject([{ done: 1 }]);
    await expect.poll(() => serverPid(DATA_DIR), PATIENT).toBeNull();
    expect(await statusOf(DATA_DIR)).toMatchObject({ held: false, server: null });
    await printed(['db', 'start'], { DATA_DIR });
    expect(await urlOf(DATA_DIR)).toBe(url);
  });

  it('at once with `db stop --now`, even with a command connected', async () => {
    const DATA_DIR = await trialDataDir();
    await connected(DATA_DIR);
    await printed(['db', 'stop', '--now'], { DATA_DIR });
    expect(await serverPid(DATA_DIR)).toBeNull();
  });

  it('when its files are deleted', async () => {
    const DATA_DIR = await trialDataDir();
    await connected(DATA_DIR);
    const { location, server } = await statusOf(DATA_DIR);
    await rm(location, { recursive: true, force: true, maxRetries: 20 });
    const isAlive = () => {
      try {
        return process.kill(server?.pid ?? 0, 0);
      } catch {
        return false;
      }
    };
    await expect.poll(isAlive, PATIENT).toBe(false);
  });
});

it('status and stop create nothing where there is no database', async () => {
  const DATA_DIR = await trialDataDir();
  expect(await statusOf(DATA_DIR)).toEqual({ location: null, held: false, server: null });
  expect(await printed(['db', 'stop'], { DATA_DIR })).toContain('is not running');
  await expect(readdir(DATA_DIR)).rejects.toThrow(/ENOENT/);
});
