import type { Json } from '../domain/item.js';
import { completeMedia, prepareAnswer } from '../domain/prepare-item.js';
import { planRemovals, type LookupOutcome, type RemovalPlan } from '../domain/removals.js';
import { describeFailure, type Failure } from '../domain/reply.js';
import type { Staged } from '../store/catalogue.js';
import type { ItemSession } from '../store/session.js';
import { RunProblem, comeBackAt, describeHeld } from './problem.js';
import { proveCredential } from './prove.js';
import { inSession, noteTolerated, type RunContext } from './run.js';

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
    if (unlisted.delisted > 0)
      await run.deps.store.items.tellUndecided(run.lock).catch(() => undefined);
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
    decided: await deps.store.runs.decisionsOn(lock, ids),
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

/** Items that are looked up, proven and saved together: an interruption forgets one such batch at most. */
const BATCH_ITEMS = 25;
/** Requests that prove a batch: one for an item that is there, one for the key. */
const PROOFS_OF_BATCH = 2;
/** After so many look-ups in a row without an answer, or one that is rate-limited, the rest waits for the next run. */
const UNANSWERED_IN_A_ROW = 3;

/**
 * Looks up items that the list did not name, as many as a run may, and saves what each came to. What
 * an interrupted run asked and proved shortly before is not asked again.
 */
export async function lookUp(run: RunContext, unlisted: Unlisted): Promise<Lookups> {
  const { deps, lock } = run;
  // Also when the run will be held anyway: what is looked up now, a person can approve.
  const choice = await deps.store.items.chooseLookups(lock, unlisted.ids, deps.lookupsPerRun);
  const { ask, foundBefore } = choice;
  // What was found before probably is again; all others are probably denied, and asked for twice.
  const batches = Math.ceil(ask.length / BATCH_ITEMS);
  const requests = 2 * ask.length - foundBefore + PROOFS_OF_BATCH * batches;
  const lookups = new Lookups(run, unlisted, choice.kept, ask.length, requests);
  for (let at = 0; at < ask.length && !lookups.isOver; at += BATCH_ITEMS) {
    await lookups.take(ask.slice(at, at + BATCH_ITEMS));
  }
  return lookups;
}

/** What look-ups of unlisted items came to so far. */
export class Lookups {
  readonly outcomes: Map<number, LookupOutcome>;
  /** When the marketplace said to come back with what it did not answer. */
  notBefore: number | null = null;
  /** Nothing more is asked in this run. */
  isOver = false;
  readonly #run: RunContext;
  readonly #unlisted: Unlisted;
  readonly #total: number;
  readonly #requests: number;
  /** Whether further denials of this run can be proven. */
  #provable = true;
  /** Records of items found that are not saved yet, by id. */
  readonly #found = new Map<number, Json>();
  /** An item that is known to be there. */
  #witness: { readonly id: number; readonly why: string } | null;
  readonly #unsaved = new Set<number>();
  /** Items that need not be asked for again, should the run be interrupted. */
  #saved: number;
  #unansweredInRow = 0;

  constructor(
    run: RunContext,
    unlisted: Unlisted,
    kept: ReadonlyMap<number, LookupOutcome>,
    toAsk: number,
    requests: number,
  ) {
    this.#run = run;
    this.#unlisted = unlisted;
    this.outcomes = new Map(kept);
    this.#saved = kept.size;
    this.#total = kept.size + toAsk;
    this.#requests = requests;
    const { witness } = unlisted;
    this.#witness = witness === null ? null : { id: witness, why: 'is listed' };
  }

  /** Asks for some items, proves those that are denied to be gone, and saves all of it. */
  async take(ids: readonly number[]): Promise<void> {
    await this.#askFor(ids, 0);
    await this.#prove(ids);
    const { listed } = this.#unlisted;
    const isWorth = listed || ids.some((id) => this.outcomes.get(id) !== 'found');
    if (isWorth) await inSession(this.#run, (session) => this.save(session, listed));
    this.#saved += ids.length;
  }

  /**
   * Saves outcomes, and brings items back that were found.
   * @param withFound without a list a run that proves nothing changes no item: found ones wait for its end
   */
  async save(session: ItemSession, withFound = true): Promise<void> {
    const isDue = (id: number): boolean => withFound || this.outcomes.get(id) !== 'found';
    const due = [...this.#unsaved].filter(isDue);
    const outcomes = due.map((id): [number, LookupOutcome] => [
      id,
      this.outcomes.get(id) ?? 'unanswered',
    ]);
    await session.lookedUp(new Map(outcomes));
    for (const id of due) this.#unsaved.delete(id);
    if (withFound && this.#found.size > 0) await this.#bringBack(session);
  }

  async #bringBack(session: ItemSession): Promise<void> {
    const { counts } = this.#run;
    const taken = await session.takeBack([...this.#found.keys()]);
    await session.stage(await this.#foundItems(session));
    const applied = await session.apply();
    counts.changed += applied.changed;
    counts.extraChanged += applied.extraChanged;
    counts.restored += applied.restored;
    counts.missing = Math.max(0, counts.missing - taken - applied.foundAgain);
    const { changed, extraChanged, restored, missing } = counts;
    await session.counts({ changed, extraChanged, restored, missing });
    this.#found.clear();
  }

  async #foundItems(session: ItemSession): Promise<Staged[]> {
    const stored = await session.rawOf([...this.#found.keys()]);
    return [...this.#found].flatMap(([id, raw]) => {
      const preparation = prepareAnswer(completeMedia(raw, stored.get(id)));
      if (!preparation.ok) return [];
      noteTolerated(this.#run, preparation.tolerated);
      return [{ prepared: preparation.prepared, rival: false }];
    });
  }

  /**
   * Asks for items one by one, and notes what each came to; those that are not reached came to nothing.
   * @param done items of the batch that need nothing more; to be asked for is half of an item's work
   */
  async #askFor(ids: readonly number[], done: number): Promise<void> {
    const { deps, lock, signal, warnings } = this.#run;
    for (const [n, id] of ids.entries()) {
      lock.assertHeld();
      this.#tellProgress(done + n / 2);
      const reply = await deps.marketplace.item(id, { signal });
      if (reply.kind === 'answered') {
        this.#note(id, 'found');
        this.#found.set(id, reply.data.raw);
        this.#witness ??= { id, why: 'was found a moment ago' };
        this.#unansweredInRow = 0;
        continue;
      }
      this.#note(id, reply.kind === 'denied' ? 'denied' : 'unanswered');
      this.#unansweredInRow = reply.kind === 'denied' ? 0 : this.#unansweredInRow + 1;
      const isPointless = reply.kind === 'refused' || reply.kind === 'limited';
      if (isPointless || this.#unansweredInRow === UNANSWERED_IN_A_ROW) {
        warnings.push(`look-ups ended early: ${describeFailure(reply)}`);
        this.notBefore = comeBackAt(reply);
        this.isOver = true;
        return;
      }
    }
  }

  /**
   * Proves denied items to be gone: look-ups find what is there, which an item that was listed or
   * found a moment ago shows; asked once more, they deny what they denied before; and the key is
   * still good. A key that was bad for one stretch of look-ups thus removes nothing.
   */
  async #prove(ids: readonly number[]): Promise<void> {
    const denied = ids.filter((id) => this.outcomes.get(id) === 'denied');
    // Who was told when to come back asks nothing more.
    if (denied.length === 0 || !this.#provable || this.notBefore !== null) return;
    if (!(await this.#isWitnessFound())) return;
    // Those that are not reached again are not known to be gone.
    for (const id of denied) this.#note(id, 'unanswered');
    await this.#askFor(denied, ids.length - denied.length / 2);
    const wrong = denied.find((id) => this.outcomes.get(id) === 'found');
    if (wrong !== undefined) {
      this.#distrust(`item ${wrong} was denied, and found a moment later`);
      return;
    }
    const deniedAgain = denied.filter((id) => this.outcomes.get(id) === 'denied');
    if (deniedAgain.length === 0 || !(await this.#isKeyGood())) return;
    for (const id of deniedAgain) this.#note(id, 'gone');
  }

  /** Whether the item that is known to be there is found; without one, whether the key is good. */
  async #isWitnessFound(): Promise<boolean> {
    if (this.#witness === null) return this.#isKeyGood();
    const { id, why } = this.#witness;
    const reply = await this.#run.deps.marketplace.item(id, { signal: this.#run.signal });
    if (reply.kind === 'answered') return true;
    this.#notProven(reply, `item ${id}, which ${why}, can’t be looked up either`);
    return false;
  }

  #notProven(failure: Failure, what: string): void {
    const reason = `${what}: ${describeFailure(failure)}`;
    if (failure.kind === 'denied') return this.#distrust(reason);
    this.#giveUpProving(reason, comeBackAt(failure));
  }

  async #isKeyGood(): Promise<boolean> {
    try {
      await proveCredential(this.#run);
      return true;
    } catch (error) {
      if (!(error instanceof RunProblem)) throw error;
      const reason = `the key could not be proven once more: ${error.message}`;
      this.#giveUpProving(reason, error.problem.notBefore);
      // Whoever answers to a key that is refused denies everything.
      if (error.problem.permanent) this.isOver = true;
      return false;
    }
  }

  /** Look-ups deny what is there, so that what they denied before counts no more either. */
  #distrust(reason: string): void {
    for (const [id, outcome] of this.outcomes) if (outcome === 'gone') this.#note(id, 'denied');
    this.#giveUpProving(reason, null);
  }

  #giveUpProving(reason: string, notBefore: number | null): void {
    const isAnyGone = [...this.outcomes.values()].includes('gone');
    const effect = isAnyGone ? 'not all that was denied counts' : 'nothing was removed';
    this.#run.warnings.push(`${effect}, since ${reason}`);
    this.#provable = false;
    this.notBefore = notBefore;
    if (notBefore !== null) this.isOver = true;
  }

  #note(id: number, outcome: LookupOutcome): void {
    this.outcomes.set(id, outcome);
    this.#unsaved.add(id);
  }

  #tellProgress(done: number): void {
    const { deps } = this.#run;
    const rate = deps.requestsPerMinute;
    const leastMs = rate === 0 ? null : (this.#requests * 60_000) / rate;
    const [saved, total] = [this.#saved, this.#total];
    deps.onProgress?.({ phase: 'look-up', done: Math.floor(saved + done), total, saved, leastMs });
  }
}
