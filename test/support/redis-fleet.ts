import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { RedisNode } from '../../src/domain/redis-target.js';
import { startRedis, type RedisProcess } from './redis.js';

/** A cluster of three masters, which share the keys among them. */
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
  for (const node of nodes) await says(node, ['CLUSTER', 'INFO'], 'cluster_state:ok');
  return { nodes, dispose: () => disposeAll(nodes) };
}

/** A master, a replica of it, and a sentinel that makes the replica the master when that one ends. */
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
  await says(replica, ['INFO', 'replication'], 'master_link_status:up');
  const sentinel = await startRedis(
    {
      'sentinel monitor': `${masterName} ${master.host} ${master.port} 1`,
      'sentinel down-after-milliseconds': `${masterName} 500`,
      'sentinel failover-timeout': `${masterName} 3000`,
    },
    'sentinel',
  );
  await says(sentinel, ['SENTINEL', 'REPLICAS', masterName], String(replica.port));
  return {
    masterName,
    sentinel,
    master,
    replica,
    dispose: () => disposeAll([sentinel, replica, master]),
  };
}

/** Waits until what a server says to a command contains some words. */
async function says(node: RedisProcess, command: readonly string[], words: string): Promise<void> {
  while (!(await node.command(...command)).includes(words)) await sleep(50);
}

async function disposeAll(nodes: readonly RedisProcess[]): Promise<void> {
  await Promise.all(nodes.map((node) => node.dispose()));
}

/** Just the places of servers. */
export function placesOf(nodes: readonly RedisNode[]): RedisNode[] {
  return nodes.map(({ host, port }) => ({ host, port }));
}
