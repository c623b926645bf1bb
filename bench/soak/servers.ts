import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type * as EmbeddedModule from '../../src/store/embedded/index.js';
import { product } from '../product.js';

const { describeEmbedded, openEmbedded, release } = (await product(
  'store/embedded/index.js',
)) as typeof EmbeddedModule;

/** A server that can be disturbed. */
export interface Victim {
  readonly name: string;
  readonly url: string;
  /** Ends it at once, as a crash does, and has it back after a while. */
  crash(downMs: number): Promise<void>;
  /** It keeps its connections and answers nothing for a while. */
  freeze(forMs: number): Promise<void>;
  close(): Promise<void>;
}

/** A PostgreSQL with a folder of its own. */
export async function startPostgres(): Promise<Victim> {
  const folder = await mkdtemp(join(tmpdir(), 'seller-mirror-soak-pg-'));
  await chmod(folder, 0o755); // root lends it to another account
  const options = { dataDir: folder, applicationName: 'soak' };
  let database = await openEmbedded(options);
  const pid = async (): Promise<number> => {
    const server = (await describeEmbedded(folder))?.server ?? null;
    if (server === null) throw new Error('the soak’s PostgreSQL is gone');
    return server.pid;
  };
  return {
    name: 'PostgreSQL',
    url: database.url,
    async crash(downMs) {
      // Told to stop, or the lease of this very process would have it back at once.
      await release(folder, { now: true });
      await database.close();
      await sleep(downMs);
      database = await openEmbedded(options);
    },
    async freeze(forMs) {
      const server = await pid();
      process.kill(server, 'SIGSTOP');
      await sleep(forMs);
      process.kill(server, 'SIGCONT');
    },
    async close() {
      await database.close();
      await release(folder, { now: true });
      await rm(database.location, { recursive: true, force: true });
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** A Redis that survives a crash as a careful operator's does: every write is on disk before it is answered. */
export async function startRedis(): Promise<Victim> {
  const folder = await mkdtemp(join(tmpdir(), 'seller-mirror-soak-redis-'));
  await mkdir(folder, { recursive: true });
  const port = await freePort();
  let child = await launchRedis(port, folder);
  return {
    name: 'Redis',
    url: `redis://127.0.0.1:${port}`,
    async crash(downMs) {
      child.kill('SIGKILL');
      await once(child, 'exit');
      await sleep(downMs);
      child = await launchRedis(port, folder);
    },
    async freeze(forMs) {
      child.kill('SIGSTOP');
      await sleep(forMs);
      child.kill('SIGCONT');
    },
    async close() {
      child.kill('SIGKILL');
      await once(child, 'exit');
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function launchRedis(port: number, folder: string): Promise<ChildProcess> {
  const child = spawn(
    'redis-server',
    [
      ...['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', ''],
      ...['--appendonly', 'yes', '--appendfsync', 'always', '--maxmemory-policy', 'noeviction'],
    ],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  );
  for await (const chunk of child.stdout) {
    if (String(chunk).includes('Ready to accept connections')) break;
  }
  child.stdout.resume();
  return child;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
