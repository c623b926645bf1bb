import { realpath } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { exists, files, type Place } from './place.js';
import {
  connect,
  findPostmaster,
  isTransient,
  readCredentials,
  rotateLog,
  stopServer,
  WATCHER_LOCK,
  WATCHER_NAME,
} from './server.js';

/*
 * The watcher is a small separate process. It stops the embedded server once nobody has been connected for two seconds
 * and `db start` does not hold it. The server runs on without it: the next command starts another watcher.
 */

/** Longest wait for a server that doesn't answer (ms). */
const PATIENCE_MS = 60_000;
const POLL_MS = 500;
/** The server stops after this long without connections (ms). */
const IDLE_MS = 2_000;

/** Watches server `pid` until it stops, or until another watcher is found. */
async function watch(place: Place, pid: number): Promise<void> {
  const name = `${WATCHER_NAME} ${process.pid}`;
  let client: Client | null = null;
  let usedAt = performance.now();
  let answeredAt = performance.now();
  for (; ; await sleep(POLL_MS)) {
    const server = await findPostmaster(place.location);
    if (server?.pid !== pid) return await stopServer(pid, 'QUIT'); // it ended, or its files are gone
    await rotateLog(place.location).catch(() => {}); // a full disk must not end the watcher
    try {
      if (client === null) {
        const credentials = await readCredentials(place.location);
        client = await connect(credentials, server.port ?? 0, 'admin', name);
        client.once('end', () => (client = null));
        if (!(await isTrue(client, `pg_try_advisory_lock(${WATCHER_LOCK})`))) return;
      }
      answeredAt = performance.now();
      if (await isInUse(client, place)) usedAt = performance.now();
      if (performance.now() - usedAt < IDLE_MS) continue;
      // Who connects from now on sees the new name and waits. Who connected before is seen by the second look.
      await client.query(`SET application_name = '${name} closing'`);
      if (!(await isInUse(client, place))) return await stopServer(pid, 'INT');
      await client.query(`SET application_name = '${name}'`);
    } catch (error) {
      await client?.end().catch(() => {});
      client = null;
      if (isTransient(error)) answeredAt = performance.now(); // it recovers from a crash, or stops
      if (performance.now() - answeredAt < PATIENCE_MS) continue;
      logError(error);
      return await stopServer(pid, 'INT');
    }
  }
}

/** Whether anybody is connected, or `db start` holds the server. */
async function isInUse(client: Client, { location, pointer }: Place): Promise<boolean> {
  const others = `EXISTS (SELECT FROM pg_stat_activity
                           WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())`;
  if (await isTrue(client, others)) return true;
  if (!(await exists(files.held(location)))) return false;
  // If DATA_DIR no longer points to this database, nobody could end the hold.
  return (await realpath(pointer).catch(() => null)) === location;
}

async function isTrue(client: Client, expression: string): Promise<boolean> {
  const { rows } = await client.query<{ value: boolean }>(`SELECT ${expression} AS value`);
  return rows[0]?.value === true;
}

/** Writes to the server's log. */
function logError(error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`watcher: ${text}\n`);
}

try {
  // Arguments hold no secret, since every user can read them.
  const [place = '', pid] = process.argv.slice(2);
  await watch(JSON.parse(place) as Place, Number(pid));
  process.exit(0);
} catch (error) {
  logError(error);
  process.exit(1);
}
