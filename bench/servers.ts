import { readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { addressOf, readCredentials } from '#product/db/embedded/server.js';
import { startRedis as startTestRedis } from '../test/support/redis.js';
import { describeEmbedded, openEmbedded, release } from '#product/db/embedded/index.js';

export type Postgres = Awaited<ReturnType<typeof startPostgres>>;
export type Redis = Awaited<ReturnType<typeof startRedis>>;

/** Starts the embedded PostgreSQL in a folder of its own. */
export async function startPostgres() {
  const folder = await mkdtemp(join(tmpdir(), 'seller-mirror-pg-'));
  await chmod(folder, 0o755); // as root, the server runs under another account
  const options = { dataDir: folder, applicationName: 'bench' };
  let database = await openEmbedded(options);
  const pidOfServer = async (): Promise<number> => {
    const pid = (await describeEmbedded(folder))?.server?.pid;
    if (pid === undefined) throw new Error('PostgreSQL is not running');
    return pid;
  };
  return {
    name: 'PostgreSQL',
    url: database.url,
    /** `DATA_DIR` for commands that use this server. */
    folder,
    /** The server's address with administrator rights. */
    async adminUrl(): Promise<string> {
      return addressOf(await readCredentials(database.location), database.port, 'admin');
    },
    /** Stops the server immediately, as in a crash, and restarts it after `downMs`. */
    async crash(downMs: number): Promise<void> {
      // Without this, the lease of this process would restart the server immediately.
      await release(folder, { now: true });
      await database.close();
      await sleep(downMs);
      database = await openEmbedded(options);
    },
    /** Pauses the server for `forMs`: it keeps its connections but does not answer. */
    async freeze(forMs: number): Promise<void> {
      const pid = await pidOfServer();
      process.kill(pid, 'SIGSTOP');
      await sleep(forMs);
      process.kill(pid, 'SIGCONT');
    },
    /** Processor time of all its processes so far (ms); 0 on other systems than Linux. */
    async cpuMs(): Promise<number> {
      return process.platform === 'linux' ? processorMs(await pidOfServer()) : 0;
    },
    async close(): Promise<void> {
      await database.close();
      await release(folder, { now: true });
      await rm(database.location, { recursive: true, force: true });
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The unit of the times in /proc (ms). */
const TICK_MS = 10;

/** Processor time (ms) of a process and its children, including ended ones. */
export function processorMs(pid: number): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return [pid, ...children.split(' ').map(Number)]
    .filter((id) => id > 0)
    .flatMap((id) => ticksOf(id).slice(0, id === pid ? 4 : 2))
    .reduce((sum, ticks) => sum + ticks * TICK_MS, 0);
}

/** Ticks in user mode and in the kernel, then the same for ended children. */
function ticksOf(pid: number): readonly number[] {
  try {
    // The process name, in parentheses, may contain blanks.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return fields.slice(11, 15).map(Number);
  } catch {
    return []; // It has just ended, and its parent counts it.
  }
}

/** Starts a Redis that loses nothing in a crash: it syncs every write to disk before it answers. */
export async function startRedis() {
  const server = await startTestRedis({ appendfsync: 'always' });
  return {
    name: 'Redis',
    url: `redis://${server.host}:${server.port}`,
    folder: server.folder,
    async crash(downMs: number): Promise<void> {
      await server.stop('SIGKILL');
      await sleep(downMs);
      await server.start();
    },
    async freeze(forMs: number): Promise<void> {
      server.child.kill('SIGSTOP');
      await sleep(forMs);
      server.child.kill('SIGCONT');
    },
    /** Used memory (bytes), as Redis reports it. */
    async usedMemory(): Promise<number> {
      return Number(/^used_memory:(\d+)/m.exec(await server.command('INFO', 'memory'))?.[1]);
    },
    close: () => server.dispose(),
  };
}

/** Runs `work` with a connection of its own. */
export async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client(url);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Empties a store, if it has been migrated. */
export async function emptyStore(url: string): Promise<void> {
  await withClient(url, (client) =>
    client.query(
      `DO $$ BEGIN IF to_regclass('mirror.sellers') IS NOT NULL
         THEN TRUNCATE mirror.sellers, mirror.request_budgets, mirror.purchase_codes, mirror.code_checks,
                       mirror.code_transitions, mirror.audit_codes, mirror.audit_entries CASCADE;
         END IF; END $$`,
    ),
  );
}
