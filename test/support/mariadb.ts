import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createConnection } from 'mysql2/promise';
import { isInstalled } from './installed.js';

/** Whether MariaDB's server is installed. */
export const hasMariaDb = isInstalled('mariadbd');

/** A MariaDB server for one test, reachable only by its socket. */
export interface TestMariaDb {
  /** Creates an empty database. @returns its address */
  database(): Promise<string>;
  /** Kills the server, as in a crash. */
  kill(): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
}

/** Settings that make tests fast. */
const FAST = ['--innodb-flush-log-at-trx-commit=2', '--innodb-buffer-pool-size=64M'];

/** @param options of the server */
export async function startMariaDb(options: readonly string[] = FAST): Promise<TestMariaDb> {
  const folder = await mkdtemp(join(tmpdir(), 'smdb-'));
  const [data, socket] = [join(folder, 'data'), join(folder, 's')];
  const user = userInfo().username;
  // A server deletes at its start the temporary tables of others in the same folder.
  const places = ['--no-defaults', `--datadir=${data}`, `--tmpdir=${folder}`, `--user=${user}`];
  await promisify(execFile)('mariadb-install-db', [
    ...places,
    ...['--auth-root-authentication-method=normal', '--skip-test-db'],
  ]);
  let server: ReturnType<typeof spawn> | null = null;
  let databases = 0;
  const start = async (): Promise<void> => {
    server = spawn('mariadbd', [...places, `--socket=${socket}`, '--skip-networking', ...options], {
      stdio: 'ignore',
    });
    for (let tries = 0; ; tries++) {
      try {
        const client = await createConnection({ socketPath: socket, user: 'root' });
        await client.end();
        return;
      } catch (error) {
        if (tries > 300) throw error;
        await sleep(100);
      }
    }
  };
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const running = server;
    if (running === null) return;
    server = null;
    const ended = new Promise((resolve) => running.once('exit', resolve));
    running.kill(signal);
    await ended;
  };
  await start();
  return {
    start,
    async database() {
      const name = `feed_${(databases += 1)}`;
      const client = await createConnection({ socketPath: socket, user: 'root' });
      await client.query(`CREATE DATABASE ${name}`);
      await client.end();
      return `mysql://root@localhost/${name}?socketPath=${encodeURIComponent(socket)}`;
    },
    kill: () => end('SIGKILL'),
    async close() {
      await end('SIGKILL');
      await rm(folder, { recursive: true, force: true });
    },
  };
}
