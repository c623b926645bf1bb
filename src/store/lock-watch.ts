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

/** One look may be wrong: an answer may be on its way, or the network gone for a moment. */
const DOUBTS_ENOUGH = 3;

/** The server's process behind a watched connection. */
export interface Backend {
  readonly pid: number;
  /** Seconds since 1970: tells it from a later one of the same number. */
  readonly startedAt: string;
}

/**
 * Watches a connection on which statements may take any time, so that no time-out can tell a long
 * one from a connection that died without a word. When a statement is silent, another connection
 * asks whether the server is still at work on it; if it is not, or can't be asked, the connection
 * is ended, which fails the statement with a `StoreConnectionError`.
 * @returns ends the watch
 */
export function watchConnection(
  client: PoolClient,
  backend: Backend,
  pool: Pool,
  { silentMs, askMs }: WatchTimes,
): () => void {
  let [bytes, since, doubts, asking] = [-1, 0, 0, false];
  const rest = (): void => {
    [bytes, since, doubts] = [bytesOf(client), performance.now(), 0];
  };
  const look = async (): Promise<void> => {
    if (!isWaiting(client) || bytesOf(client) !== bytes) return rest();
    if (performance.now() - since < silentMs) return;
    const atWork = await isAtWork(pool, backend, askMs);
    if (atWork) return rest();
    // What was said meanwhile counts for more.
    if (!isWaiting(client) || bytesOf(client) !== bytes) return rest();
    if (++doubts >= DOUBTS_ENOUGH) socketOf(client).destroy(silence());
  };
  const timer = setInterval(() => {
    if (asking) return;
    asking = true;
    void look().finally(() => (asking = false));
  }, askMs);
  timer.unref();
  return () => clearInterval(timer);
}

function silence(): StoreConnectionError {
  return new StoreConnectionError(
    'the connection to the database fell silent in the middle of a run',
    'Run it again; nothing is half written.',
  );
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
  const question: QueryConfig & { readonly query_timeout: number } = {
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
