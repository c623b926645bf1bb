import type { Json } from '../domain/item.js';
import { completeMedia, prepareAnswer } from '../domain/prepare-item.js';
import { planRemovals, type LookupOutcome } from '../domain/removals.js';
import { describeFailure } from '../domain/reply.js';
import { type LookupChoice, chooseLookups } from '../store/removals.js';
import type { ItemSession, Staged } from '../store/session.js';
import { RunProblem, retryTime, describeHeld } from './problem.js';
import { verifyAccount } from './account.js';
import { readDecisions } from '../store/decisions.js';
import { publishUndecided } from '../store/history.js';
import { inSession, noteTolerated, type RunContext } from './run.js';

export interface Unlisted {
  /** Present items that the list does not name. */
  readonly ids: readonly number[];
  /** How many of them became missing with this list. */
  readonly delisted: number;
  /** How many items were present before. */
  readonly present: number;
  /** False when the marketplace sent "no items" instead of a list. */
  readonly hadList: boolean;
  /** An item that the list names; null: none. Its look-up must succeed, or denials prove nothing. */
  readonly witness: number | null;
}

/**
 * Looks up each item that the list does not name. Removes those proven to be gone, or holds the run if
 * they are more than the removal guard allows, or if no item was listed or found. Items without an answer
 * stay `missing`. The stored list is kept whatever happens here.
 * @throws {RunProblem} when there was no list, and look-ups could not prove that the items are gone
 */
export async function resolveUnlisted(
  run: RunContext,
  unlisted: Unlisted,
): Promise<'succeeded' | 'held'> {
  const { ids, delisted, present, hadList } = unlisted;
  if (ids.length === 0) return 'succeeded';
  const { deps, lock, warnings, counts } = run;
  try {
    // Look items up even if the run will be held: a person can then approve the removal.
    const choice = await chooseLookups(lock, ids, deps.lookupsPerRun);
    const lookups = new Lookups(run, unlisted, choice);
    await lookups.perform();
    const { outcomes, notBefore, hasWitness: witnessed } = lookups;
    const unknown = [...outcomes.values()].filter((is) => is !== 'found' && is !== 'gone').length;
    if (!hadList && unknown > 0) {
      const why = warnings.splice(0).at(-1) ?? '';
      const message = `the marketplace lists no items, and it is not proven that ${unknown} known ones are gone: ${why}`;
      const remedy = 'nothing was changed; try again later';
      throw new RunProblem('unavailable', message, remedy, notBefore);
    }
    const [guard, decided] = [deps.removalGuard, await readDecisions(lock, ids)];
    const outcome = { unlisted: ids, lookups: outcomes, witnessed };
    const plan = planRemovals({ present, ...outcome, guard, decided });
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
      // First, since it needs a person.
      warnings.unshift(`held: ${describeHeld(run.held)}`);
    } else if (unproven > 0) {
      const which = unproven === 1 ? '1 unlisted item is' : `${unproven} unlisted items are`;
      warnings.push(`${which} kept as missing: not proven to be gone`);
    }
    return plan.held ? 'held' : 'succeeded';
  } catch (error) {
    // Best effort. If the store fails here, the next run publishes them.
    if (delisted > 0) await publishUndecided(lock).catch(() => undefined);
    throw error;
  }
}

/** Items looked up, confirmed and saved together. An interruption loses at most one batch. */
const BATCH_ITEMS = 25;
/** Extra requests of a batch: one for the witness, one for the account. */
const PROOFS_PER_BATCH = 2;
/** Stop looking up after this many failures in a row. */
const MAX_FAILURES_IN_ROW = 3;

/** The look-ups of one run. Outcomes that an interrupted run saved in the last hour are reused. */
class Lookups {
  readonly outcomes: Map<number, LookupOutcome>;
  /** When the marketplace allows a retry, milliseconds since 1970; null when it did not say. */
  notBefore: number | null = null;
  readonly #run: RunContext;
  readonly #ids: readonly number[];
  readonly #hadList: boolean;
  readonly #total: number;
  readonly #leastMs: number | null;
  /** True once this run makes no more look-ups. */
  #isOver = false;
  /** False once this run can't confirm further denials. */
  #canConfirm = true;
  /** Records of found items that are not saved yet. */
  readonly #found = new Map<number, Json>();
  #witness: { readonly id: number; readonly why: string } | null;
  readonly #unsaved = new Set<number>();
  /** Items that need no second look-up if the run is interrupted now. */
  #saved: number;
  #failuresInRow = 0;

  constructor(
    run: RunContext,
    { witness, hadList }: Unlisted,
    { ids, kept, foundBefore }: LookupChoice,
  ) {
    this.#run = run;
    this.#ids = ids;
    this.#hadList = hadList;
    this.outcomes = new Map(kept);
    this.#saved = kept.size;
    this.#total = kept.size + ids.length;
    this.#witness = witness === null ? null : { id: witness, why: 'is listed' };
    // Assume that items found last time are found again, and that the others are denied: two requests.
    const batches = Math.ceil(ids.length / BATCH_ITEMS);
    const requests = 2 * ids.length - foundBefore + PROOFS_PER_BATCH * batches;
    const rate = run.deps.requestsPerMinute;
    this.#leastMs = rate === 0 ? null : (requests * 60_000) / rate;
  }

  /** Whether an item was listed or found. */
  get hasWitness(): boolean {
    return this.#witness !== null || [...this.outcomes.values()].includes('found');
  }

  /** Looks up, confirms and saves batch by batch. */
  async perform(): Promise<void> {
    for (let at = 0; at < this.#ids.length && !this.#isOver; at += BATCH_ITEMS) {
      const ids = this.#ids.slice(at, at + BATCH_ITEMS);
      await this.#lookUp(ids, 0);
      await this.#confirmDenials(ids);
      const mustSave = this.#hadList || ids.some((id) => this.outcomes.get(id) !== 'found');
      if (mustSave) await inSession(this.#run, (session) => this.save(session, this.#hadList));
      this.#saved += ids.length;
    }
  }

  /** @param withFound false: keep found items back, since a run without a list may still fail */
  async save(session: ItemSession, withFound = true): Promise<void> {
    const outcomes = new Map<number, LookupOutcome>();
    for (const id of this.#unsaved) {
      const outcome = this.outcomes.get(id) ?? 'unanswered';
      if (withFound || outcome !== 'found') outcomes.set(id, outcome);
    }
    await session.recordLookups(outcomes);
    for (const id of outcomes.keys()) this.#unsaved.delete(id);
    if (withFound && this.#found.size > 0) await this.#saveFound(session);
  }

  /** Marks found items as live again and updates their content. */
  async #saveFound(session: ItemSession): Promise<void> {
    const { counts } = this.#run;
    const ids = [...this.#found.keys()];
    const noLongerMissing = await session.undoDelisting(ids);
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
    counts.missing = Math.max(0, counts.missing - noLongerMissing - applied.foundAgain);
    const { changed, extraChanged, restored, missing } = counts;
    await session.saveCounts({ changed, extraChanged, restored, missing });
    this.#found.clear();
  }

  /**
   * Looks items up one by one and records the outcomes.
   * @param done items of the batch that are done; one look-up counts as half an item
   */
  async #lookUp(ids: readonly number[], done: number): Promise<void> {
    const { deps, lock, signal, warnings } = this.#run;
    for (const [n, id] of ids.entries()) {
      lock.assertHeld();
      this.#reportProgress(done + n / 2);
      const reply = await deps.marketplace.item(id, { signal });
      if (reply.kind === 'answered') {
        this.#setOutcome(id, 'found');
        this.#found.set(id, reply.data.raw);
        this.#witness ??= { id, why: 'was found a moment ago' };
        this.#failuresInRow = 0;
        continue;
      }
      this.#setOutcome(id, reply.kind === 'denied' ? 'denied' : 'unanswered');
      this.#failuresInRow = reply.kind === 'denied' ? 0 : this.#failuresInRow + 1;
      const isPointless = reply.kind === 'refused' || reply.kind === 'limited';
      if (isPointless || this.#failuresInRow === MAX_FAILURES_IN_ROW) {
        warnings.push(`look-ups ended early: ${describeFailure(reply)}`);
        this.notBefore = retryTime(reply);
        this.#isOver = true;
        return;
      }
    }
  }

  /**
   * Marks denied items as gone if the witness is found, the items are denied again, and the key is
   * still good. So a key that was bad for a while removes nothing.
   */
  async #confirmDenials(ids: readonly number[]): Promise<void> {
    const denied = ids.filter((id) => this.outcomes.get(id) === 'denied');
    // With `notBefore`, the server has asked for a pause.
    if (denied.length === 0 || !this.#canConfirm || this.notBefore !== null) return;
    if (!(await this.#isWitnessFound())) return;
    // If the second look-up does not reach an item, it is not known to be gone.
    for (const id of denied) this.#setOutcome(id, 'unanswered');
    await this.#lookUp(denied, ids.length - denied.length / 2);
    const wrong = denied.find((id) => this.outcomes.get(id) === 'found');
    if (wrong !== undefined) {
      this.#discardDenials(`item ${wrong} was denied, and found a moment later`);
      return;
    }
    const deniedAgain = denied.filter((id) => this.outcomes.get(id) === 'denied');
    if (deniedAgain.length === 0 || !(await this.#isKeyGood())) return;
    for (const id of deniedAgain) this.#setOutcome(id, 'gone');
  }

  /** Looks up the witness; without one, checks the key. */
  async #isWitnessFound(): Promise<boolean> {
    if (this.#witness === null) return this.#isKeyGood();
    const { id, why } = this.#witness;
    const reply = await this.#run.deps.marketplace.item(id, { signal: this.#run.signal });
    if (reply.kind === 'answered') return true;
    const reason = `item ${id}, which ${why}, can’t be looked up either: ${describeFailure(reply)}`;
    if (reply.kind === 'denied') this.#discardDenials(reason);
    else this.#stopConfirming(reason, retryTime(reply));
    return false;
  }

  async #isKeyGood(): Promise<boolean> {
    try {
      await verifyAccount(this.#run);
      return true;
    } catch (error) {
      if (!(error instanceof RunProblem)) throw error;
      const reason = `the API key failed its second check: ${error.message}`;
      this.#stopConfirming(reason, error.problem.notBefore);
      // With a refused key, every further look-up would be denied.
      if (error.problem.permanent) this.#isOver = true;
      return false;
    }
  }

  /** Look-ups deny items that exist, so earlier denials prove nothing either. */
  #discardDenials(reason: string): void {
    for (const [id, outcome] of this.outcomes) {
      if (outcome === 'gone') this.#setOutcome(id, 'denied');
    }
    this.#stopConfirming(reason, null);
  }

  #stopConfirming(reason: string, notBefore: number | null): void {
    const isAnyGone = [...this.outcomes.values()].includes('gone');
    const effect = isAnyGone ? 'some denied items were not removed' : 'nothing was removed';
    this.#run.warnings.push(`${effect}, since ${reason}`);
    this.#canConfirm = false;
    this.notBefore = notBefore;
    if (notBefore !== null) this.#isOver = true;
  }

  #setOutcome(id: number, outcome: LookupOutcome): void {
    this.outcomes.set(id, outcome);
    this.#unsaved.add(id);
  }

  #reportProgress(done: number): void {
    const [saved, total, leastMs] = [this.#saved, this.#total, this.#leastMs];
    const progress = { done: Math.floor(saved + done), total, saved, leastMs };
    this.#run.deps.onProgress?.({ phase: 'look-up', ...progress });
  }
}
