import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { errorCode, StoreError } from './errors.js';

/** Locks that writers hold from the first number they take to their commit; see the migrations. */
const GATES = ['seller-mirror/purchases', 'seller-mirror/item-changes'].map(
  (name) => `pg_advisory_lock(hashtextextended('${name}', 0))`,
);

const TRIES = 60;
const WAIT_MS = 1_000;
const LOCK_NOT_AVAILABLE = '55P03';

/**
 * Does something while nobody is between taking a number of the feeds and committing what it stands
 * for: then all up to the last number is committed. Writers wait meanwhile, so it must be short, and
 * so is the wait for them.
 * @throws {FeedBusyError} when writers don't come to an end
 */
export async function holdFeeds<T>(client: Client, work: () => Promise<T>): Promise<T> {
  for (let tries = 1; !(await taken(client)); tries++) {
    if (tries === TRIES) throw blockedError();
    await pause(WAIT_MS / 4);
  }
  const result = await work();
  await client.query('SELECT pg_advisory_unlock_all()');
  return result;
}

async function taken(client: Client): Promise<boolean> {
  try {
    await client.query(`SET lock_timeout = ${WAIT_MS}`);
    for (const gate of GATES) await client.query(`SELECT ${gate}`);
    await client.query('RESET lock_timeout');
    return true;
  } catch (error) {
    await client.query('SELECT pg_advisory_unlock_all()');
    if (errorCode(error) !== LOCK_NOT_AVAILABLE) throw error;
    return false;
  }
}

/** Writers do not come to an end, so that nobody can tell how far the feeds are. */
export class FeedBusyError extends StoreError {
  readonly code = 'FEED_BUSY';
}

function blockedError(): StoreError {
  return new FeedBusyError(
    'a process has been writing items or purchase codes for a minute without coming to an end',
    'repeat it later; `seller-mirror status` shows what runs, and pg_stat_activity who waits',
  );
}
