import type { Pool, PoolClient, QueryConfig } from 'pg';
import { StoreConnectionError } from './errors.js';
import { watchConnection, type Backend, type WatchTimes } from './lock-watch.js';

/** The connections that locks are held on, and those that everything else is done on. */
export interface LockPools {
  readonly locks: Pool;
  readonly others: Pool;
  readonly times: WatchTimes;
}

/** A connection on which statements may take any time, and whose loss is noticed. */
export interface LongConnection {
  readonly client: PoolClient;
  /** Aborts with a `StoreConnectionError` when the connection is gone. */
  readonly lost: AbortSignal;
  /** Gives it back; one that is in doubt is closed. */
  readonly release: (isSound: boolean) => void;
}

/** An advisory lock, and the connection that holds it. */
export interface HeldLock {
  readonly client: PoolClient;
  /** Aborts with a `StoreConnectionError` when the connection is gone, and the lock with it. */
  readonly lost: AbortSignal;
  /** @throws {StoreConnectionError} when the connection is gone, and the lock with it */
  readonly assertHeld: () => void;
  release(): Promise<void>;
}

/**
 * A slow list leaves the connection idle, within the transaction too: a server's limits must not
 * end it. A client that has vanished must: its lock is freed within two minutes. (Over a Unix
 * socket, on which nobody can vanish, the server takes no notice of the latter.)
 */
const SESSION = `
  SELECT set_config('statement_timeout', '0', false), set_config('idle_session_timeout', '0', false),
         set_config('idle_in_transaction_session_timeout', '0', false),
         set_config('tcp_keepalives_idle', '30', false),
         set_config('tcp_keepalives_interval', '10', false),
         set_config('tcp_keepalives_count', '3', false),
         set_config('tcp_user_timeout', '60000', false)`;

const BACKEND = `
  SELECT pid, extract(epoch FROM backend_start)::text AS "startedAt" FROM pg_stat_activity WHERE pid = pg_backend_pid()`;

/** Opens a connection for work of any length. */
export async function openLong(pools: LockPools): Promise<LongConnection> {
  const client = await pools.locks.connect();
  const loss = new AbortController();
  const onLoss = (): void => loss.abort(cut());
  client.on('error', onLoss);
  let endWatch = (): void => undefined;
  const release = (isSound: boolean): void => {
    endWatch();
    if (isSound) client.off('error', onLoss);
    client.release(!isSound);
  };
  try {
    endWatch = await prepare(client, pools);
  } catch (error) {
    release(false);
    throw error;
  }
  return { client, lost: loss.signal, release };
}

/**
 * Takes the advisory lock of this name, without waiting.
 * @param busy the error to throw when another session holds it
 */
export async function tryLock(
  pools: LockPools,
  name: string,
  busy: (client: PoolClient) => Promise<Error>,
): Promise<HeldLock> {
  const { client, lost, release } = await openLong(pools);
  let refusal: Error | null;
  try {
    const { rows } = await client.query<{ locked: boolean }>(
      'SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS locked',
      [name],
    );
    refusal = rows[0]?.locked === true ? null : await busy(client);
  } catch (error) {
    release(false);
    throw error;
  }
  if (refusal !== null) {
    release(true);
    throw refusal;
  }
  return {
    client,
    lost,
    assertHeld: () => lost.throwIfAborted(),
    async release() {
      try {
        await client.query('SELECT pg_advisory_unlock(hashtextextended($1, 0))', [name]);
        release(true);
      } catch {
        // The connection is gone or in doubt, and the lock goes with it.
        release(false);
      }
    },
  };
}

function cut(): StoreConnectionError {
  return new StoreConnectionError(
    'the connection to the database was cut in the middle of a run',
    'Run it again; nothing is half written.',
  );
}

/** Fits a connection for a run of any length; returns what ends the watch over it. */
async function prepare(client: PoolClient, { others, times }: LockPools): Promise<() => void> {
  // It may have died while it was idle, and is not watched yet.
  const { silentMs: query_timeout } = times;
  const bounded = (text: string): QueryConfig & { query_timeout: number } => ({
    text,
    query_timeout,
  });
  await client.query(bounded(SESSION));
  const { rows } = await client.query<Backend>(bounded(BACKEND));
  if (rows[0] === undefined) throw new Error('the store does not know its own session');
  return watchConnection(client, rows[0], others, times);
}
