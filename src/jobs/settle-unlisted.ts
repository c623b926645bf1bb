import { prepareItem, type PreparedItem } from '../domain/prepare-item.js';
import {
  exceedsGuard,
  planRemovals,
  type LookupOutcome,
  type RemovalPlan,
} from '../domain/removals.js';
import { describeFailure, type Reply } from '../domain/reply.js';
import type { Item } from '../domain/item.js';
import type { Sourced } from '../marketplace/types.js';
import { proveCredential } from './prove.js';
import { noteTolerated, RunProblem, type RunContext } from './run.js';

/** After so many look-ups in a row without an answer, or one that is rate-limited, the rest waits for the next run. */
const UNANSWERED_IN_A_ROW = 3;

interface Lookups {
  readonly outcomes: Map<number, LookupOutcome>;
  readonly found: PreparedItem[];
}

/**
 * Settles what has become of the items that the list did not name. Each is looked up by itself;
 * those denied are removed only if the credential is proven once more afterwards, and only within
 * the removal guard. What was not answered stays `missing`. An error here does not fail the run:
 * the list was taken in whole.
 */
export async function settleUnlisted(
  run: RunContext,
  unlisted: readonly number[],
  present: number,
): Promise<'succeeded' | 'held'> {
  if (unlisted.length === 0) return 'succeeded';
  const lookups = await lookUp(run, unlisted, present);
  const anyDenied = [...lookups.outcomes.values()].includes('denied');
  const provenAfter = anyDenied && (await provenAgain(run));
  const plan = planRemovals({
    present,
    unlisted,
    lookups: lookups.outcomes,
    provenAfter,
    guard: run.deps.removalGuard,
  });
  await carryOut(run, plan, lookups);
  warn(run, plan, present);
  return plan.held ? 'held' : 'succeeded';
}

async function lookUp(
  run: RunContext,
  unlisted: readonly number[],
  present: number,
): Promise<Lookups> {
  const { deps } = run;
  const ids = await deps.store.chooseLookups(run.lock, unlisted, deps.lookupsPerRun);
  const lookups: Lookups = { outcomes: new Map(), found: [] };
  let denied = 0;
  let unanswered = 0;
  for (const id of ids) {
    deps.onProgress?.({ phase: 'look-up', done: lookups.outcomes.size, total: ids.length });
    const reply = await deps.marketplace.item(id, { signal: run.signal });
    const outcome = takeReply(run, reply, lookups);
    lookups.outcomes.set(id, outcome);
    if (outcome === 'denied') denied++;
    unanswered = outcome === 'unanswered' ? unanswered + 1 : 0;
    const pointless = reply.kind === 'refused' || reply.kind === 'limited';
    if (unanswered === UNANSWERED_IN_A_ROW || pointless) {
      if (reply.kind !== 'answered')
        run.warnings.push(`look-ups ended early: ${describeFailure(reply)}`);
      break;
    }
    // The run will be held whatever the others say; the budget is worth more.
    if (exceedsGuard(denied, present, deps.removalGuard)) break;
  }
  return lookups;
}

function takeReply(run: RunContext, reply: Reply<Sourced<Item>>, lookups: Lookups): LookupOutcome {
  if (reply.kind === 'denied') return 'denied';
  if (reply.kind !== 'answered') return 'unanswered';
  const preparation = prepareItem(Buffer.from(JSON.stringify(reply.data.raw)));
  if (preparation.ok) {
    noteTolerated(run, preparation.tolerated);
    lookups.found.push(preparation.prepared);
  }
  return 'found';
}

async function provenAgain(run: RunContext): Promise<boolean> {
  try {
    await proveCredential(run);
    return true;
  } catch (error) {
    if (!(error instanceof RunProblem)) throw error;
    run.warnings.push(
      `nothing was removed, since the key could not be proven once more: ${error.message}`,
    );
    return false;
  }
}

async function carryOut(run: RunContext, plan: RemovalPlan, lookups: Lookups): Promise<void> {
  const { deps, lock, stamp, counts } = run;
  const session = await deps.store.beginItems(lock, stamp);
  try {
    await session.lookedUp(lookups.outcomes);
    await session.stage(lookups.found.map((prepared) => ({ prepared, rival: false })));
    const applied = await session.apply();
    counts.changed += applied.changed;
    counts.extraChanged += applied.extraChanged;
    counts.restored += applied.restored;
    counts.removed = (await session.remove(plan)).removed;
    counts.missing = plan.missing.length;
    await session.counts({ removed: counts.removed, missing: counts.missing });
    await session.commit();
  } catch (error) {
    await session.rollback();
    throw error;
  }
}

function warn(run: RunContext, plan: RemovalPlan, present: number): void {
  if (plan.held) {
    run.warnings.push(
      `held: ${plan.missing.length} of ${present} items are no longer listed, more than the removal guard allows; present items are mirrored and nothing was removed. If they are really gone, raise REMOVAL_GUARD_ITEMS or REMOVAL_GUARD_PERCENT for one run`,
    );
  } else if (plan.missing.length > 0) {
    run.warnings.push(
      `${plan.missing.length} items are not listed and could not be asked for; they are kept as missing`,
    );
  }
}
