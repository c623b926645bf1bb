import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { RedisTarget } from '../../src/domain/redis-target.js';
import { isInstalled } from './installed.js';

export const hasRedis = isInstalled('redis-server');

/** Adds the reason to the title of skipped tests. */
export const redisTitle = (title: string): string =>
  hasRedis ? title : `${title} (skipped: needs redis-server)`;

const HOST = '127.0.0.1';

/** A redis-server for tests, in a folder of its own. */
export interface RedisProcess extends Pick<RedisTarget, 'host' | 'port'> {
  readonly folder: string;
  readonly child: ChildProcess;
  /** Runs a command such as `INFO`. @returns its output */
  command(...words: string[]): Promise<string>;
  /** Ends the process. `start` restarts it on the same port with the same files. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  start(): Promise<void>;
  /** Stops it and removes its folder. */
  dispose(): Promise<void>;
}

/** Starts a server, by default with an append-only file, as the product requires. */
export async function startRedis(
  settings: Readonly<Record<string, string>> = {},
): Promise<RedisProcess> {
  const folder = await mkdtemp(join(tmpdir(), `seller-mirror-tests-${process.pid}-redis-`));
  const port = await freePort();
  const file = join(folder, 'redis.conf');
  const all = {
    port: String(port),
    bind: HOST,
    dir: folder,
    ...{ save: '""', appendonly: 'yes', 'maxmemory-policy': 'noeviction' },
    ...settings,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name} ${value}`);
  await writeFile(file, `${lines.join('\n')}\n`);
  const args = [file];
  const password = settings['requirepass']?.replaceAll('"', '');
  const login = password === undefined ? [] : ['-a', password];
  let child = spawn('redis-server', args, { stdio: 'ignore' });
  const command = async (...words: string[]): Promise<string> => {
    const connect = ['-h', HOST, '-p', String(port), '--no-auth-warning', ...login];
    const { stdout } = await promisify(execFile)('redis-cli', [...connect, ...words]);
    return stdout.trim();
  };
  const untilReady = async (): Promise<void> => {
    for (;;) {
      const reply = await command('PING').catch(() => '');
      if (reply === 'PONG') return;
      if (child.exitCode !== null) throw new Error(`redis-server ended with ${child.exitCode}`);
      await sleep(25);
    }
  };
  const stop = async (signal: NodeJS.Signals = 'SIGTERM'): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill(signal);
    await once(child, 'exit');
  };
  await untilReady();
  return {
    host: HOST,
    port,
    folder,
    get child() {
      return child;
    },
    command,
    stop,
    start: async () => {
      if (child.killed && child.exitCode === null && child.signalCode === null) {
        await once(child, 'exit');
      }
      if (child.exitCode === null && child.signalCode === null) return;
      child = spawn('redis-server', args, { stdio: 'ignore' });
      await untilReady();
    },
    dispose: async () => {
      await stop('SIGKILL');
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** A port that nobody listens on. */
export async function freePort(): Promise<number> {
  for (;;) {
    const probe = createServer();
    probe.listen(0, HOST);
    await once(probe, 'listening');
    const { port } = probe.address() as AddressInfo;
    probe.close();
    await once(probe, 'close');
    if (port < 55_000) return port; // a cluster also listens on this port + 10,000
  }
}

/** Makes a target of a server. @param more overrides */
export function redisTarget(
  { host, port }: Pick<RedisTarget, 'host' | 'port'>,
  more: Partial<RedisTarget> = {},
): RedisTarget {
  return { host, port, username: null, password: null, database: 0, tls: false, ...more };
}
