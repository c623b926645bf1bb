import { checkDecision, type Decision } from '../domain/removals.js';
import type { HeldItemStates, HeldRunRecord } from '../store/decisions.js';
import type { SellerLock } from '../store/locks.js';
import type { Store } from '../store/store.js';
import { storeProblem } from './problem.js';

interface DecisionDeps {
  readonly store: Store;
  /** Host and process, for who meets the lock. */
  readonly holder: string;
  /** Who decides, for people. */
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
 * Carries out what a person decided about a held run. Approving removes, as a run of its own, exactly the
 * items proven to be gone and neither listed nor answered for since. Rejecting keeps those still missing,
 * also after an approval. The marketplace is not asked.
 * @throws {DecisionRefused} when there is no such run, or nothing to decide about it
 * @throws {SellerBusyError} when a run works for the seller
 */
export async function decideRemovals(deps: DecisionDeps, runId: bigint, decision: Decision) {
  const { store, by } = deps;
  const { sellerId } = (await judged(store, runId, decision)).run;
  const lock = await store.sellers.lock(sellerId);
  try {
    // Only what is read under the lock stays so.
    const { run, already } = await judged(store, runId, decision);
    let done: Approved = { removed: 0, left: null };
    if (!already && decision === 'approved') done = await approve(deps, lock, run);
    if (!already && decision === 'rejected') {
      const { approvalRunId } = run;
      await store.runs.decide(lock, runId, { decision, by, approvalRunId });
    }
    const { run: after } = await judged(store, runId, decision);
    const { decidedAt, decidedBy, items, missing, approvalRunId } = after;
    return {
      runId,
      sellerId,
      decision,
      decidedAt,
      decidedBy,
      items,
      ...done,
      /** It was made before, and nothing was done now. */
      already,
      removedBefore: after.removed - done.removed,
      /** A rejection keeps them; after an approval they are not proven to be gone. */
      missing,
      /** The run that removed items, now or before; null when none did. */
      approvalRunId,
    };
  } finally {
    await lock.release();
  }
}

async function judged(
  store: Store,
  runId: bigint,
  decision: Decision,
): Promise<{ readonly run: HeldRunRecord; readonly already: boolean }> {
  const run = await store.runs.held(runId);
  if (run === null) {
    throw new DecisionRefused(`there is no run ${runId}`, '`seller-mirror runs` lists them');
  }
  const check = checkDecision(run, decision);
  if (check.kind === 'refused') throw new DecisionRefused(check.why, check.remedy);
  return { run, already: check.kind === 'already-made' };
}

/** What an approval removed now, and what became of the others; null unless it was one. */
interface Approved {
  readonly removed: number;
  readonly left: Omit<HeldItemStates, 'gone'> | null;
}

async function approve(
  { store, holder, by }: DecisionDeps,
  lock: SellerLock,
  { runId, sellerId }: HeldRunRecord,
): Promise<Approved> {
  const approval = await store.runs.start(lock, 'approval', holder, null);
  const session = await store.items.begin(lock, { sellerId, ...approval });
  try {
    const { gone: remove, ...left } = await session.heldItemStates(runId);
    const removed = await session.remove({ remove, missing: [] });
    await session.recordDecision(runId, {
      decision: 'approved',
      by,
      approvalRunId: approval.runId,
    });
    const warnings = [`approved by ${by}: what run ${runId} held back`];
    const end = { state: 'succeeded', warnings, problemCode: null, problem: null } as const;
    await session.finish(end, { removed });
    await session.commit();
    return { removed, left };
  } catch (error) {
    await session.rollback();
    const { code: problemCode, message: problem } = storeProblem(error);
    const end = { state: 'failed', warnings: [], problemCode, problem } as const;
    // Best effort: if the store itself is what failed, the next run marks this one.
    await store.runs.finish(approval.runId, end, {}).catch(() => undefined);
    throw error;
  }
}
