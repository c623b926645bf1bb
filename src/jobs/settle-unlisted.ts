import type { Json } from '../domain/item.js';
import { completeMedia, prepareAnswer } from '../domain/prepare-item.js';
import { planRemovals, type LookupOutcome, type RemovalPlan } from '../domain/removals.js';
import { describeFailure } from '../domain/reply.js';
import type { Staged } from '../store/catalogue.js';
import type { ItemSession } from '../store/session.js';
import { comeBackAt, RunProblem } from './problem.js';
import { proveCredential } from './prove.js';
import { describeHeld } from './remedies.js';
import { noteTolerated, type RunContext } from './run.js';

/** After so many look-ups in a row without an answer, or one that is rate-limited, the rest waits for the next run. */
const UNANSWERED_IN_A_ROW = 3;

/** What the list left open. */
export interface Unlisted {
  /** Items that the mirror holds as present and that the list did not name. */
  readonly ids: readonly number[];
  /** How many items the mirror held as present before. */
  readonly present: number;
  /** Whether there was a list; without one, "no items" was all the marketplace said. */
  readonly listed: boolean;
  /** An item that the list did name; null when it named none. */
  readonly witness: number | null;
}

interface Lookups {
  readonly outcomes: Map<number, LookupOutcome>;
  /** The records of items found, by id. */
  readonly found: Map<number, Json>;
  /** When the marketplace said to come back with what it did not answer. */
  notBefore: number | null;
}

/**
 * Settles what has become of the items that the list did not name. Each is looked up by itself;
 * those denied are removed only if the denials are proven, and only within the removal guard, beyond
 * which they wait for a person. What was not answered stays `missing`. A list that was taken in whole is not undone by anything here.
 * @throws {RunProblem} when there was no list, and its absence could not be proven either
 */
export async function settleUnlisted(
  run: RunContext,
  unlisted: Unlisted,
): Promise<'succeeded' | 'held'> {
  const { ids, present } = unlisted;
  if (ids.length === 0) return 'succeeded';
  const { deps } = run;
  const lookups: Lookups = { outcomes: new Map(), found: new Map(), notBefore: null };
  // Also when the run will be held anyway: what is looked up now, a person can approve.
  const chosen = await deps.store.chooseLookups(run.lock, ids, deps.lookupsPerRun);
  await lookUp(run, chosen, lookups, 'look-up');
  const provenAfter = await areProven(run, lookups, unlisted.witness);
  const doubtful =
    withOutcome(lookups, 'unanswered').length +
    (provenAfter ? 0 : withOutcome(lookups, 'denied').length);
  if (!unlisted.listed && doubtful > 0) throw noProof(run, doubtful, lookups);
  const plan = planRemovals({
    present,
    unlisted: ids,
    lookups: lookups.outcomes,
    provenAfter,
    guard: deps.removalGuard,
    decided: await deps.store.decisionsOn(run.lock, ids),
  });
  await carryOut(run, plan, lookups, present);
  warn(run, plan);
  return plan.held ? 'held' : 'succeeded';
}

/** Asks for items one by one, and notes what each came to; those that are not reached came to nothing. */
async function lookUp(
  run: RunContext,
  ids: readonly number[],
  lookups: Lookups,
  phase: 'look-up' | 'look-up-again',
): Promise<void> {
  const { deps } = run;
  let unanswered = 0;
  for (const [done, id] of ids.entries()) {
    deps.onProgress?.({ phase, done, total: ids.length });
    const reply = await deps.marketplace.item(id, { signal: run.signal });
    if (reply.kind === 'answered') {
      lookups.outcomes.set(id, 'found');
      lookups.found.set(id, reply.data.raw);
      unanswered = 0;
      continue;
    }
    lookups.outcomes.set(id, reply.kind === 'denied' ? 'denied' : 'unanswered');
    unanswered = reply.kind === 'denied' ? 0 : unanswered + 1;
    const pointless = reply.kind === 'refused' || reply.kind === 'limited';
    if (pointless || unanswered === UNANSWERED_IN_A_ROW) {
      run.warnings.push(`look-ups ended early: ${describeFailure(reply)}`);
      lookups.notBefore = comeBackAt(reply);
      return;
    }
  }
}

function withOutcome({ outcomes }: Lookups, outcome: LookupOutcome): number[] {
  return [...outcomes].flatMap(([id, one]) => (one === outcome ? [id] : []));
}

/**
 * Whether denials may be believed: the operation finds what is there, which an item that was listed
 * or found a moment ago shows; asked once more, it denies what it denied before; and the key is still
 * good. A key that was bad for one stretch of look-ups thus removes nothing.
 */
async function areProven(
  run: RunContext,
  lookups: Lookups,
  listed: number | null,
): Promise<boolean> {
  const denied = withOutcome(lookups, 'denied');
  // Who was told when to come back asks nothing more.
  if (denied.length === 0 || lookups.notBefore !== null) return false;
  const [found = null] = lookups.found.keys();
  if (!(await answersFor(run, listed ?? found, lookups))) return false;
  // Those that are not reached again are not known to be gone.
  for (const id of denied) lookups.outcomes.set(id, 'unanswered');
  await lookUp(run, denied, lookups, 'look-up-again');
  const wasWrong = denied.find((id) => lookups.found.has(id));
  if (wasWrong !== undefined) {
    run.warnings.push(
      `nothing was removed, since item ${wasWrong} was denied, and found a moment later`,
    );
    return false;
  }
  return withOutcome(lookups, 'denied').length > 0 && isKeyGood(run, lookups);
}

/** Whether the item that is known to be there is answered for; without one, whether the key is good. */
async function answersFor(
  run: RunContext,
  witness: number | null,
  lookups: Lookups,
): Promise<boolean> {
  if (witness === null) return isKeyGood(run, lookups);
  const reply = await run.deps.marketplace.item(witness, { signal: run.signal });
  if (reply.kind === 'answered') return true;
  const known = lookups.found.has(witness) ? 'was found a moment ago' : 'is listed';
  run.warnings.push(
    `nothing was removed, since item ${witness}, which ${known}, can’t be looked up either: ${describeFailure(reply)}`,
  );
  lookups.notBefore = comeBackAt(reply);
  return false;
}

async function isKeyGood(run: RunContext, lookups: Lookups): Promise<boolean> {
  try {
    await proveCredential(run);
    return true;
  } catch (error) {
    if (!(error instanceof RunProblem)) throw error;
    run.warnings.push(
      `nothing was removed, since the key could not be proven once more: ${error.message}`,
    );
    lookups.notBefore = error.problem.notBefore;
    return false;
  }
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
  plan: RemovalPlan,
  lookups: Lookups,
  present: number,
): Promise<void> {
  const { deps, lock, stamp, counts } = run;
  const session = await deps.store.beginItems(lock, stamp);
  try {
    await session.lookedUp(lookups.outcomes);
    await session.stage(await foundItems(run, session, lookups));
    const applied = await session.apply();
    counts.changed += applied.changed;
    counts.extraChanged += applied.extraChanged;
    counts.restored += applied.restored;
    counts.removed = await session.remove(plan);
    counts.missing = plan.missing.length;
    if (plan.held) run.held = await session.holdBack(plan, present);
    await session.counts({ removed: counts.removed, missing: counts.missing });
    await session.commit();
  } catch (error) {
    await session.rollback();
    throw error;
  }
}

async function foundItems(
  run: RunContext,
  session: ItemSession,
  { found }: Lookups,
): Promise<Staged[]> {
  const stored = await session.rawOf([...found.keys()]);
  return [...found].flatMap(([id, raw]) => {
    const preparation = prepareAnswer(completeMedia(raw, stored.get(id)));
    if (!preparation.ok) return [];
    noteTolerated(run, preparation.tolerated);
    return [{ prepared: preparation.prepared, rival: false }];
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
