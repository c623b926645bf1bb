import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdir, readdir, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openEmbedded, release } from '../../../src/db/embedded/index.js';
import { files } from '../../../src/db/embedded/place.js';
import { isRoot } from '../../../src/db/embedded/service-user.js';
import { query } from '../../support/postgres.js';
import { watcherPids, open, serverPid, startCommand, trialDataDir } from './trial.js';

const PATIENT = { timeout: 30_000 };

/** Keeps a backend computing for some seconds. */
const BUSY = `DO $$ DECLARE until timestamptz := clock_timestamp() + interval '4 s';
  BEGIN WHILE clock_timestamp() < until LOOP END LOOP; END $$`;

/** Creates a database and stops its server. */
async function stopped(dataDir: string): Promise<string> {
  const database = await open(dataDir);
  await database.close();
  await release(dataDir, { now: true });
  return database.location;
}

describe('committed data survives when', () => {
  it.each(['SIGKILL', 'SIGINT'] as const)(
    'the process group of the command that started the server gets %s; the server runs on',
    async (signal) => {
      const dataDir = await trialDataDir();
      const command = startCommand(dataDir);
      const { url, location } = await command.opened;
      await query(url, 'CREATE TABLE kept AS SELECT 1 AS n');
      const pid = await serverPid(location);
      process.kill(-(command.process.pid ?? 0), signal); // the process group, as a terminal does
      await command.end();
      expect(await serverPid(location)).toBe(pid);
      await expect.poll(() => serverPid(location), PATIENT).toBeNull(); // its session ended with the command
      expect(await query((await open(dataDir)).url, 'SELECT n FROM kept')).toEqual([{ n: 1 }]);
    },
  );

  it('the watcher is killed; the next command starts a new one, which later stops the server', async () => {
    const dataDir = await trialDataDir();
    const first = await open(dataDir);
    await query(first.url, 'CREATE TABLE kept AS SELECT 1 AS n');
    await expect.poll(() => watcherPids(first.location), PATIENT).toHaveLength(1);
    const [watcher] = await watcherPids(first.location);
    process.kill(watcher ?? 0, 'SIGKILL');
    await expect.poll(() => watcherPids(first.location), PATIENT).toEqual([]);
    const second = await open(dataDir);
    expect(second.startedHere).toBe(false);
    await expect.poll(() => watcherPids(first.location), PATIENT).toHaveLength(1);
    expect(await query(second.url, 'SELECT n FROM kept')).toEqual([{ n: 1 }]);
    await first.close();
    await second.close();
    await expect.poll(() => serverPid(first.location), PATIENT).toBeNull();
  });

  it('the server is killed during a statement; the next command recovers it', async () => {
    const dataDir = await trialDataDir();
    const command = startCommand(dataDir);
    const { url, location } = await command.opened;
    await query(url, 'CREATE TABLE kept AS SELECT 1 AS n');
    // A busy backend does not notice at once, and blocks the next server's start.
    const busy = query(url, BUSY).catch(() => null);
    const isBusy = () => query(url, `SELECT FROM pg_stat_activity WHERE query = $q$${BUSY}$q$`);
    await expect.poll(isBusy, PATIENT).toHaveLength(1);
    process.kill((await serverPid(location)) ?? 0, 'SIGKILL');
    command.process.kill('SIGKILL');
    const next = await open(dataDir);
    expect(await query(next.url, 'SELECT n FROM kept')).toEqual([{ n: 1 }]);
    await busy;
  });

  it('server, watcher and command are killed together, as in a power cut', async () => {
    const dataDir = await trialDataDir();
    const command = startCommand(dataDir);
    const { url, location } = await command.opened;
    await query(url, 'CREATE TABLE kept AS SELECT 1 AS n');
    await expect.poll(() => watcherPids(location), PATIENT).toHaveLength(1);
    const [watcher] = await watcherPids(location);
    for (const pid of [watcher, await serverPid(location), command.process.pid]) {
      process.kill(pid ?? 0, 'SIGKILL');
    }
    expect(await query((await open(dataDir)).url, 'SELECT n FROM kept')).toEqual([{ n: 1 }]);
  });
});

it('a command waits for a recovery that takes longer than the start timeout', async () => {
  const dataDir = await trialDataDir();
  const first = await open(dataDir);
  const killed = await serverPid(first.location);
  process.kill(killed ?? 0, 'SIGKILL');
  await first.close();
  const next = open(dataDir, { startTimeoutMs: 5_000 });
  // On a busy machine, the killed one takes a while to end.
  const started = async (): Promise<boolean> => {
    const found = await serverPid(first.location);
    return found !== null && found !== killed;
  };
  await expect.poll(started, { ...PATIENT, interval: 1 }).toBe(true);
  const pid = (await serverPid(first.location)) ?? 0;
  process.kill(pid, 'SIGSTOP');
  await sleep(7_000);
  process.kill(pid, 'SIGCONT');
  expect(await query((await next).url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
});

describe('a long-running command gets a killed server back at the same address', () => {
  const expectAnswer = async (url: string): Promise<void> => {
    const answers = () => query(url, 'SELECT 1 AS one').catch(() => []);
    await expect.poll(answers, PATIENT).toEqual([{ one: 1 }]);
  };

  it('restarted', async () => {
    const { url, location } = await open(await trialDataDir());
    const pid = await serverPid(location);
    process.kill(pid ?? 0, 'SIGKILL');
    await expectAnswer(url);
    expect(await serverPid(location)).not.toBe(pid);
  });

  it('even if its port was not stored yet', async () => {
    const { url, location } = await open(await trialDataDir());
    await expect.poll(() => stat(files.port(location)).catch(() => null), PATIENT).not.toBeNull();
    await rm(files.port(location));
    process.kill((await serverPid(location)) ?? 0, 'SIGKILL');
    await expectAnswer(url);
  });

  it('even if a dying backend holds the port for two seconds', async () => {
    const { url, location, port } = await open(await trialDataDir());
    process.kill((await serverPid(location)) ?? 0, 'SIGKILL');
    const holder = createServer((socket) => socket.destroy());
    const listening = () => once(holder.listen(port, '127.0.0.1'), 'listening').catch(() => null);
    await expect.poll(listening, { ...PATIENT, interval: 5 }).not.toBeNull();
    await sleep(2_000);
    holder.close();
    await expectAnswer(url);
  });
});

describe('a start repairs', () => {
  it('a lock file whose PID now belongs to another program', async () => {
    const dataDir = await trialDataDir();
    const location = await stopped(dataDir);
    const { uid, gid } = await stat(join(location, 'data'));
    // Under the server's account, since PostgreSQL ignores a PID of another account.
    const other = spawn('sleep', ['60'], { ...(isRoot() ? { uid, gid } : {}), stdio: 'ignore' });
    onTestFinished(() => void other.kill());
    await writeFile(join(location, 'data/postmaster.pid'), `${other.pid}\n${location}/data\n`);
    expect(await query((await open(dataDir)).url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('a killed first start, and removes its draft', async () => {
    const dataDir = await trialDataDir();
    const killed = startCommand(dataDir);
    killed.opened.catch(() => {}); // it is killed before
    const names = () => readdir(dataDir).catch(() => []);
    await expect
      .poll(names, { ...PATIENT, interval: 5 })
      .toContainEqual(expect.stringMatching(/postgres-new/));
    killed.process.kill('SIGKILL');
    await killed.end();
    const [draft] = await names();
    await (await open(dataDir)).close();
    await release(dataDir, { now: true });
    const longAgo = new Date(Date.now() - 3_600_000);
    await utimes(join(dataDir, draft ?? ''), longAgo, longAgo);
    await open(dataDir);
    expect(await readdir(dataDir)).toEqual(['postgres']);
  });
});

describe('a start reports in one line, with a remedy, that', () => {
  const refusal = async (dataDir: string) => {
    const error: unknown = await openEmbedded({ dataDir, applicationName: 'test' }).then(
      (database) => database.close(),
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ remedy: expect.stringMatching(/\S.*\.$|`|:/) as string });
    const { message } = error as Error;
    expect(message).not.toContain('\n');
    return message;
  };

  it.each<[what: string, expected: RegExp, spoil: (dataDir: string) => Promise<unknown>]>([
    [
      'the folder is not a database',
      /not a database of this program/,
      (dataDir) => mkdir(join(dataDir, 'postgres/photos'), { recursive: true }),
    ],
    [
      'the link to the database is broken, and does not create an empty one',
      /\/nowhere\/at\/all/,
      async (dataDir) => {
        await mkdir(dataDir);
        await symlink('/nowhere/at/all', join(dataDir, 'postgres'));
      },
    ],
    ['the data folder is a file', /file, not a folder/, (dataDir) => writeFile(dataDir, '')],
    [
      'another major version made the database',
      /initialized by PostgreSQL version 15, which is not compatible with this version 18/,
      async (dataDir) => writeFile(join(await stopped(dataDir), 'data/PG_VERSION'), '15\n'),
    ],
    [
      'the passwords are damaged, without showing the rest of them',
      /^(?!.*s3cret)/,
      async (dataDir) =>
        writeFile(join(await stopped(dataDir), 'credentials.json'), '{"admin":"s3cret'),
    ],
    [
      'the server does not start, with the last errors of its log',
      /did not start: .*pg_control/,
      async (dataDir) => rm(join(await stopped(dataDir), 'data/global'), { recursive: true }),
    ],
  ])('%s', async (_, expected, spoil) => {
    const dataDir = await trialDataDir();
    await spoil(dataDir);
    expect(await refusal(dataDir)).toMatch(expected);
  });

  it.runIf(isRoot())(
    'the database belongs to another user (needs root to change the owner)',
    async () => {
      const dataDir = await trialDataDir();
      const location = await stopped(dataDir);
      await chown(location, 65_534, 65_534);
      expect(await refusal(dataDir)).toMatch(/belongs to user \w+, and this command runs as root/);
      await chown(location, 0, 0);
    },
  );
});

describe('waiting for the server', () => {
  it('ends when the caller aborts', async () => {
    const signal = AbortSignal.abort(new Error('no longer wanted'));
    const options = { dataDir: await trialDataDir(), applicationName: 'test', signal };
    await expect(openEmbedded(options)).rejects.toThrow('no longer wanted');
  });
});
