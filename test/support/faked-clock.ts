import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { freePort } from './redis.js';
import { query } from './query.js';
import { until } from './until.js';

/** The newest path of a pattern of the shell. */
const find = (pattern: string): string =>
  spawnSync('sh', ['-c', `ls -d ${pattern} | tail -1`], { encoding: 'utf8' }).stdout.trim();

/** Shows programs another time. Debian's package `faketime` has it. */
const LIBRARY = find('/usr/lib/*/faketime/libfaketime.so.1');
const PROGRAMS = find('/usr/lib/postgresql/*/bin');

export interface FakedClock {
  /** Environment of programs that go by this clock. */
  readonly env: Readonly<Record<string, string>>;
  /** Sets it, also for running programs. Monotonic clocks stay right. @param aheadMs of the right time; negative: behind */
  set(aheadMs: number): Promise<void>;
}

/** A clock that goes wrong. @throws {Error} if this machine can't have one */
export async function createClock(): Promise<FakedClock> {
  if (LIBRARY === '') {
    throw new Error(
      'this test sets the clock of programs: install it with `apt-get install faketime`',
    );
  }
  const folder = await mkdtemp(join(tmpdir(), `seller-mirror-tests-${process.pid}-clock-`));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await chmod(folder, 0o755); // PostgreSQL reads it as another user
  const file = join(folder, 'offset');
  const set = (aheadMs: number): Promise<void> =>
    writeFile(file, `${aheadMs < 0 ? '-' : '+'}${Math.abs(aheadMs / 1_000)}\n`);
  await set(0);
  return {
    env: {
      LD_PRELOAD: LIBRARY,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      FAKETIME_DISABLE_SHM: '1',
    },
    set,
  };
}

/** Starts an empty PostgreSQL that goes by this clock. @returns its address */
export async function startServerWith(clock: FakedClock): Promise<string> {
  if (PROGRAMS === '') {
    throw new Error('this test starts a PostgreSQL of its own: `apt-get install postgresql`');
  }
  const folder = await mkdtemp(join(tmpdir(), `seller-mirror-tests-${process.pid}-pg-`));
  // PostgreSQL refuses to run as root.
  const id = (flag: string): number => Number(spawnSync('id', [flag, 'postgres']).stdout);
  const user = process.getuid?.() === 0 ? { uid: id('-u'), gid: id('-g') } : {};
  if (user.uid !== undefined) await chown(folder, user.uid, user.gid);
  const data = join(folder, 'data');
  const options = { ...user, cwd: '/', env: { LC_ALL: 'C', PATH: process.env['PATH'] } };
  const made = spawnSync(
    join(PROGRAMS, 'initdb'),
    ['-D', data, '-U', 'admin', '-A', 'trust', '-E', 'UTF8', '--no-sync'],
    { ...options, encoding: 'utf8' },
  );
  if (made.status !== 0) throw new Error(`initdb: ${made.stderr}`);
  const port = await freePort();
  const settings = ['fsync=off', 'listen_addresses=127.0.0.1', `unix_socket_directories=${folder}`];
  const server = spawn(
    join(PROGRAMS, 'postgres'),
    ['-D', data, '-p', String(port), ...settings.flatMap((one) => ['-c', one])],
    { ...options, env: { ...options.env, ...clock.env }, stdio: 'ignore' },
  );
  onTestFinished(async () => {
    server.kill('SIGQUIT');
    if (server.exitCode === null) await once(server, 'exit');
    await rm(folder, { recursive: true, force: true });
  });
  const admin = `postgresql://admin@127.0.0.1:${port}/postgres`;
  await until(() =>
    query(admin, 'CREATE DATABASE mirror').then(
      () => true,
      () => false,
    ),
  );
  return `postgresql://admin@127.0.0.1:${port}/mirror`;
}
