import { checkDecision, type Decision } from '../domain/removals.js';
import type { HeldFates, HeldRunRecord } from '../store/decisions.js';
import type { SellerLock } from '../store/lock.js';
import type { Store } from '../store/store.js';
import { storeProblem } from './problem.js';

/** What deciding needs. */
export interface DecisionDeps {
  readonly store: Store;
  /** Host and process, for who meets the lock. */
  readonly holder: string;
  /** Who decides, for people. */
  readonly by: string;
}

/** What came of a decision. */
export interface DecisionReport {
  readonly runId: bigint;
  readonly sellerId: string;
  readonly decision: Decision;
  readonly decidedAt: Date | null;
  readonly decidedBy: string | null;
  /** It was made before, and nothing was done now. */
  readonly already: boolean;
  /** Items that the run held back. */
  readonly items: number;
  /** How many were removed now. */
  readonly removed: number;
  /** How many were removed before. */
  readonly removedBefore: number;
  /** How many are missing still: a rejection keeps them, after an approval they are not proven to be gone. */
  readonly missing: number;
  /** The run that removed items, now or before; null when none did. */
  readonly approvalRunId: bigint | null;
  /** What became of the others; null unless the decision was to remove. */
  readonly left: Omit<HeldFates, 'gone'> | null;
}

/** A decision that can't be made. */
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
 * Carries out what a person decided about the removals that a run held back. Approving removes
 * exactly the items that the run proved to be gone and that were neither listed nor answered for
 * since, in one transaction, as a run of its own: history has them as missing until then. Rejecting
 * keeps those that are still missing, also after an approval that did not remove all. The marketplace
 * is not asked.
 * @throws {DecisionRefused} when there is no such run, or nothing to decide about it
 * @throws {SellerBusyError} when a run works for the seller
 */
export async function decideRemovals(
  deps: DecisionDeps,
  runId: bigint,
  decision: Decision,
): Promise<DecisionReport> {
  const { sellerId } = await judged(deps, runId, decision);
  const lock = await deps.store.sellers.lock(sellerId);
  try {
    // Only what is read under the lock stays so.
    const { run, made } = await judged(deps, runId, decision);
    if (made) return reportOf(run, decision, { already: true });
    const done = decision === 'approved' ? await approve(deps, lock, run) : {};
    if (decision === 'rejected') {
      const record = { decision, by: deps.by, approvalRunId: run.approvalRunId };
      await deps.store.runs.decide(lock, runId, record);
    }
    return reportOf((await judged(deps, runId, decision)).run, decision, done);
  } finally {
    await lock.release();
  }
}

async function judged(
  { store }: DecisionDeps,
  runId: bigint,
  decision: Decision,
): Promise<{ run: HeldRunRecord; sellerId: string; made: boolean }> {
  const run = await store.runs.held(runId);
  if (run === null) {
    throw new DecisionRefused(`there is no run ${runId}`, '`seller-mirror runs` lists them');
  }
  const check = checkDecision(run, decision);
  if (check.kind === 'no') throw new DecisionRefused(check.why, check.remedy);
  return { run, sellerId: run.sellerId, made: check.kind === 'made' };
}

function reportOf(
  { runId, sellerId, decidedAt, decidedBy, items, missing, removed, approvalRunId }: HeldRunRecord,
  decision: Decision,
  more: Partial<DecisionReport>,
): DecisionReport {
  const run = { runId, sellerId, decision, decidedAt, decidedBy, items, missing, approvalRunId };
  const now = more.removed ?? 0;
  const nothing = { already: false, left: null };
  return { ...run, ...nothing, ...more, removed: now, removedBefore: removed - now };
}

/** Removes what is gone, and records the decision, in one transaction. */
async function approve(
  { store, holder, by }: DecisionDeps,
  lock: SellerLock,
  { runId, sellerId }: HeldRunRecord,
): Promise<Partial<DecisionReport>> {
  const approval = await store.runs.start(lock, 'approval', holder, null);
  const session = await store.items.begin(lock, { sellerId, ...approval });
  try {
    const { gone: remove, ...left } = await session.fatesOf(runId);
    const removed = await session.remove({ remove, missing: [] });
    await session.decide(runId, { decision: 'approved', by, approvalRunId: approval.runId });
    const warnings = [`approved by ${by}: what run ${runId} held back`];
    const end = { state: 'succeeded', warnings, problemCode: null, problem: null } as const;
    await session.finish(end, { removed });
    await session.commit();
    return { removed, approvalRunId: approval.runId, left };
  } catch (error) {
    await session.rollback();
    await giveUp(store, approval.runId, error);
    throw error;
  }
}

/** Best effort: if the store itself is what failed, the next run marks this one. */
async function giveUp(store: Store, runId: bigint, error: unknown): Promise<void> {
  const { code, message } = storeProblem(error);
  const end = { state: 'failed', warnings: [], problemCode: code, problem: message } as const;
  await store.runs.finish(runId, end, {}).catch(() => undefined);
}
