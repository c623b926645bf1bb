import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { RedisNode, RedisTarget } from '../../src/domain/redis-target.js';
import { isInstalled } from './installed.js';

export const hasRedis = isInstalled('redis-server');

/** Adds the reason to the title of skipped tests. */
export const redisTitle = (title: string): string =>
  hasRedis ? title : `${title} (skipped: needs redis-server)`;

const HOST = '127.0.0.1';

/** A redis-server for tests, in a folder of its own. */
export interface RedisProcess extends RedisNode {
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
  mode: 'server' | 'sentinel' = 'server',
): Promise<RedisProcess> {
  const folder = await mkdtemp(join(tmpdir(), `seller-mirror-tests-${process.pid}-redis-`));
  const port = await freePort();
  const file = join(folder, 'redis.conf');
  const all = {
    port: String(port),
    bind: HOST,
    dir: folder,
    ...(mode === 'server'
      ? { save: '""', appendonly: 'yes', 'maxmemory-policy': 'noeviction' }
      : {}),
    ...settings,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name} ${value}`);
  await writeFile(file, `${lines.join('\n')}\n`);
  const args = mode === 'sentinel' ? [file, '--sentinel'] : [file];
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

async function freePort(): Promise<number> {
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

/** Makes a target of one server. @param more overrides */
export function redisTarget(node: RedisNode, more: Partial<RedisTarget> = {}): RedisTarget {
  return {
    mode: 'single',
    nodes: [{ host: node.host, port: node.port }],
    masterName: null,
    username: null,
    password: null,
    sentinelPassword: null,
    database: 0,
    tls: false,
    ...more,
  };
}

/** A cluster of three masters. */
export interface RedisCluster {
  readonly nodes: readonly RedisProcess[];
  dispose(): Promise<void>;
}

export async function startCluster(): Promise<RedisCluster> {
  const settings = { 'cluster-enabled': 'yes', 'cluster-node-timeout': '1000' };
  const nodes = await Promise.all([1, 2, 3].map(() => startRedis(settings)));
  const places = nodes.map(({ host, port }) => `${host}:${port}`);
  const create = ['--cluster', 'create', ...places, '--cluster-replicas', '0', '--cluster-yes'];
  await promisify(execFile)('redis-cli', create);
  for (const node of nodes) await waitForReply(node, ['CLUSTER', 'INFO'], 'cluster_state:ok');
  return { nodes, dispose: () => disposeAll(nodes) };
}

/** A master, its replica, and a sentinel that promotes the replica when the master ends. */
export interface RedisSentinel {
  readonly masterName: string;
  readonly sentinel: RedisProcess;
  readonly master: RedisProcess;
  readonly replica: RedisProcess;
  dispose(): Promise<void>;
}

export async function startSentinel(): Promise<RedisSentinel> {
  const masterName = 'jobs';
  const master = await startRedis();
  const replica = await startRedis({ replicaof: `${master.host} ${master.port}` });
  await waitForReply(replica, ['INFO', 'replication'], 'master_link_status:up');
  const sentinel = await startRedis(
    {
      'sentinel monitor': `${masterName} ${master.host} ${master.port} 1`,
      'sentinel down-after-milliseconds': `${masterName} 500`,
      'sentinel failover-timeout': `${masterName} 3000`,
    },
    'sentinel',
  );
  await waitForReply(sentinel, ['SENTINEL', 'REPLICAS', masterName], String(replica.port));
  return {
    masterName,
    sentinel,
    master,
    replica,
    dispose: () => disposeAll([sentinel, replica, master]),
  };
}

/** Waits until the reply to a command contains a text. */
async function waitForReply(
  node: RedisProcess,
  command: readonly string[],
  words: string,
): Promise<void> {
  while (!(await node.command(...command)).includes(words)) await sleep(50);
}

async function disposeAll(nodes: readonly RedisProcess[]): Promise<void> {
  await Promise.all(nodes.map((node) => node.dispose()));
}

/** Returns host and port of each server. */
export function placesOf(nodes: readonly RedisNode[]): RedisNode[] {
  return nodes.map(({ host, port }) => ({ host, port }));
}
