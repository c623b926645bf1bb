import type { Socket } from 'node:net';
import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool, PoolClient, QueryConfig } from 'pg';
import { StoreConnectionError } from './errors.js';

/** How long a connection may be silent, and how its silence is looked into; milliseconds. */
export interface WatchTimes {
  /** From then on a statement without a byte in either direction is looked into. */
  readonly silentMs: number;
  /** Bound of one look, and the pause between two. */
  readonly askMs: number;
}

export const WATCH_TIMES: WatchTimes = { silentMs: 30_000, askMs: 10_000 };

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

/** An advisory lock, and the connection that holds it: `lost` tells that both are gone. */
export interface HeldLock extends Pick<LongConnection, 'client' | 'lost'> {
  /** @throws {StoreConnectionError} when the connection is gone, and the lock with it */
  readonly assertHeld: () => void;
  release(): Promise<void>;
}

/** The server's process behind a connection: a later one with the same number has another start. */
interface Backend {
  readonly pid: number;
  readonly startedAt: string;
}

/**
 * A slow list leaves the connection idle, within the transaction too: a server's limits must not
 * end it. A client that has vanished must: its lock is freed within two minutes. (Over a Unix
 * socket, on which nobody can vanish, the server takes no notice of the latter.)
 */
const PREPARE = `
  SELECT pid, extract(epoch FROM backend_start)::text AS "startedAt",
         set_config('statement_timeout', '0', false), set_config('idle_session_timeout', '0', false),
         set_config('idle_in_transaction_session_timeout', '0', false),
         set_config('tcp_keepalives_idle', '30', false),
         set_config('tcp_keepalives_interval', '10', false),
         set_config('tcp_keepalives_count', '3', false),
         set_config('tcp_user_timeout', '60000', false)
    FROM pg_stat_activity WHERE pid = pg_backend_pid()`;

/** Opens a connection for work of any length. */
export async function openLong({ locks, others, times }: LockPools): Promise<LongConnection> {
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
    // It may have died while it was idle, and is not watched yet.
    const prepare: BoundedQuery = { text: PREPARE, query_timeout: times.silentMs };
    const { rows } = await client.query<Backend>(prepare);
    if (rows[0] === undefined) throw new Error('the store does not know its own session');
    watch = watchConnection(client, rows[0], others, times);
  } catch (error) {
    release(false);
    throw error;
  }
  return { client, lost: loss.signal, release };
}

/** A query with the driver's time-out (ms), which its types leave out. */
type BoundedQuery = QueryConfig & { readonly query_timeout: number };

function lostConnection(what: string): StoreConnectionError {
  return new StoreConnectionError(
    `the connection to the database ${what} in the middle of a run`,
    'Run it again; nothing is half written.',
  );
}

/**
 * Takes the advisory lock of this name, without waiting.
 * @param busy the error to throw when another session holds it
 */
export async function tryLock(
  pools: LockPools,
  name: string,
  busy: (client: PoolClient) => Error | Promise<Error>,
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
    // Where the connection is gone or in doubt, the lock goes with it.
    release: () =>
      client.query('SELECT pg_advisory_unlock(hashtextextended($1, 0))', [name]).then(
        () => release(true),
        () => release(false),
      ),
  };
}

/** Another run works for this seller. */
export class SellerBusyError extends Error {
  override readonly name = 'SellerBusyError';

  constructor(
    readonly sellerId: string,
    readonly holder: string,
    readonly since: Date | null,
  ) {
    super(
      `seller "${sellerId}" is being mirrored already by ${holder}` +
        (since === null ? '' : ` since ${since.toISOString()}`),
    );
  }
}

/**
 * A seller's lock, and the connection that holds it. The run writes on this connection, so that
 * losing it loses the lock and the transaction together.
 */
export interface SellerLock extends HeldLock {
  readonly sellerId: string;
}

const LOCK_PREFIX = 'seller-mirror/seller/';

/**
 * SQL: whether a run works for a seller now. Locks are read once into a hash table, which `IS TRUE` brings
 * about: PostgreSQL would else compare each run with each lock.
 * @param seller SQL of the seller's name
 */
export const sellerIsLocked = (seller: string): string => `
  (hashtextextended('${LOCK_PREFIX}' || ${seller}, 0) IN (
     SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
      WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))) IS TRUE`;

/** @throws {SellerBusyError} when another run holds the lock, naming the holder */
export async function lockSeller(pools: LockPools, sellerId: string): Promise<SellerLock> {
  const lock = await tryLock(pools, LOCK_PREFIX + sellerId, (client) => busy(client, sellerId));
  return { sellerId, ...lock };
}

async function busy(client: PoolClient, sellerId: string): Promise<SellerBusyError> {
  const { rows } = await client.query<{ holder: string; started_at: Date }>(
    `SELECT holder, started_at FROM mirror.runs
      WHERE seller_id = $1 AND state = 'running' ORDER BY run_id DESC LIMIT 1`,
    [sellerId],
  );
  return new SellerBusyError(
    sellerId,
    rows[0]?.holder ?? 'another process',
    rows[0]?.started_at ?? null,
  );
}

/**
 * SQL of a call of this advisory lock function on the lock of a seller's items. A run shares it while
 * its transaction writes them, since it finds rows by their place, and who moves rows without being a
 * run takes it alone. The lock of the seller is another one: it is held for as long as a run lasts.
 * @param seller SQL of the seller's name
 */
export function itemsLockSql(lockFunction: string, seller: string): string {
  return `${lockFunction}(hashtextextended('seller-mirror/items/' || ${seller}, 0))`;
}

/** One look may be wrong: an answer may be on its way, or the network gone for a moment. */
const DOUBTS_ENOUGH = 3;

/**
 * Watches a connection on which statements may take any time, so that no time-out can tell a long
 * one from a connection that died without a word. When a statement is silent, another connection
 * asks whether the server is still at work on it; if it is not, or can't be asked, the connection
 * is ended, which fails the statement with a `StoreConnectionError`.
 */
function watchConnection(
  client: PoolClient,
  backend: Backend,
  pool: Pool,
  { silentMs, askMs }: WatchTimes,
): NodeJS.Timeout {
  let bytes = -1;
  let since = 0;
  let doubts = 0;
  let asking = false;
  const isSilent = (): boolean => {
    if (isWaiting(client) && bytesOf(client) === bytes) return true;
    bytes = bytesOf(client);
    since = performance.now();
    doubts = 0;
    return false;
  };
  const look = async (): Promise<void> => {
    if (!isSilent() || performance.now() - since < silentMs) return;
    if (await isAtWork(pool, backend, askMs)) {
      since = performance.now();
      doubts = 0;
    }
    // An answer that came meanwhile counts for more.
    else if (isSilent() && ++doubts >= DOUBTS_ENOUGH) {
      socketOf(client).destroy(lostConnection('fell silent'));
    }
  };
  const timer = setInterval(() => {
    if (asking) return;
    asking = true;
    void look().finally(() => (asking = false));
  }, askMs);
  return timer.unref();
}

/** The parts of the driver that its types leave out. */
interface Inside {
  /** False as long as a statement is under way. */
  readonly readyForQuery?: boolean;
  _getActiveQuery?(): unknown;
}

/** Whether it is the server's turn. */
function isWaiting(client: PoolClient): boolean {
  const inside = client as unknown as Inside;
  if (inside.readyForQuery !== false) return false;
  const statement = inside._getActiveQuery?.();
  // A COPY that is neither ended nor has anything to send waits for the list, not for the server.
  const isOurTurn =
    statement instanceof Writable &&
    !statement.writableEnded &&
    !statement.destroyed &&
    statement.writableLength === 0;
  return !isOurTurn;
}

function socketOf(client: PoolClient): Socket {
  return client.connection.stream as Socket;
}

function bytesOf(client: PoolClient): number {
  const { bytesRead, bytesWritten } = socketOf(client);
  return bytesRead + bytesWritten;
}

/** Whether the server works on the statement, as another connection sees it; false when it can't tell. */
async function isAtWork(pool: Pool, { pid, startedAt }: Backend, askMs: number): Promise<boolean> {
  const question: BoundedQuery = {
    // A server that waits for us while we wait for it, or that can't get rid of its answer, is not at work.
    text: `SELECT FROM pg_stat_activity
            WHERE pid = $1 AND extract(epoch FROM backend_start)::text = $2 AND state = 'active'
              AND wait_event_type IS DISTINCT FROM 'Client'`,
    values: [pid, startedAt],
    query_timeout: askMs,
  };
  const answer = pool.query(question).then(
    ({ rowCount }) => rowCount === 1,
    () => false,
  );
  // A connection may have to be made first, which takes its own time.
  return Promise.race([answer, sleep(askMs, false, { ref: false })]);
}
