import { planRemovals, type RemovalPlan } from '../domain/removals.js';
import { lookUp, type Lookups } from './look-up-unlisted.js';
import { RunProblem } from './problem.js';
import { describeHeld } from './remedies.js';
import { inSession, type RunContext } from './run.js';

/** What the list left open. */
export interface Unlisted {
  /** Items that the mirror holds as present and that the list did not name. */
  readonly ids: readonly number[];
  /** How many of them were marked as missing when the list was taken in. */
  readonly delisted: number;
  /** How many items the mirror held as present before. */
  readonly present: number;
  /** Whether there was a list; without one, "no items" was all the marketplace said. */
  readonly listed: boolean;
  /** An item that the list did name; null when it named none. */
  readonly witness: number | null;
}

/**
 * Settles what has become of the items that the list did not name. Each is looked up by itself;
 * those proven to be gone are removed, but only within the removal guard, beyond which they wait for
 * a person. What was not answered stays `missing`. A list that was taken in whole is not undone by
 * anything here.
 * @throws {RunProblem} when there was no list, and its absence could not be proven either
 */
export async function settleUnlisted(
  run: RunContext,
  unlisted: Unlisted,
): Promise<'succeeded' | 'held'> {
  if (unlisted.ids.length === 0) return 'succeeded';
  try {
    const lookups = await lookUp(run, unlisted);
    const plan = await planOf(run, unlisted, lookups);
    await carryOut(run, unlisted, plan, lookups);
    warn(run, plan);
    return plan.held ? 'held' : 'succeeded';
  } catch (error) {
    // Best effort: what is not told now, since the store itself failed, the next run tells.
    if (unlisted.delisted > 0) await run.deps.store.tellUndecided(run.lock).catch(() => undefined);
    throw error;
  }
}

async function planOf(
  run: RunContext,
  { ids, present, listed }: Unlisted,
  lookups: Lookups,
): Promise<RemovalPlan> {
  const { deps, lock } = run;
  const { outcomes } = lookups;
  const doubtful = [...outcomes.values()].filter((one) => one !== 'found' && one !== 'gone').length;
  if (!listed && doubtful > 0) throw noProof(run, doubtful, lookups);
  return planRemovals({
    present,
    unlisted: ids,
    lookups: outcomes,
    guard: deps.removalGuard,
    decided: await deps.store.decisionsOn(lock, ids),
  });
}

/** Without a list and without proof nothing was learned. */
function noProof(run: RunContext, doubtful: number, { notBefore }: Lookups): RunProblem {
  const why = run.warnings.splice(0).at(-1) ?? '';
  return new RunProblem(
    'unavailable',
    `the marketplace lists no items, and what became of ${doubtful} known ones is not proven: ${why}`,
    'nothing was changed; try again later',
    { notBefore },
  );
}

async function carryOut(
  run: RunContext,
  unlisted: Unlisted,
  plan: RemovalPlan,
  lookups: Lookups,
): Promise<void> {
  await inSession(run, async (session) => {
    await lookups.save(session);
    const removed = await session.remove(plan);
    const missing = plan.missing.length;
    Object.assign(run.counts, { removed, missing });
    await session.counts({ removed, missing });
    if (plan.held) run.held = await session.holdBack(plan, unlisted.present);
    if (unlisted.delisted > 0) session.tellUndecided();
  });
}

function warn(run: RunContext, plan: RemovalPlan): void {
  const unproven = plan.missing.length - plan.rejected.length;
  if (run.held !== null) {
    // What waits for a person is told first.
    run.warnings.unshift(`held: ${describeHeld(run.held)}`);
  } else if (unproven > 0) {
    run.warnings.push(
      `${unproven} unlisted items are kept as missing: what became of them is not proven`,
    );
  }
}
