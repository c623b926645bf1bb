/**
 * The keeper: a small process of its own that starts the embedded server, and stops it when nobody
 * has been connected for a while and nobody holds it. The server does not depend on it: a killed
 * keeper is replaced by the next command.
 */
import { lstat, realpath } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import {
  KEEPER_LOCK,
  KEEPER_NAME,
  LEASE_LOCK,
  connect,
  isPassing,
  readCredentials,
} from './connections.js';
import { KEEPER_TASK, type KeeperTask } from './keeper-task.js';
import { files } from './place.js';
import { findPostmaster, stopPostmaster, waitUntilGone } from './postmaster.js';
import { boundLog } from './server-log.js';
import { ensureServer } from './server.js';

const POLL_MS = 500;
const IDLE_MS = 2_000;
/** How long a server that does not let its own keeper in, or does not stop, is put up with. */
const PATIENCE_MS = 60_000;

class Keeper {
  readonly #task: KeeperTask;
  readonly #pid: number;
  #client: Client | null = null;
  /** Since when nobody but this keeper has been connected. */
  #idleSince: number | null = null;
  #lastAnswer = Date.now();
  #asked = false;

  constructor(task: KeeperTask, pid: number) {
    this.#task = task;
    this.#pid = pid;
  }

  /** Until the server is stopped or gone, or another keeper turns out to be there. */
  async watch(): Promise<void> {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
      process.on(signal, () => (this.#asked = true));
    }
    for (; ; await sleep(POLL_MS)) {
      const { location } = this.#task.place;
      const server = await findPostmaster(location);
      if (server?.pid !== this.#pid) return await this.#stop('QUIT'); // gone, or its files are
      if (this.#asked) return await this.#stop('INT');
      await boundLog(location).catch(() => {}); // a full disk must not end the keeper
      try {
        if (this.#client === null && !(await this.#enter(server.port ?? 0))) return;
        this.#lastAnswer = Date.now();
        if (await this.#isDone()) return await this.#stop('INT');
      } catch (error) {
        await this.#leave();
        if (isPassing(error)) this.#lastAnswer = Date.now(); // it recovers from a crash, or stops
        if (Date.now() - this.#lastAnswer > PATIENCE_MS) {
          report(error);
          return await this.#stop('INT');
        }
      }
    }
  }

  /** Connects, and takes the keeper's lock; false when another keeper has it. */
  async #enter(port: number): Promise<boolean> {
    const credentials = await readCredentials(this.#task.place.location);
    const client = await connect(credentials, port, 'admin', `${KEEPER_NAME} ${process.pid}`);
    this.#client = client;
    client.once('end', () => (this.#client = null));
    return await ask(client, `SELECT pg_try_advisory_lock(${KEEPER_LOCK}) AS answer`);
  }

  async #leave(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    await client?.end().catch(() => {});
  }

  /** Nobody connected for a while, nobody holding; and nobody can come in any more. */
  async #isDone(): Promise<boolean> {
    const client = this.#client;
    if (client === null) return false;
    if ((await hasGuests(client)) || (await this.#isHeld())) {
      this.#idleSince = null;
      return false;
    }
    this.#idleSince ??= Date.now();
    if (Date.now() - this.#idleSince < IDLE_MS) return false;
    // Whoever comes from here on waits for its lease until the server is gone, and starts another.
    if (!(await ask(client, `SELECT pg_try_advisory_lock(${LEASE_LOCK}) AS answer`))) return false;
    const late = (await this.#isHeld()) || (await hasGuests(client));
    if (late) await client.query(`SELECT pg_advisory_unlock(${LEASE_LOCK})`);
    return !late;
  }

  /** A hold on a database that DATA_DIR no longer points to would last for ever. */
  async #isHeld(): Promise<boolean> {
    const { location, pointer } = this.#task.place;
    if ((await lstat(files.held(location)).catch(() => null)) === null) return false;
    return (await realpath(pointer).catch(() => null)) === location;
  }

  async #stop(signal: 'INT' | 'QUIT'): Promise<void> {
    if (await waitUntilGone(this.#pid, 1)) return;
    await stopPostmaster(this.#task.place, this.#pid, signal);
    if (await waitUntilGone(this.#pid, PATIENCE_MS)) return;
    await stopPostmaster(this.#task.place, this.#pid, 'QUIT');
  }
}

/** Sessions of programs and people, other than this one. */
async function hasGuests(client: Client): Promise<boolean> {
  return await ask(
    client,
    `SELECT EXISTS (
       SELECT FROM pg_stat_activity
       WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
     ) AS answer`,
  );
}

async function ask(client: Client, question: string): Promise<boolean> {
  const { rows } = await client.query<{ answer: boolean }>(question);
  return rows[0]?.answer === true;
}

/** To the server's log, which is where a failed start is looked up. */
function report(error: unknown): void {
  const told = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`keeper: ${told}\n`);
}

async function main(): Promise<number> {
  const task = KEEPER_TASK.parse(JSON.parse(process.argv[2] ?? ''));
  if (!(await ensureServer(task))) return 1;
  const server = await findPostmaster(task.place.location);
  if (server !== null) await new Keeper(task, server.pid).watch();
  return 0;
}

try {
  process.exit(await main());
} catch (error) {
  report(error);
  process.exit(1);
}
