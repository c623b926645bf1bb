import { readdir, rm, stat } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { describeEmbedded, hold, release } from '../../../src/db/embedded/index.js';
import { query } from '../../support/postgres.js';
import { watcherPids, open, serverPid, startCommand, trialDataDir } from './trial.js';

describe('the embedded server is shared', () => {
  it('by four commands that start at the same time: one creates it, all use it', async () => {
    const dataDir = await trialDataDir();
    const commands = [1, 2, 3, 4].map(() => startCommand(dataDir));
    const opened = await Promise.all(commands.map((command) => command.opened));
    expect(new Set(opened.map(({ url }) => url)).size).toBe(1);
    expect(await readdir(dataDir)).toEqual(['postgres']); // the slower commands left no drafts
    await expect
      .poll(() => watcherPids(opened[0]?.location ?? ''), { timeout: 30_000 })
      .toHaveLength(1);
  });

  it('in a folder whose name has spaces, umlauts and quotes', async () => {
    const database = await open(await trialDataDir(`Müller's "größe" $HOME `));
    expect(await query(database.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('without keeping the streams of the command that started it open, so that `demo | cat` ends', async () => {
    const dataDir = await trialDataDir();
    const command = startCommand(dataDir);
    const { location } = await command.opened;
    const other = await open(dataDir);
    expect(await command.end()).toBe(0); // resolves once nobody holds its output open
    expect(await serverPid(location)).not.toBeNull();
    await other.close();
  });
});

describe('the embedded database', () => {
  it('is owned by a role that may create schemas but is no superuser, and needs a password that only the file’s owner can read', async () => {
    const { url, location } = await open(await trialDataDir());
    expect(await query(url, 'SELECT rolsuper FROM pg_roles WHERE rolname = current_user')).toEqual([
      { rolsuper: false },
    ]);
    await query(url, 'CREATE SCHEMA mine');
    await expect(query(url, 'CREATE ROLE other')).rejects.toThrow(/permission denied/);
    const stranger = new URL(url);
    stranger.password = 'guessed';
    await expect(query(stranger.href, 'SELECT 1')).rejects.toThrow(
      /password authentication failed/,
    );
    expect((await stat(`${location}/credentials.json`)).mode & 0o777).toBe(0o600);
    // Durable by default.
    const [settings] = await query(
      url,
      `SELECT current_setting('fsync') AS fsync, current_setting('data_checksums') AS checksums,
              current_setting('server_encoding') AS encoding`,
    );
    expect(settings).toEqual({ fsync: 'on', checksums: 'on', encoding: 'UTF8' });
  });

  it('keeps its address over a restart, so that saved connections stay valid', async () => {
    const dataDir = await trialDataDir();
    const first = await open(dataDir);
    await first.close();
    await release(dataDir, { now: true });
    expect((await open(dataDir)).url).toBe(first.url);
  });
});

describe('a command that meets a stopping server', () => {
  it('gets it started again, and is never cut off', async () => {
    const dataDir = await trialDataDir();
    await (await open(dataDir)).close();
    // The server stops two to three seconds after its last session.
    for (let pause = 2_000; pause <= 3_000; pause += 100) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      const database = await open(dataDir);
      for (let n = 0; n < 20; n++) {
        expect(await query(database.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
      }
      await database.close();
    }
  });
});

describe('the embedded server stops', () => {
  it('only after psql and other programs have disconnected', async () => {
    const database = await open(await trialDataDir());
    const sleeping = query(database.url, 'SELECT pg_sleep(5), 1 AS done');
    await database.close();
    expect(await sleeping).toMatchObject([{ done: 1 }]);
    await expect.poll(() => serverPid(database.location), { timeout: 30_000 }).toBeNull();
  });

  it('after the release, not while it is held', async () => {
    const dataDir = await trialDataDir();
    const { location } = await hold({ dataDir, applicationName: 'test', durable: false });
    await new Promise((resolve) => setTimeout(resolve, 5_000)); // longer than the idle time
    expect(await describeEmbedded(dataDir)).toMatchObject({ held: true, server: { sessions: [] } });
    expect(await release(dataDir)).toMatchObject({ held: true });
    await expect.poll(() => serverPid(location), { timeout: 30_000 }).toBeNull();
    expect(await describeEmbedded(dataDir)).toEqual({ location, held: false, server: null });
  });

  it('at once on a release with `now`, even with a command connected', async () => {
    const dataDir = await trialDataDir();
    const command = startCommand(dataDir);
    const { location } = await command.opened;
    const before = await release(dataDir, { now: true });
    expect(before?.server?.sessions).toEqual([
      { applicationName: 'command', database: 'postgres' },
    ]);
    expect(await serverPid(location)).toBeNull();
  });

  it('when its files are deleted', async () => {
    const dataDir = await trialDataDir();
    const { location } = await open(dataDir);
    const pid = await serverPid(location);
    await rm(location, { recursive: true, force: true, maxRetries: 20 });
    const alive = () => {
      try {
        return process.kill(pid ?? 0, 0);
      } catch {
        return false;
      }
    };
    await expect.poll(alive, { timeout: 30_000 }).toBe(false);
  });
});

describe('describing and releasing', () => {
  it('create nothing where there is no database', async () => {
    const dataDir = await trialDataDir();
    expect(await describeEmbedded(dataDir)).toBeNull();
    expect(await release(dataDir)).toBeNull();
    await expect(readdir(dataDir)).rejects.toThrow(/ENOENT/);
  });
});
