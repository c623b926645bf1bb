import type { Json } from '../domain/item.js';
import { completeMedia, prepareAnswer, type PreparedItem } from '../domain/prepare-item.js';
import type { LookupOutcome } from '../domain/removals.js';
import { describeFailure } from '../domain/reply.js';
import { chooseLookups, recordLookups, type LookupChoice } from '../store/removals.js';
import type { ItemSession } from '../store/session.js';
import { RunProblem, retryTime } from './problem.js';
import { verifyAccount } from './account.js';
import { noteTolerated, type RunContext } from './run.js';

export interface Unlisted {
  /** Present items that the list does not name. */
  readonly ids: readonly number[];
  /** How many items were present before. */
  readonly present: number;
  /** False when the marketplace sent "no items" instead of a list. */
  readonly hadList: boolean;
  /** An item that the list names; null: none. Its look-up must succeed, or denials prove nothing. */
  readonly witness: number | null;
}

/**
 * Looks up each item that the list does not name, also if the run will be held: a person can then approve
 * the removal. Items proven to be gone are recorded at once, so that an interruption loses at most one batch;
 * nothing else is written.
 * @throws {RunProblem} when there was no list, and look-ups could not prove that the items are gone
 */
export async function lookUp(run: RunContext, unlisted: Unlisted): Promise<Lookups> {
  const { deps, lock, warnings } = run;
  const { ids, hadList } = unlisted;
  const chosen = await chooseLookups(lock, ids, deps.lookupsPerRun);
  const lookups = new Lookups(run, unlisted, chosen);
  await lookups.perform();
  const { outcomes, notBefore } = lookups;
  const unknown = [...outcomes.values()].filter((is) => is !== 'found' && is !== 'gone').length;
  if (!hadList && unknown > 0) {
    const why = warnings.splice(0).at(-1) ?? '';
    const message = `the marketplace lists no items, and it is not proven that ${unknown} known ones are gone: ${why}`;
    throw new RunProblem('unavailable', message, 'nothing was changed; try again later', notBefore);
  }
  return lookups;
}

/** Items looked up and confirmed together. */
const BATCH_ITEMS = 25;
/** Extra requests of a batch: one for the witness, one for the account. */
const PROOFS_PER_BATCH = 2;
/** Stop looking up after this many failures in a row. */
const MAX_FAILURES_IN_ROW = 3;

/** The look-ups of one run. What an interrupted run proved in the last hour is reused. */
export class Lookups {
  readonly outcomes: Map<number, LookupOutcome>;
  /** When the marketplace allows a retry, milliseconds since 1970; null when it did not say. */
  notBefore: number | null = null;
  readonly #run: RunContext;
  readonly #ids: readonly number[];
  readonly #leastMs: number | null;
  /** True once this run makes no more look-ups. */
  #isOver = false;
  /** False once this run can't confirm further denials. */
  #canConfirm = true;
  /** Records of found items. */
  readonly #found = new Map<number, Json>();
  #witness: { readonly id: number; readonly why: string } | null;
  /** Items that need no second look-up if the run is interrupted now. */
  #saved: number;
  readonly #total: number;
  #failuresInRow = 0;

  constructor(run: RunContext, { witness }: Unlisted, { ids, gone }: LookupChoice) {
    this.#run = run;
    this.#ids = ids;
    this.outcomes = new Map(gone.map((id) => [id, 'gone']));
    this.#saved = gone.length;
    this.#total = gone.length + ids.length;
    this.#witness = witness === null ? null : { id: witness, why: 'is listed' };
    // If all items are denied, each takes two requests.
    const batches = Math.ceil(ids.length / BATCH_ITEMS);
    const requests = 2 * ids.length + PROOFS_PER_BATCH * batches;
    const rate = run.deps.requestsPerMinute;
    this.#leastMs = rate === 0 ? null : (requests * 60_000) / rate;
  }

  /** Whether an item was listed or found. */
  get hasWitness(): boolean {
    return this.#witness !== null || [...this.outcomes.values()].includes('found');
  }

  /** Looks up and confirms batch by batch. */
  async perform(): Promise<void> {
    for (let at = 0; at < this.#ids.length && !this.#isOver; at += BATCH_ITEMS) {
      const ids = this.#ids.slice(at, at + BATCH_ITEMS);
      await this.#lookUp(ids, 0);
      await this.#confirmDenials(ids);
      await this.#saveDenials();
      this.#saved += ids.length;
    }
  }

  /** Found items are left out: their content is stored at the end of the run. */
  async #saveDenials(): Promise<void> {
    const denials = [...this.outcomes].filter(([, outcome]) => outcome !== 'found');
    await recordLookups(this.#run.lock.client, this.#run.stamp, new Map(denials));
  }

  /** Stages the records of found items. */
  async stageFound(run: RunContext, session: ItemSession): Promise<void> {
    const stored = await session.rawRecords([...this.#found.keys()]);
    const items: PreparedItem[] = [];
    for (const [id, raw] of this.#found) {
      const preparation = prepareAnswer(completeMedia(raw, stored.get(id)));
      if (!preparation.ok) continue;
      noteTolerated(run, preparation.tolerated);
      items.push(preparation.prepared);
    }
    await session.stageItems(items);
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
        this.outcomes.set(id, 'found');
        this.#found.set(id, reply.data.raw);
        this.#witness ??= { id, why: 'was found a moment ago' };
        this.#failuresInRow = 0;
        continue;
      }
      this.outcomes.set(id, reply.kind === 'denied' ? 'denied' : 'unanswered');
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
    for (const id of denied) this.outcomes.set(id, 'unanswered');
    await this.#lookUp(denied, ids.length - denied.length / 2);
    const wrong = denied.find((id) => this.outcomes.get(id) === 'found');
    if (wrong !== undefined) {
      this.#discardDenials(`item ${wrong} was denied, and found a moment later`);
      return;
    }
    const deniedAgain = denied.filter((id) => this.outcomes.get(id) === 'denied');
    if (deniedAgain.length === 0 || !(await this.#isKeyGood())) return;
    for (const id of deniedAgain) this.outcomes.set(id, 'gone');
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
      if (outcome === 'gone') this.outcomes.set(id, 'denied');
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

  #reportProgress(done: number): void {
    const [saved, total, leastMs] = [this.#saved, this.#total, this.#leastMs];
    const progress = { done: Math.floor(saved + done), total, saved, leastMs };
    this.#run.deps.onProgress?.({ phase: 'look-up', ...progress });
  }
}
