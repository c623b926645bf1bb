import type { Json } from '../domain/item.js';
import { completeMedia, prepareAnswer } from '../domain/prepare-item.js';
import { planRemovals, type LookupOutcome } from '../domain/removals.js';
import { describeFailure } from '../domain/reply.js';
import type { LookupChoice } from '../store/removals.js';
import type { ItemSession, Staged } from '../store/session.js';
import { RunProblem, retryTime, describeHeld } from './problem.js';
import { verifyAccount } from './account.js';
import { inSession, noteTolerated, type RunContext } from './run.js';

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
 * Looks up each item that the list did not name. Those proven to be gone are removed within the removal
 * guard, beyond which they wait for a person; what was not answered stays `missing`. A list that was taken in
 * whole is not undone by anything here.
 * @throws {RunProblem} when there was no list, and its absence could not be proven either
 */
export async function resolveUnlisted(
  run: RunContext,
  unlisted: Unlisted,
): Promise<'succeeded' | 'held'> {
  const { ids, delisted, present, listed } = unlisted;
  if (ids.length === 0) return 'succeeded';
  const { deps, lock, warnings, counts } = run;
  try {
    const lookups = await lookUp(run, unlisted);
    const { outcomes, notBefore } = lookups;
    const known = [...outcomes.values()].filter((one) => one === 'found' || one === 'gone').length;
    const doubtful = outcomes.size - known;
    if (!listed && doubtful > 0) {
      // Without a list and without proof nothing was learned.
      const why = warnings.splice(0).at(-1) ?? '';
      const message = `the marketplace lists no items, and what became of ${doubtful} known ones is not proven: ${why}`;
      const remedy = 'nothing was changed; try again later';
      throw new RunProblem('unavailable', message, remedy, notBefore);
    }
    const [guard, decided] = [deps.removalGuard, await deps.store.runs.decisionsOn(lock, ids)];
    const plan = planRemovals({ present, unlisted: ids, lookups: outcomes, guard, decided });
    const missing = plan.missing.length;
    await inSession(run, async (session) => {
      await lookups.save(session);
      const removed = await session.remove(plan);
      Object.assign(counts, { removed, missing });
      await session.saveCounts({ removed, missing });
      if (plan.held) run.held = await session.holdItems(plan, present);
      if (delisted > 0) await session.publishUndecided();
    });
    const unproven = missing - plan.rejected.length;
    if (run.held !== null) {
      // What waits for a person is told first.
      warnings.unshift(`held: ${describeHeld(run.held)}`);
    } else if (unproven > 0) {
      const which = unproven === 1 ? '1 unlisted item is' : `${unproven} unlisted items are`;
      warnings.push(`${which} kept as missing: not proven to be gone`);
    }
    return plan.held ? 'held' : 'succeeded';
  } catch (error) {
    // Best effort: what is not told now, since the store itself failed, the next run tells.
    if (delisted > 0) await deps.store.items.publishUndecided(lock).catch(() => undefined);
    throw error;
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
async function lookUp(run: RunContext, unlisted: Unlisted): Promise<Lookups> {
  const { deps, lock } = run;
  // Also when the run will be held anyway: what is looked up now, a person can approve.
  const choice = await deps.store.items.chooseLookups(lock, unlisted.ids, deps.lookupsPerRun);
  const lookups = new Lookups(run, unlisted, choice);
  for (let at = 0; at < choice.ids.length && !lookups.isOver; at += BATCH_ITEMS) {
    await lookups.take(choice.ids.slice(at, at + BATCH_ITEMS));
  }
  return lookups;
}

class Lookups {
  readonly outcomes: Map<number, LookupOutcome>;
  /** When the marketplace said to come back with what it did not answer. */
  notBefore: number | null = null;
  /** Nothing more is asked in this run. */
  isOver = false;
  readonly #run: RunContext;
  readonly #listed: boolean;
  readonly #total: number;
  readonly #leastMs: number | null;
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
    { witness, listed }: Unlisted,
    { ids, kept, foundBefore }: LookupChoice,
  ) {
    this.#run = run;
    this.#listed = listed;
    this.outcomes = new Map(kept);
    this.#saved = kept.size;
    this.#total = kept.size + ids.length;
    this.#witness = witness === null ? null : { id: witness, why: 'is listed' };
    // What was found before probably is again; all others are probably denied, and asked for twice.
    const batches = Math.ceil(ids.length / BATCH_ITEMS);
    const requests = 2 * ids.length - foundBefore + PROOFS_OF_BATCH * batches;
    const rate = run.deps.requestsPerMinute;
    this.#leastMs = rate === 0 ? null : (requests * 60_000) / rate;
  }

  /** Asks for some items, proves those that are denied to be gone, and saves all of it. */
  async take(ids: readonly number[]): Promise<void> {
    await this.#askFor(ids, 0);
    await this.#prove(ids);
    const isWorth = this.#listed || ids.some((id) => this.outcomes.get(id) !== 'found');
    if (isWorth) await inSession(this.#run, (session) => this.save(session, this.#listed));
    this.#saved += ids.length;
  }

  /** @param withFound a run that has no list and proves nothing changes no item: found ones wait */
  async save(session: ItemSession, withFound = true): Promise<void> {
    const outcomes = new Map<number, LookupOutcome>();
    for (const id of this.#unsaved) {
      const outcome = this.outcomes.get(id) ?? 'unanswered';
      if (withFound || outcome !== 'found') outcomes.set(id, outcome);
    }
    await session.recordLookups(outcomes);
    for (const id of outcomes.keys()) this.#unsaved.delete(id);
    if (withFound && this.#found.size > 0) await this.#bringBack(session);
  }

  async #bringBack(session: ItemSession): Promise<void> {
    const { counts } = this.#run;
    const ids = [...this.#found.keys()];
    const taken = await session.undoDelisting(ids);
    const stored = await session.rawRecords(ids);
    const staged: Staged[] = [];
    for (const [id, raw] of this.#found) {
      const preparation = prepareAnswer(completeMedia(raw, stored.get(id)));
      if (!preparation.ok) continue;
      noteTolerated(this.#run, preparation.tolerated);
      staged.push({ prepared: preparation.prepared, rival: false });
    }
    await session.stage(staged);
    const applied = await session.apply();
    counts.changed += applied.changed;
    counts.extraChanged += applied.extraChanged;
    counts.restored += applied.restored;
    counts.missing = Math.max(0, counts.missing - taken - applied.foundAgain);
    const { changed, extraChanged, restored, missing } = counts;
    await session.saveCounts({ changed, extraChanged, restored, missing });
    this.#found.clear();
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
        this.notBefore = retryTime(reply);
        this.isOver = true;
        return;
      }
    }
  }

  /**
   * Denied items are gone when an item that is there is found, they are denied once more, and the key is still
   * good: a key that was bad for one stretch of look-ups removes nothing.
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
    const reason = `item ${id}, which ${why}, can’t be looked up either: ${describeFailure(reply)}`;
    if (reply.kind === 'denied') this.#distrust(reason);
    else this.#giveUpProving(reason, retryTime(reply));
    return false;
  }

  async #isKeyGood(): Promise<boolean> {
    try {
      await verifyAccount(this.#run);
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
    const [saved, total, leastMs] = [this.#saved, this.#total, this.#leastMs];
    const progress = { done: Math.floor(saved + done), total, saved, leastMs };
    this.#run.deps.onProgress?.({ phase: 'look-up', ...progress });
  }
}
