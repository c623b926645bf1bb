import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readdir, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { MAIN, printed, run } from '../../cli/support.js';

/** A folder that the service account can enter too. Removed after the test. */
export async function trialFolder(name = 'trial'): Promise<string> {
  const folder = await realpath(
    await mkdtemp(join(tmpdir(), `seller-mirror-tests-${process.pid}-${name}-`)),
  );
  await chmod(folder, 0o755);
  onTestFinished(async () => {
    await rm(folder, { recursive: true, force: true, maxRetries: 20 });
  });
  return folder;
}

/** A data folder whose server is stopped after the test. */
export async function trialDataDir(name?: string): Promise<string> {
  const DATA_DIR = join(await trialFolder(name), 'data');
  onTestFinished(async () => {
    await run(['db', 'stop', '--now'], { DATA_DIR }); // it fails if the test has broken the folder
  });
  return DATA_DIR;
}

/** What `db status` tells. */
export interface Status {
  readonly location: string;
  readonly held: boolean;
  readonly server: {
    readonly pid: number;
    readonly port: number;
    readonly sessions: readonly { readonly application_name: string }[];
  } | null;
}

export async function statusOf(DATA_DIR: string): Promise<Status> {
  return JSON.parse(await printed(['db', 'status', '--json'], { DATA_DIR })) as Status;
}

/** The PID of the running server; null if none runs. */
export async function serverPid(dataDir: string): Promise<number | null> {
  return (await statusOf(dataDir)).server?.pid ?? null;
}

/** The address of the running server, for its owner or, read from its files, for its superuser. */
export async function urlOf(DATA_DIR: string, role: 'owner' | 'admin' = 'owner'): Promise<string> {
  const url = new URL((await printed(['db', 'url'], { DATA_DIR })).trim());
  if (role === 'owner') return url.href;
  const { location } = await statusOf(DATA_DIR);
  const credentials = await readFile(join(location, 'credentials.json'), 'utf8');
  const { admin } = JSON.parse(credentials) as { readonly admin: string };
  return Object.assign(url, { username: 'seller_mirror_admin', password: admin }).href;
}

/** The rows of a statement, as lines of JSON. Creates the store and starts the server if needed. */
export async function ask(DATA_DIR: string, statement: string): Promise<string> {
  await printed(['migrate'], { DATA_DIR });
  return printed(['sql', '--format', 'ndjson', statement], { DATA_DIR });
}

/** PIDs of the watchers of the server in `dataDir`. */
export async function watcherPids(dataDir: string): Promise<number[]> {
  const found: number[] = [];
  for (const pid of await readdir('/proc')) {
    const words = /^\d+$/.test(pid)
      ? await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
      : '';
    if (words.includes('embedded/watcher.js') && words.includes(dataDir)) found.push(Number(pid));
  }
  return found;
}

/** Starts a command in a process group of its own, which starts the server and stays connected. */
export async function connected(DATA_DIR: string): Promise<ChildProcess> {
  await printed(['migrate'], { DATA_DIR });
  await printed(['db', 'stop', '--now'], { DATA_DIR });
  const child = spawn(process.execPath, [MAIN, 'sql', 'select pg_sleep(600)'], {
    cwd: '/',
    detached: true,
    stdio: 'ignore',
    env: { PATH: process.env['PATH'], DATA_DIR },
  });
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL')) {
      await once(child, 'close');
    }
  });
  for (;;) {
    const { server } = await statusOf(DATA_DIR);
    const isConnected = server?.sessions.some(
      ({ application_name: name }) => name === 'seller-mirror sql',
    );
    if (isConnected === true) return child;
  }
}
