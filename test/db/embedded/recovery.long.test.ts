import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdir, readdir, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openMirror } from '../../../src/index.js';
import { printed, run, start } from '../../cli/support.js';
import { query } from '../../support/postgres.js';
import { ask, connected, serverPid, statusOf, trialDataDir, urlOf, watcherPids } from './trial.js';

const PATIENT = { timeout: 30_000 };
const isRoot = process.geteuid?.() === 0;

/** Keeps a backend computing for some seconds. */
const BUSY = `DO $$ DECLARE until timestamptz := clock_timestamp() + interval '4 s';
  BEGIN WHILE clock_timestamp() < until LOOP END LOOP; END $$`;

/** Creates a database and stops its server. @returns where its files are */
async function stopped(DATA_DIR: string): Promise<string> {
  await printed(['migrate'], { DATA_DIR });
  await printed(['db', 'stop', '--now'], { DATA_DIR });
  return (await statusOf(DATA_DIR)).location;
}

/** A running server with committed data, and the command that keeps it. */
async function withData() {
  const dataDir = await trialDataDir();
  const command = await connected(dataDir);
  await query(await urlOf(dataDir), 'CREATE TABLE kept AS SELECT 1 AS n');
  const pid = (await serverPid(dataDir)) ?? 0;
  return { dataDir, command, pid, kept: () => ask(dataDir, 'select n from kept') };
}

describe('committed data survives when', () => {
  it('the process group of the command that started the server is killed; the server runs on, and stops by itself', async () => {
    const { dataDir, command, pid, kept } = await withData();
    process.kill(-(command.pid ?? 0), 'SIGKILL'); // the process group, as a terminal does
    await once(command, 'close');
    expect(await serverPid(dataDir)).toBe(pid);
    await expect.poll(() => serverPid(dataDir), PATIENT).toBeNull();
    expect(await kept()).toBe('{"n":1}\n');
  });

  it('the watcher is killed; the next command starts a new one, which later stops the server', async () => {
    const { dataDir, command, pid, kept } = await withData();
    for (const watcher of await watcherPids(dataDir)) process.kill(watcher, 'SIGKILL');
    await expect.poll(() => watcherPids(dataDir), PATIENT).toEqual([]);
    expect(await kept()).toBe('{"n":1}\n');
    expect(await serverPid(dataDir)).toBe(pid);
    await expect.poll(() => watcherPids(dataDir), PATIENT).toHaveLength(1);
    command.kill('SIGKILL');
    await expect.poll(() => serverPid(dataDir), PATIENT).toBeNull();
  });

  it('the server is killed during a statement; the next command recovers it', async () => {
    const { dataDir, command, pid, kept } = await withData();
    // A busy backend does not notice at once, and blocks the next server's start.
    const url = await urlOf(dataDir);
    const busy = query(url, BUSY).catch(() => null);
    const isBusy = () => query(url, `SELECT FROM pg_stat_activity WHERE query = $q$${BUSY}$q$`);
    await expect.poll(isBusy, PATIENT).toHaveLength(1);
    process.kill(pid, 'SIGKILL');
    command.kill('SIGKILL');
    expect(await kept()).toBe('{"n":1}\n');
    await busy;
  });

  it('server, watcher and command are killed together, as in a power cut', async () => {
    const { dataDir, command, pid, kept } = await withData();
    for (const one of [...(await watcherPids(dataDir)), pid, command.pid ?? 0]) {
      process.kill(one, 'SIGKILL');
    }
    expect(await kept()).toBe('{"n":1}\n');
  });
});

it('a program that stays gets a killed server back at the same address, even if a dying backend holds the port for two seconds', async () => {
  const dataDir = await trialDataDir();
  await printed(['migrate'], { DATA_DIR: dataDir });
  const reads = await openMirror({ dataDir });
  onTestFinished(() => reads.close());
  const { server } = await statusOf(dataDir);
  process.kill(server?.pid ?? 0, 'SIGKILL');
  const holder = createServer((socket) => socket.destroy());
  const listening = () =>
    once(holder.listen(server?.port, '127.0.0.1'), 'listening').catch(() => null);
  await expect.poll(listening, { ...PATIENT, interval: 5 }).not.toBeNull();
  await sleep(2_000);
  holder.close();
  const answer = () => reads.reportingItems.findMany().catch(() => null);
  await expect.poll(answer, { timeout: 60_000 }).toEqual([]);
  expect(await serverPid(dataDir)).not.toBe(server?.pid);
});

describe('a start repairs', () => {
  it('a lock file whose PID now belongs to another program', async () => {
    const dataDir = await trialDataDir();
    const location = await stopped(dataDir);
    const { uid, gid } = await stat(join(location, 'data'));
    // Under the server's account, since PostgreSQL ignores a PID of another account.
    const other = spawn('sleep', ['60'], { ...(isRoot ? { uid, gid } : {}), stdio: 'ignore' });
    onTestFinished(() => void other.kill());
    await writeFile(join(location, 'data/postmaster.pid'), `${other.pid}\n${location}/data\n`);
    expect(await ask(dataDir, 'select 1 as one')).toBe('{"one":1}\n');
  });

  it('a killed first start, and removes its draft', async () => {
    const DATA_DIR = await trialDataDir();
    const killed = start(['migrate'], { DATA_DIR });
    const names = () => readdir(DATA_DIR).catch(() => []);
    await expect
      .poll(names, { ...PATIENT, interval: 5 })
      .toContainEqual(expect.stringMatching(/postgres-new/));
    killed.process.kill('SIGKILL');
    await killed.ended;
    const [draft] = await names();
    await stopped(DATA_DIR);
    const longAgo = new Date(Date.now() - 3_600_000);
    await utimes(join(DATA_DIR, draft ?? ''), longAgo, longAgo);
    await ask(DATA_DIR, 'select 1');
    expect(await readdir(DATA_DIR)).toEqual(['postgres']);
  });
});

describe('a start reports in one line, with a remedy, that', () => {
  const refusal = async (DATA_DIR: string): Promise<string> => {
    const { code, stderr } = await run(['migrate'], { DATA_DIR });
    expect(stderr).toMatch(/^error: [^\n]+\n {2}→ [^\n]+\n$/);
    expect(code).toBe(1);
    return stderr;
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

  it.runIf(isRoot)('the database belongs to another user (needs root)', async () => {
    const dataDir = await trialDataDir();
    const location = await stopped(dataDir);
    await chown(location, 65_534, 65_534);
    expect(await refusal(dataDir)).toMatch(/belongs to user \w+, and this command runs as root/);
    await chown(location, 0, 0);
  });
});
