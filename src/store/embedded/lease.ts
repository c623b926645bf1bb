import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { EmbeddedStartError, errorCode, type StoreError } from '../errors.js';
import { KEEPER_LOCK, LEASE_LOCK, connect, isPassing, type Credentials } from './connections.js';
import { diskFull } from './folders.js';
import { START_MARK } from './keeper-task.js';
import { files, type Place } from './place.js';
import { findPostmaster } from './postmaster.js';

const RENEW_PAUSE_MS = 5_000;

/** A lease as it was taken: while its connection lasts, the keeper leaves the server up. */
export interface Taken {
  readonly client: Client;
  readonly port: number;
  /** Whether a keeper watches the server. */
  readonly kept: boolean;
  /** The mark the server was started with. */
  readonly mark: string;
}

/**
 * Takes a lease on the server of `place`; null when there is no server yet, or it is just starting
 * or stopping.
 */
export async function tryLease(
  place: Place,
  credentials: Credentials,
  name: string,
): Promise<Taken | null> {
  const server = await findPostmaster(place.location);
  if (server?.ready !== true || server.port === null) return null;
  let client: Client | null = null;
  try {
    client = await connect(credentials, server.port, 'app', name);
    await client.query(`SELECT pg_advisory_lock_shared(${LEASE_LOCK})`);
    const [classId, objectId] = KEEPER_LOCK.split(', ');
    const { rows } = await client.query<{ kept: boolean; mark: string | null }>(
      `SELECT current_setting('${START_MARK}', true) AS mark, EXISTS (
         SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted
           AND classid = ${classId} AND objid = ${objectId} AND objsubid = 2
       ) AS kept`,
    );
    return {
      client,
      port: server.port,
      kept: rows[0]?.kept === true,
      mark: rows[0]?.mark ?? '',
    };
  } catch (error) {
    await client?.end().catch(() => {});
    if (isPassing(error)) return null;
    throw refused(error, place);
  }
}

function refused(error: unknown, place: Place): StoreError {
  const said = error instanceof Error ? error.message : String(error);
  if (said.includes('No space left on device')) return diskFull(place.location, error);
  const crowded = errorCode(error) === '53300';
  return new EmbeddedStartError(
    `the embedded database in ${place.location} does not let this command in: ${said}`,
    crowded
      ? `End other sessions, or raise max_connections in ${files.data(place.location)}/postgresql.conf.`
      : `Its log may tell more: ${files.log(place.location)}`,
    { cause: error },
  );
}

/**
 * Holds a lease until `close`. When the server crashes and recovers, or is killed, the lease is
 * taken again, and the server started again if need be: a command that waits, such as `run`, goes
 * on. A server that was told to stop is left in peace.
 */
export class Lease {
  readonly #take: () => Promise<Taken>;
  #client: Client;
  #closed = false;

  constructor(first: Taken, take: () => Promise<Taken>) {
    this.#take = take;
    this.#client = this.#watch(first.client);
  }

  #watch(client: Client): Client {
    let dismissed = false;
    client.on('error', (error) => {
      // The server tells of its orderly end and of its sudden death under the same code.
      const died = error.message.includes('unexpected postmaster exit');
      if (errorCode(error) === '57P01' && !died) dismissed = true;
    });
    client.once('end', () => {
      if (!this.#closed && !dismissed) void this.#renew();
    });
    return client;
  }

  /** Until it succeeds: who runs for months must outlive a full disk. Its users meet the trouble themselves. */
  async #renew(): Promise<void> {
    while (!this.#closed) {
      const taken = await this.#take().catch(() => null);
      if (taken === null) {
        await sleep(RENEW_PAUSE_MS, undefined, { ref: false });
        continue;
      }
      if (this.#closed) await taken.client.end();
      else this.#client = this.#watch(taken.client);
      return;
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#client.end().catch(() => {});
  }
}
