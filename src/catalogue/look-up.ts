import type { Item, Json } from '../domain/item.js';
import { spacingOf } from '../domain/budget.js';
import {
  describeFailure,
  meaningOf,
  retryTimeOf,
  type Failure,
  type Reply,
} from '../marketplace/reply.js';
import type { Sourced } from '../marketplace/types.js';
import { isSameName } from './account.js';
import { recordLookups, type LookupChoice } from './lookups-store.js';
import type { RunContext } from './run.js';
import {
  itemsPerWindow,
  PROBES,
  PROOF_CALLS,
  refusalOf,
  windowLimitMs,
  type LookupOutcome,
  type Sign,
} from './rules.js';
import { spread } from './stage-list.js';

/** What look-ups found out. */
export interface Lookups {
  /** Items that were not asked have none. */
  readonly outcomes: ReadonlyMap<number, LookupOutcome>;
  /** Records of found items. */
  readonly found: ReadonlyMap<number, Json>;
  /** Whether any item was found, or is listed. */
  readonly witnessed: boolean;
  /** Why some items are not proven to be gone; null: all are found or proven. */
  readonly warning: string | null;
  /** The reply that ended the look-ups early; null: none did. */
  readonly failure: Failure | null;
}

interface LookupInput extends LookupChoice {
  /** User name of the account that the run's key opened. */
  readonly account: string;
  /** Items that the marketplace must find, or denials prove nothing: listed ones. */
  readonly witnesses: readonly number[];
}

/**
 * Looks items up in windows: only a denial between two proofs of the key says that an item is gone, because a
 * wrong key, and the key of a user who sells nothing, get the same denials. Proven denials are recorded at once, so
 * that an interruption loses at most one window; nothing else is written.
 */
export async function lookUp(run: RunContext, input: LookupInput): Promise<Lookups> {
  const lookups = new LookupsOfRun(run, input);
  await lookups.perform();
  return lookups;
}

/**
 * Asks for some items, to find out whether a suspicious list is the account's.
 * @param known known items that the list lacks
 * @param fresh items of the list that the mirror does not know
 * @returns why the list is refused; null if it is not
 */
export async function probeList(
  { deps, lock, stamp, signal }: RunContext,
  known: readonly number[],
  fresh: readonly number[],
): Promise<string | null> {
  const ask = async (ids: readonly number[]): Promise<Map<number, Sign>> => {
    const signs = new Map<number, Sign>();
    for (const id of spread(ids, PROBES)) {
      lock.lost.throwIfAborted();
      const { kind } = await deps.marketplace.item(id, { signal });
      signs.set(id, kind === 'answered' ? 'found' : kind === 'denied' ? 'denied' : 'unanswered');
    }
    return signs;
  };
  const signs = await ask(known);
  const found = [...signs].flatMap(([id, sign]) => (sign === 'found' ? [[id, sign] as const] : []));
  await recordLookups(lock.client, stamp, new Map(found));
  const refusal = refusalOf([...signs.values()], []);
  return refusal ?? refusalOf([], [...(await ask(fresh)).values()]);
}

/** Stop asking after this many failures in a row. */
const MAX_FAILURES_IN_ROW = 3;
/** Witnesses asked in one proof. A witness may be gone itself, so one denial is not the last word. */
const WITNESSES_PER_PROOF = 3;

type ItemReply = Reply<Sourced<Item>>;

/** Why no denial of a window counts. */
interface Fault {
  readonly why: string;
  readonly reply: Failure | null;
  /** Whether the window is made once more: the doubt may be a passing one. */
  readonly isPassing: boolean;
}

function faultBy(reply: Failure, isPassing = false): Fault {
  return { why: describeFailure(reply), reply, isPassing };
}

class LookupsOfRun implements Lookups {
  readonly outcomes: Map<number, LookupOutcome>;
  readonly found = new Map<number, Json>();
  warning: string | null = null;
  failure: Failure | null = null;
  readonly #witnesses: number[];
  #nextWitness = 0;
  readonly #spacingMs: number;
  /** Items that need no second look-up if the run is interrupted now. */
  #saved: number;
  /** The newest failures in a row. */
  #failures: Failure[] = [];

  constructor(
    private readonly run: RunContext,
    private readonly input: LookupInput,
  ) {
    this.#witnesses = [...input.witnesses];
    this.outcomes = new Map(input.gone.map((id) => [id, 'gone']));
    this.#saved = input.gone.length;
    const rate = run.deps.requestsPerMinute;
    this.#spacingMs = rate === 0 ? 0 : spacingOf(rate);
  }

  get witnessed(): boolean {
    return this.#witnesses.length > 0;
  }

  async perform(): Promise<void> {
    const { ids } = this.input;
    const size = itemsPerWindow(this.#spacingMs);
    for (let at = 0; at < ids.length; at += size) {
      const asked = ids.slice(at, at + size);
      let fault = await this.#window(asked);
      if (fault?.isPassing === true) fault = await this.#window(asked);
      if (fault !== null) return this.#endEarly(fault);
      this.#saved += asked.length;
    }
  }

  /** Asks for those items of a window that were neither found nor proven to be gone. @returns why to stop */
  async #window(ids: readonly number[]): Promise<Fault | null> {
    const beganAt = performance.now();
    const before = await this.#prove();
    if (before !== null) return before;
    const open = ids.filter((id) => !this.found.has(id) && this.outcomes.get(id) !== 'gone');
    const denied: number[] = [];
    let fault: Fault | null = null;
    for (const [n, id] of open.entries()) {
      const reply = await this.#ask(id, this.#saved + n);
      if (reply.kind === 'denied') denied.push(id);
      fault = interruptionBy(reply);
      if (fault !== null || this.#isDown) break;
    }
    // Without a denial nothing rests on a second proof.
    if (fault === null && denied.length > 0) {
      fault = await this.#prove();
      const isSlow = performance.now() - beganAt > windowLimitMs(this.#spacingMs);
      if (isSlow) fault ??= SLOW;
    }
    for (const id of denied) {
      const counts = fault === null && !this.input.foundBefore.includes(id);
      this.outcomes.set(id, counts ? 'gone' : 'denied');
    }
    // Found items are left out: their content is stored at the end of the run.
    const known = open.flatMap((id): [number, LookupOutcome][] => {
      const outcome = this.outcomes.get(id);
      return outcome === undefined || outcome === 'found' ? [] : [[id, outcome]];
    });
    await recordLookups(this.run.lock.client, this.run.stamp, new Map(known));
    const [failure] = this.#failures;
    return this.#isDown && failure !== undefined ? faultBy(failure) : fault;
  }

  async #ask(id: number, done: number): Promise<ItemReply> {
    this.run.lock.lost.throwIfAborted();
    this.#tell(done);
    const reply = await this.#item(id);
    if (reply.kind === 'answered') {
      this.outcomes.set(id, 'found');
      this.found.set(id, reply.data.raw);
      this.#witnesses.push(id);
    } else if (reply.kind !== 'denied') this.outcomes.set(id, 'unanswered');
    const isFailure = reply.kind !== 'answered' && reply.kind !== 'denied';
    this.#failures = isFailure ? [reply, ...this.#failures] : [];
    return reply;
  }

  /**
   * Proves that the key opens the seller's account and, if any witness is known, finds one. The calls are made one
   * after another, and nothing else is under way meanwhile.
   * @returns why it is not proven; null: it is
   */
  async #prove(): Promise<Fault | null> {
    const { deps, signal } = this.run;
    const reply = await deps.marketplace.account({ signal });
    if (reply.kind !== 'answered') return faultBy(reply);
    if (!isSameName(reply.data.value.username, this.input.account)) {
      return { why: 'the API key opened another account', reply: null, isPassing: false };
    }
    for (let asked = 0; this.witnessed; asked++) {
      // Another one each time, so that no cache vouches for everything.
      const witness = this.#witnesses[this.#nextWitness++ % this.#witnesses.length] as number;
      const answer = await this.#item(witness);
      if (answer.kind === 'answered') break;
      if (answer.kind !== 'denied') return faultBy(answer);
      if (asked + 1 < WITNESSES_PER_PROOF) continue;
      return { why: 'listed items can’t be looked up either', reply: answer, isPassing: true };
    }
    return null;
  }

  #item(id: number): Promise<ItemReply> {
    const { deps, signal } = this.run;
    return deps.marketplace.item(id, { signal });
  }

  get #isDown(): boolean {
    return this.#failures.length >= MAX_FAILURES_IN_ROW;
  }

  #endEarly({ why, reply }: Fault): void {
    const isAnyGone = [...this.outcomes.values()].includes('gone');
    const effect = isAnyGone ? 'some unlisted items were not removed' : 'nothing was removed';
    this.warning = `look-ups ended early and ${effect}: ${why}`;
    this.failure = reply;
  }

  #tell(done: number): void {
    const { ids, gone } = this.input;
    const [total, saved] = [gone.length + ids.length, this.#saved];
    const rate = this.run.deps.requestsPerMinute;
    const proofs = PROOF_CALLS * Math.ceil(ids.length / itemsPerWindow(this.#spacingMs));
    const leastMs = rate === 0 ? null : ((ids.length + proofs) * 60_000) / rate;
    this.run.deps.onProgress?.({ phase: 'look-up', done, total, saved, leastMs });
  }
}

const SLOW: Fault = {
  why: 'the look-ups between two proofs of the API key took too long',
  reply: null,
  isPassing: true,
};

/** Whether an answer casts doubt on the key, or asks for a pause before the second proof. */
function interruptionBy(reply: ItemReply): Fault | null {
  const meaning = meaningOf(reply);
  if (reply.kind === 'answered' || meaning.kind === 'denied') return null;
  if (meaning.kind === 'doubt') return faultBy(reply, true);
  return reply.kind === 'limited' || retryTimeOf(reply) !== null ? faultBy(reply) : null;
}
