import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdir, readdir, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openEmbedded, release } from '../../../src/store/embedded/index.js';
import { files } from '../../../src/store/embedded/place.js';
import { isRoot } from '../../../src/store/embedded/service-user.js';
import { query } from '../../support/postgres.js';
import { supervisorPids, open, serverPid, startCommand, trialDataDir } from './trial.js';

const PATIENT = { timeout: 30_000 };

/** Keeps a backend computing for some seconds. */
const BUSY = `DO $$ DECLARE until timestamptz := clock_timestamp() + interval '4 s';
  BEGIN WHILE clock_timestamp() < until LOOP END LOOP; END $$`;

/** Makes a database that nobody runs. */
async function stopped(dataDir: string): Promise<string> {
  const database = await open(dataDir);
  await database.close();
  await release(dataDir, { now: true });
  return database.location;
}

describe('nothing committed is lost when', () => {
  it.each(['SIGKILL', 'SIGINT'] as const)(
    'the command that started the server gets %s with all it started, which the server survives',
    async (signal) => {
      const dataDir = await trialDataDir();
      const command = startCommand(dataDir);
      const { url, location } = await command.opened;
      await query(url, 'CREATE TABLE kept AS SELECT 1 AS n');
      const pid = await serverPid(location);
      process.kill(-(command.process.pid ?? 0), signal); // its process group, as a terminal does
      await command.end();
      expect(await serverPid(location)).toBe(pid);
      await expect.poll(() => serverPid(location), PATIENT).toBeNull(); // its lease went with it
      expect(await query((await open(dataDir)).url, 'SELECT n FROM kept')).toEqual([{ n: 1 }]);
    },
  );

  it('the supervisor is killed: the next command has another take over, which stops the server', async () => {
    const dataDir = await trialDataDir();
    const first = await open(dataDir);
    await query(first.url, 'CREATE TABLE kept AS SELECT 1 AS n');
    await expect.poll(() => supervisorPids(first.location), PATIENT).toHaveLength(1);
    const [supervisor] = await supervisorPids(first.location);
    process.kill(supervisor ?? 0, 'SIGKILL');
    await expect.poll(() => supervisorPids(first.location), PATIENT).toEqual([]);
    const second = await open(dataDir);
    expect(second.startedHere).toBe(false);
    await expect.poll(() => supervisorPids(first.location), PATIENT).toHaveLength(1);
    expect(await query(second.url, 'SELECT n FROM kept')).toEqual([{ n: 1 }]);
    await first.close();
    await second.close();
    await expect.poll(() => serverPid(first.location), PATIENT).toBeNull();
  });

  it('the server is killed while a session works: the next command recovers it', async () => {
    const dataDir = await trialDataDir();
    const command = startCommand(dataDir);
    const { url, location } = await command.opened;
    await query(url, 'CREATE TABLE kept AS SELECT 1 AS n');
    // A backend that is busy does not notice at once, and stands in the way of the next server.
    const busy = query(url, BUSY).catch(() => null);
    const isBusy = () => query(url, `SELECT FROM pg_stat_activity WHERE query = $q$${BUSY}$q$`);
    await expect.poll(isBusy, PATIENT).toHaveLength(1);
    process.kill((await serverPid(location)) ?? 0, 'SIGKILL');
    command.process.kill('SIGKILL');
    const next = await open(dataDir);
    expect(await query(next.url, 'SELECT n FROM kept')).toEqual([{ n: 1 }]);
    await busy;
  });

  it('server and supervisor are killed at once, as by a power cut', async () => {
    const dataDir = await trialDataDir();
    const command = startCommand(dataDir);
    const { url, location } = await command.opened;
    await query(url, 'CREATE TABLE kept AS SELECT 1 AS n');
    await expect.poll(() => supervisorPids(location), PATIENT).toHaveLength(1);
    const [supervisor] = await supervisorPids(location);
    for (const pid of [supervisor, await serverPid(location), command.process.pid]) {
      process.kill(pid ?? 0, 'SIGKILL');
    }
    expect(await query((await open(dataDir)).url, 'SELECT n FROM kept')).toEqual([{ n: 1 }]);
  });
});

it('recovery takes longer than a start may: the command waits, because the server is at work', async () => {
  const dataDir = await trialDataDir();
  const first = await open(dataDir);
  process.kill((await serverPid(first.location)) ?? 0, 'SIGKILL');
  await first.close();
  const next = open(dataDir, { startTimeoutMs: 5_000 });
  await expect.poll(() => serverPid(first.location), { ...PATIENT, interval: 1 }).not.toBeNull();
  const pid = (await serverPid(first.location)) ?? 0;
  process.kill(pid, 'SIGSTOP');
  await sleep(7_000);
  process.kill(pid, 'SIGCONT');
  expect(await query((await next).url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
});

describe('a command that waits, such as `run`,', () => {
  it('gets the server back at the same address after it was killed', async () => {
    const { url, location } = await open(await trialDataDir());
    const pid = await serverPid(location);
    process.kill(pid ?? 0, 'SIGKILL');
    const answers = () => query(url, 'SELECT 1 AS one').catch(() => []);
    await expect.poll(answers, PATIENT).toEqual([{ one: 1 }]);
    expect(await serverPid(location)).not.toBe(pid);
  });

  it('gets it back at the same address, though it was killed before its port was noted', async () => {
    const { url, location } = await open(await trialDataDir());
    await expect.poll(() => stat(files.port(location)).catch(() => null), PATIENT).not.toBeNull();
    await rm(files.port(location));
    process.kill((await serverPid(location)) ?? 0, 'SIGKILL');
    const answers = () => query(url, 'SELECT 1 AS one').catch(() => []);
    await expect.poll(answers, PATIENT).toEqual([{ one: 1 }]);
  });

  it('gets it back at the same address, though a dying backend holds the port for a moment', async () => {
    const { url, location, port } = await open(await trialDataDir());
    process.kill((await serverPid(location)) ?? 0, 'SIGKILL');
    const holder = createServer((socket) => socket.destroy());
    const listening = () => once(holder.listen(port, '127.0.0.1'), 'listening').catch(() => null);
    await expect.poll(listening, { ...PATIENT, interval: 5 }).not.toBeNull();
    await sleep(2_000);
    holder.close();
    const answers = () => query(url, 'SELECT 1 AS one').catch(() => []);
    await expect.poll(answers, PATIENT).toEqual([{ one: 1 }]);
  });
});

describe('a start heals', () => {
  it('a lock file whose process number now belongs to another program', async () => {
    const dataDir = await trialDataDir();
    const location = await stopped(dataDir);
    const { uid, gid } = await stat(join(location, 'data'));
    // Under the account of the server, or PostgreSQL would see by itself that it is another's.
    const other = spawn('sleep', ['60'], { ...(isRoot() ? { uid, gid } : {}), stdio: 'ignore' });
    onTestFinished(() => void other.kill());
    await writeFile(join(location, 'data/postmaster.pid'), `${other.pid}\n${location}/data\n`);
    expect(await query((await open(dataDir)).url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('a first start that was killed, and sweeps up what it left', async () => {
    const dataDir = await trialDataDir();
    const killed = startCommand(dataDir);
    killed.opened.catch(() => {}); // it never gets there
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

describe('a start says in one line, with a remedy, that', () => {
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
      'the folder holds something else',
      /not a database of this program/,
      (dataDir) => mkdir(join(dataDir, 'postgres/photos'), { recursive: true }),
    ],
    [
      'the link to the database leads nowhere, instead of making an empty one',
      /\/nowhere\/at\/all/,
      async (dataDir) => {
        await mkdir(dataDir);
        await symlink('/nowhere/at/all', join(dataDir, 'postgres'));
      },
    ],
    ['the data folder is a file', /file, not a folder/, (dataDir) => writeFile(dataDir, '')],
    [
      'another major version made the database',
      /made by PostgreSQL 15, this program brings PostgreSQL 18/,
      async (dataDir) => writeFile(join(await stopped(dataDir), 'data/PG_VERSION'), '15\n'),
    ],
    [
      'the passwords are lost, without showing what is left of them',
      /^(?!.*s3cret)/,
      async (dataDir) =>
        writeFile(join(await stopped(dataDir), 'credentials.json'), '{"admin":"s3cret'),
    ],
    [
      'the server does not start, with the last words of its log',
      /did not start: .*pg_control/,
      async (dataDir) => rm(join(await stopped(dataDir), 'data/global'), { recursive: true }),
    ],
  ])('%s', async (_, expected, spoil) => {
    const dataDir = await trialDataDir();
    await spoil(dataDir);
    expect(await refusal(dataDir)).toMatch(expected);
  });

  it.runIf(process.platform === 'linux')(
    'the data folder is to be in one that takes no other, where Node’s own way never returns',
    async () => {
      expect(await refusal('/proc/nowhere/data')).toMatch(/data folder .* cannot be used/);
    },
  );

  it.runIf(isRoot())('it belongs to another user (needs root to give it away)', async () => {
    const dataDir = await trialDataDir();
    const location = await stopped(dataDir);
    await chown(location, 65_534, 65_534);
    expect(await refusal(dataDir)).toMatch(/belongs to user \w+, and this command runs as root/);
    await chown(location, 0, 0);
  });
});

describe('waiting for the server', () => {
  it('ends when the caller gives up', async () => {
    const signal = AbortSignal.abort(new Error('no longer wanted'));
    const options = { dataDir: await trialDataDir(), applicationName: 'test', signal };
    await expect(openEmbedded(options)).rejects.toThrow('no longer wanted');
  });
});
