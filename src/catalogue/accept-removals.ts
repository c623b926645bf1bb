import { UserError } from '../domain/user-error.js';
import { keepHeldItems, readShown } from './held-store.js';
import { describeAcceptance } from './rules.js';
import { type SellerLock, withSellerLock } from '../db/locks.js';
import type { Db } from '../db/db.js';
import { findSellerOfRun, finishRun, startRun } from './runs-store.js';
import { changeStates, writeFew } from './merge-store.js';

interface AcceptDeps {
  readonly db: Db;
  /** Host and process, shown to whoever finds the lock held. */
  readonly holder: string;
  /** Who accepts or keeps, with the reason if there is one. */
  readonly by: string;
}

/** What accepting held removals did. */
export interface Accepted {
  /** The run that removed the items. */
  readonly runId: bigint;
  readonly sellerId: string;
  /** The run that showed them. */
  readonly acceptedRunId: bigint;
  readonly removed: number;
  /** Number of items that were shown. */
  readonly shown: number;
  /** Sentences about those that were not removed. */
  readonly rest: readonly string[];
}

/**
 * Removes the items that a run of items shows as held, if they are still held as proven gone. A run of its own
 * does it, without requests to the marketplace.
 * @throws {UserError} when there is no such run, or nothing that it shows can be removed
 * @throws {UserError} `BUSY` while another run of the seller is in progress
 */
export function acceptRemovals(deps: AcceptDeps, runId: bigint): Promise<Accepted> {
  return underLock(deps.db, runId, async (lock) => {
    const shown = await readShown(lock.client, lock.sellerId, runId);
    const { gone, rest, refusal } = describeAcceptance(runId, shown);
    if (refusal !== null) throw new UserError(refusal, STATUS, 'FAILED');
    const { sellerId } = lock;
    const warnings = [`accepted by ${deps.by}: the removals that run ${runId} shows`, ...rest];
    const remove = gone.map(({ itemId }) => itemId);
    // One transaction with its run: if it fails, nobody has accepted anything.
    const { stamp, removed } = await writeFew(lock, async () => {
      const run = await startRun(lock, 'approval', deps.holder, null, runId);
      const counts = { removed: await changeStates(lock, { remove, missing: [] }) };
      const end = { state: 'succeeded', warnings, problemCode: null, problem: null } as const;
      await finishRun(lock.client, run.runId, end, counts);
      return { stamp: { sellerId, ...run }, ...counts };
    });
    const done = { runId: stamp.runId, sellerId, acceptedRunId: runId };
    return { ...done, removed, shown: shown.length, rest };
  });
}

/**
 * Keeps the items that a run of items shows as held: they stay missing, and need nobody any more.
 * @returns how many; 0: they were kept before
 * @throws {UserError} when there is no such run, or it shows no held item
 * @throws {UserError} `BUSY` while another run of the seller is in progress
 */
export function keepRemovals(
  { db }: Pick<AcceptDeps, 'db'>,
  runId: bigint,
): Promise<{ readonly sellerId: string; readonly kept: number }> {
  return underLock(db, runId, async (lock) => {
    const shown = await readShown(lock.client, lock.sellerId, runId);
    if (shown.every(({ now }) => now === 'back' || now === 'removed')) {
      throw new UserError(`run ${runId} shows no item that is still held`, STATUS, 'FAILED');
    }
    return { sellerId: lock.sellerId, kept: await keepHeldItems(lock, runId) };
  });
}

const STATUS = '`seller-mirror status` says what needs you';

/** @throws {UserError} when there is no such run */
async function underLock<T>(
  db: Db,
  runId: bigint,
  work: (lock: SellerLock) => Promise<T>,
): Promise<T> {
  const sellerId = await findSellerOfRun(db, runId);
  if (sellerId === null) {
    throw new UserError(
      `there is no run ${runId}`,
      '`seller-mirror runs` lists them',
      'NOT_FOUND',
      2,
    );
  }
  return withSellerLock(db, sellerId, work);
}
