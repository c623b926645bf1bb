import { checkDecision, type Decision } from './rules.js';
import {
  type HeldItemStates,
  type HeldRunRecord,
  recordDecision,
  readHeldRun,
} from './decisions-store.js';
import { type SellerLock, lockSeller } from '../db/locks.js';
import type { Db } from '../db/db.js';
import { startRun, finishRun } from './runs-store.js';
import { ItemSession } from './session-store.js';
import { storeProblem } from './problem.js';

interface DecisionDeps {
  readonly db: Db;
  /** Host and process, shown to whoever finds the lock held. */
  readonly holder: string;
  /** Name of the person who decides. */
  readonly by: string;
}

export type DecisionReport = Awaited<ReturnType<typeof decideRemovals>>;

export class DecisionRefused extends Error {
  override readonly name = 'DecisionRefused';

  constructor(
    message: string,
    readonly remedy: string,
  ) {
    super(message);
  }
}

/**
 * Carries out a person's decision about a held run, without requests to the marketplace.
 *
 * - Approving starts a run that removes the items which are proven to be gone and were not listed or found
 *   since.
 * - Rejecting keeps the items that are still missing, also after an approval.
 *
 * @throws {DecisionRefused} when there is no such run, or nothing to decide about it
 * @throws {SellerBusyError} while another run of the seller is in progress
 */
export async function decideRemovals(deps: DecisionDeps, runId: bigint, decision: Decision) {
  const { db, by } = deps;
  const { sellerId } = (await requireHeldRun(db, runId, decision)).run;
  const lock = await lockSeller(db, sellerId);
  try {
    // Read again: it may have changed before the lock was taken.
    const { run, already } = await requireHeldRun(db, runId, decision);
    let done: Approved = { removed: 0, left: null };
    if (!already && decision === 'approved') done = await approve(deps, lock, run);
    if (!already && decision === 'rejected') {
      const { approvalRunId } = run;
      await recordDecision(lock, runId, { decision, by, approvalRunId });
    }
    const { run: after } = await requireHeldRun(db, runId, decision);
    const { decidedAt, decidedBy, items, missing, approvalRunId } = after;
    return {
      runId,
      sellerId,
      decision,
      decidedAt,
      decidedBy,
      items,
      ...done,
      /** The decision was made before; nothing was done now. */
      already,
      removedBefore: after.removed - done.removed,
      /** Items still missing: kept by a rejection, or not proven to be gone after an approval. */
      missing,
      /** The run that removed items, now or before; null: none. */
      approvalRunId,
    };
  } finally {
    await lock.release();
  }
}

/** @throws {DecisionRefused} when the decision can't be made */
async function requireHeldRun(
  db: Db,
  runId: bigint,
  decision: Decision,
): Promise<{ readonly run: HeldRunRecord; readonly already: boolean }> {
  const run = await readHeldRun(db, runId);
  if (run === null) {
    throw new DecisionRefused(`there is no run ${runId}`, '`seller-mirror runs` lists them');
  }
  const check = checkDecision(run, decision);
  if (check.kind === 'refused') throw new DecisionRefused(check.why, check.remedy);
  return { run, already: check.kind === 'already-made' };
}

/** What an approval removed, and the state of the other items; null: no approval was made now. */
interface Approved {
  readonly removed: number;
  readonly left: Omit<HeldItemStates, 'gone'> | null;
}

async function approve(
  { db, holder, by }: DecisionDeps,
  lock: SellerLock,
  { runId, sellerId }: HeldRunRecord,
): Promise<Approved> {
  const approval = await startRun(lock, 'approval', holder, null);
  const session = new ItemSession(lock, { sellerId, ...approval });
  try {
    const { gone: remove, ...left } = await session.heldItemStates(runId);
    const removed = await session.remove({ remove, missing: [] });
    await session.recordDecision(runId, {
      decision: 'approved',
      by,
      approvalRunId: approval.runId,
    });
    const warnings = [`approved by ${by}: the removals of run ${runId}`];
    const end = { state: 'succeeded', warnings, problemCode: null, problem: null } as const;
    await session.finish(end, { removed });
    await session.commit();
    return { removed, left };
  } catch (error) {
    await session.discard();
    const { code: problemCode, message: problem } = storeProblem(error);
    const end = { state: 'failed', warnings: [], problemCode, problem } as const;
    // Best effort. If the store fails here, the next run marks this one.
    await finishRun(db.pool, approval.runId, end, {}).catch(() => undefined);
    throw error;
  }
}
