import { UserError } from '../domain/user-error.js';
import type { Socket } from 'node:net';
import type { Pool, PoolClient, QueryConfig } from 'pg';
import type { Db } from './db.js';
import { onlyRow } from './connection.js';
import { poolerError } from './requirements.js';

/** A connection whose statements may take any time, and whose loss is noticed. */
export interface LongConnection {
  readonly client: PoolClient;
  /** Aborts with a `UserError` when the connection is lost. */
  readonly lost: AbortSignal;
  /** Returns it to the pool, or closes it if it may be broken. */
  readonly release: (isSound: boolean) => void;
}

/** The connection that holds an advisory lock. Losing the connection loses the lock. */
type AdvisoryLock = Pick<LongConnection, 'client' | 'lost'>;

/** The server process of a connection. PIDs are reused; the start time tells two processes apart. */
interface Backend {
  readonly pid: number;
  readonly startedAt: string;
}

/**
 * A slow list leaves the connection idle, also within a transaction, so the server's timeouts are off.
 * TCP keepalives let the server notice a vanished client and free its lock within two minutes. (Over a
 * Unix socket, where clients can't vanish, they have no effect.)
 */
const PREPARE: QueryConfig & { readonly query_timeout: number } = {
  query_timeout: 30_000,
  text: `
  SELECT pid, extract(epoch FROM backend_start)::text AS "startedAt",
         set_config('statement_timeout', '0', false), set_config('idle_session_timeout', '0', false),
         set_config('idle_in_transaction_session_timeout', '0', false),
         set_config('tcp_keepalives_idle', '30', false),
         set_config('tcp_keepalives_interval', '10', false),
         set_config('tcp_keepalives_count', '3', false),
         set_config('tcp_user_timeout', '60000', false)
    FROM pg_stat_activity WHERE pid = pg_backend_pid()`,
};

/** Opens a connection whose statements may take any time. */
export async function openLongConnection({ locks, pool }: Db): Promise<LongConnection> {
  const client = await locks.connect();
  const loss = new AbortController();
  const onLoss = (): void => loss.abort(lostConnection('was cut'));
  client.on('error', onLoss);
  let watch: NodeJS.Timeout | undefined;
  const release = (isSound: boolean): void => {
    clearInterval(watch);
    if (isSound) client.off('error', onLoss);
    client.release(!isSound);
  };
  try {
    // The connection may have died while idle, and is not watched yet.
    const backend = onlyRow(await client.query<Backend>(PREPARE));
    watch = watchConnection(client, backend, pool);
  } catch (error) {
    release(false);
    throw error;
  }
  return { client, lost: loss.signal, release };
}

function lostConnection(what: string): UserError {
  return new UserError(
    `the connection to the database ${what} during a run`,
    'Run it again. No partial data was written.',
    'STORE_CONNECTION',
  );
}

/**
 * Runs `work` under the advisory lock with this name. Does not wait for the lock.
 * @param busy returns the error to throw if another session holds it
 */
export async function withLock<T>(
  db: Db,
  name: string,
  busy: (client: PoolClient) => Error | Promise<Error>,
  work: (lock: AdvisoryLock) => Promise<T>,
): Promise<T> {
  const connection = await openLongConnection(db);
  const { client, lost } = connection;
  let refusal: Error | null = null;
  try {
    const { rows } = await client.query<{ locked: boolean }>(
      'SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS locked',
      [name],
    );
    if (rows[0]?.locked !== true) refusal = await busy(client);
  } catch (error) {
    connection.release(false);
    throw error;
  }
  if (refusal !== null) {
    connection.release(true);
    throw refusal;
  }
  try {
    return await work({ client, lost });
  } finally {
    await unlock(connection, name);
  }
}

/** @throws {UserError} if this session does not hold the lock */
async function unlock({ client, release }: LongConnection, name: string): Promise<void> {
  const unlocking = client.query<{ unlocked: boolean }>(
    'SELECT pg_advisory_unlock(hashtextextended($1, 0)) AS unlocked',
    [name],
  );
  // Without an answer the connection is closed, which frees the lock, too.
  const isUnlocked = await unlocking
    .then(({ rows }) => rows[0]?.unlocked === true)
    .catch(() => null);
  release(isUnlocked === true);
  if (isUnlocked === false) throw poolerError();
}

/** A seller's lock. The run writes on its connection, so that lock and transaction are lost together. */
export interface SellerLock extends AdvisoryLock {
  readonly sellerId: string;
}

const LOCK_PREFIX = 'seller-mirror/seller/';

/**
 * SQL of whether a run holds a seller's lock. `IS TRUE` makes PostgreSQL hash the locks once instead of
 * comparing each run with each lock.
 * @param seller SQL of the seller's id
 */
export const sellerIsLocked = (seller: string): string => `
  (hashtextextended('${LOCK_PREFIX}' || ${seller}, 0) IN (
     SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
      WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))) IS TRUE`;

/** Runs `work` under a seller's lock. @throws {UserError} `BUSY` if another run holds it */
export function withSellerLock<T>(
  db: Db,
  sellerId: string,
  work: (lock: SellerLock) => Promise<T>,
): Promise<T> {
  const refusal = (client: PoolClient): Promise<UserError> => busy(client, sellerId);
  return withLock(db, LOCK_PREFIX + sellerId, refusal, (lock) => work({ sellerId, ...lock }));
}

async function busy(client: PoolClient, sellerId: string): Promise<UserError> {
  const { rows } = await client.query<{ holder: string; started_at: Date }>(
    `SELECT holder, started_at FROM mirror.runs
      WHERE seller_id = $1 AND state = 'running' ORDER BY run_id DESC LIMIT 1`,
    [sellerId],
  );
  const [run] = rows;
  const since = run === undefined ? '' : ` since ${run.started_at.toISOString()}`;
  return new UserError(
    `seller "${sellerId}" is already being mirrored by ${run?.holder ?? 'another process'}${since}`,
    'wait until it has ended; `seller-mirror status` shows it',
    'BUSY',
  );
}

/**
 * SQL that calls this advisory lock function for the lock of a seller's items. A run holds it shared
 * while its transaction writes items, since it finds rows by ctid. Other processes that update item rows
 * take it exclusively. It is not the seller's lock, which a run holds from start to end.
 * @param seller SQL of the seller's id
 */
export function itemsLockSql(lockFunction: string, seller: string): string {
  return `${lockFunction}(hashtextextended('seller-mirror/items/' || ${seller}, 0))`;
}

/** The server is asked this often (ms) whether it still has a connection. */
const ASK_EVERY_MS = 30_000;
/** A server that can't be asked so many times in a row has lost the connection, too. */
const MOST_FAILED = 3;

/**
 * Watches a connection whose statements may take any time, so that no timeout can tell a long statement from a dead
 * connection. The server ends a connection whose client is gone within a minute (`PREPARE`). Another connection asks it
 * whether this one is still there; if not, it is destroyed, which fails its statement with a `UserError`.
 */
function watchConnection(client: PoolClient, { pid, startedAt }: Backend, pool: Pool) {
  let failed = 0;
  const lose = (): void =>
    void (client.connection.stream as Socket).destroy(lostConnection('stopped responding'));
  const ask = async (): Promise<void> => {
    const { rowCount } = await pool.query(
      `SELECT FROM pg_stat_activity WHERE pid = $1 AND extract(epoch FROM backend_start)::text = $2`,
      [pid, startedAt],
    );
    failed = 0;
    if (rowCount === 0) lose();
  };
  // Counted, not timed: this process may have slept.
  const onFailure = (): void => {
    failed += 1;
    if (failed >= MOST_FAILED) lose();
  };
  return setInterval(() => void ask().catch(onFailure), ASK_EVERY_MS).unref();
}
