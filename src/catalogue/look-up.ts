import type { Item, Json } from '../domain/item.js';
import { spacingOf } from '../domain/budget.js';
import { PROBES, refusalOf, type LookupOutcome, type Sign } from './rules.js';
import { describeFailure, type Failure, type Reply } from '../marketplace/reply.js';
import type { BadProof, GoodProof, KeyHolder, Witness } from '../marketplace/prove-key.js';
import { checksPerWindow, provenWindow, type WindowFault } from '../marketplace/proven-window.js';
import type { CallOptions, Sourced } from '../marketplace/types.js';
import { recordLookups, type LookupChoice } from './lookups-store.js';
import { retryTime } from './problem.js';
import type { RunContext } from './run.js';
import { spread } from './stage-list.js';

/** What look-ups found out. */
export interface Lookups {
  /** Items that were not asked have none. */
  readonly outcomes: ReadonlyMap<number, LookupOutcome>;
  /** Records of found items. */
  readonly found: ReadonlyMap<number, Json>;
  /** Whether any item was found, or is listed. */
  readonly witnessed: boolean;
  /** Why some items are not proven to be gone; the last one is the most telling. */
  readonly warnings: readonly string[];
  /** The reply that ended the look-ups early; null: none did. */
  readonly failure: Failure | null;
  /** When the marketplace allows a retry, milliseconds since 1970; null when it did not say. */
  readonly notBefore: number | null;
}

interface LookupInput extends LookupChoice {
  /** User name of the account that the run's key opened. */
  readonly account: string;
  /** Items that the marketplace must find, or denials prove nothing: listed ones. */
  readonly witnesses: readonly number[];
}

/**
 * Looks up items in proven windows: only a denial between two proofs of the key says that an item is gone.
 * Proven denials are recorded at once, so that an interruption loses at most one window; nothing else is
 * written.
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
      lock.assertHeld();
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
/** A window in which the key came into doubt is made once more: the doubt may have been a passing one. */
const ATTEMPTS = 2;
/** Requests for two proofs, each of account details and a witness. */
const REQUESTS_FOR_PROOFS = 4;

type ItemReply = Reply<Sourced<Item>>;

class LookupsOfRun implements Lookups {
  readonly outcomes: Map<number, LookupOutcome>;
  readonly found = new Map<number, Json>();
  readonly warnings: string[] = [];
  failure: Failure | null = null;
  notBefore: number | null = null;
  readonly #run: RunContext;
  readonly #input: LookupInput;
  readonly #hidden: ReadonlySet<number>;
  readonly #witnesses: number[];
  #nextWitness = 0;
  readonly #spacingMs: number;
  readonly #total: number;
  readonly #leastMs: number | null;
  /** Items that need no second look-up if the run is interrupted now. */
  #saved: number;
  #asked = 0;
  #failures: Failure[] = [];

  constructor(run: RunContext, input: LookupInput) {
    const { ids, gone, hidden, witnesses } = input;
    this.#run = run;
    this.#input = input;
    this.#hidden = new Set(hidden);
    this.#witnesses = [...witnesses];
    this.outcomes = new Map(gone.map((id) => [id, 'gone']));
    this.#saved = gone.length;
    this.#total = gone.length + ids.length;
    const rate = run.deps.requestsPerMinute;
    this.#spacingMs = rate === 0 ? 0 : spacingOf(rate);
    const windows = Math.ceil(ids.length / checksPerWindow(this.#spacingMs));
    const requests = ids.length + REQUESTS_FOR_PROOFS * windows;
    this.#leastMs = rate === 0 ? null : (requests * 60_000) / rate;
  }

  get witnessed(): boolean {
    return this.#witnesses.length > 0;
  }

  async perform(): Promise<void> {
    const { ids } = this.#input;
    const size = checksPerWindow(this.#spacingMs);
    let opening: GoodProof | null = null;
    for (let at = 0; at < ids.length; at += size) {
      const asked = ids.slice(at, at + size);
      for (let attempt = 1; ; attempt++) {
        const { fault, after } = await this.#window(asked, opening);
        opening = after;
        const [first] = this.#failures;
        if (this.#failures.length >= MAX_FAILURES_IN_ROW && first !== undefined) {
          return this.#endEarly(describeFailure(first), first);
        }
        if (fault === null) break;
        const isPassing = fault.kind === 'slow' || fault.kind === 'doubt' || isDenial(fault);
        if (!isPassing || attempt === ATTEMPTS) {
          const reply = failureOf(fault) ?? first ?? null;
          return this.#endEarly(describeFault(fault, reply), reply);
        }
      }
      this.#saved += asked.length;
    }
  }

  /** Asks for those items of a window that were neither found nor proven to be gone. */
  async #window(
    ids: readonly number[],
    opening: GoodProof | null,
  ): Promise<{ readonly fault: WindowFault | null; readonly after: GoodProof | null }> {
    const { deps, signal } = this.#run;
    this.#asked = 0;
    const open = ids.filter((id) => !this.found.has(id) && this.outcomes.get(id) !== 'gone');
    const checks = open.map((id) => ({
      id,
      ask: (options: CallOptions) => this.#ask(id, options),
    }));
    const options = { signal, opening, spacingMs: this.#spacingMs };
    const window = await provenWindow<Sourced<Item>, (typeof checks)[number]>(
      deps.marketplace,
      checks,
      this.#holder(),
      options,
    );
    for (const { check, reply } of window.answers) {
      if (reply.kind === 'answered') {
        this.outcomes.set(check.id, 'found');
        this.found.set(check.id, reply.data.raw);
        this.#witnesses.push(check.id);
      } else if (reply.kind === 'denied') {
        const counts = window.fault === null && !this.#hidden.has(check.id);
        this.outcomes.set(check.id, counts ? 'gone' : 'denied');
      } else {
        this.outcomes.set(check.id, 'unanswered');
      }
    }
    // Found items are left out: their content is stored at the end of the run.
    const denials = open.flatMap((id): [number, LookupOutcome][] => {
      const outcome = this.outcomes.get(id);
      return outcome === undefined || outcome === 'found' ? [] : [[id, outcome]];
    });
    await recordLookups(this.#run.lock.client, this.#run.stamp, new Map(denials));
    return window;
  }

  async #ask(id: number, options: CallOptions): Promise<ItemReply> {
    const [last] = this.#failures;
    // The marketplace is down: what is left of the window needs no request.
    if (this.#failures.length >= MAX_FAILURES_IN_ROW && last !== undefined) return last;
    this.#run.lock.assertHeld();
    this.#reportProgress(this.#asked++);
    const reply = await this.#run.deps.marketplace.item(id, options);
    const isFailure = reply.kind !== 'answered' && reply.kind !== 'denied';
    this.#failures = isFailure ? [reply, ...this.#failures] : [];
    return reply;
  }

  #holder(): KeyHolder {
    return { account: this.#input.account, nextWitness: () => this.#witness() };
  }

  /** Another one each time, so that no cache vouches for everything. */
  #witness(): Witness | null {
    const { length } = this.#witnesses;
    const id = this.#witnesses[this.#nextWitness++ % Math.max(1, length)];
    const { marketplace } = this.#run.deps;
    return id === undefined ? null : { ask: (options) => marketplace.item(id, options) };
  }

  #endEarly(why: string, reply: Failure | null): void {
    const isAnyGone = [...this.outcomes.values()].includes('gone');
    const effect = isAnyGone ? 'some unlisted items were not removed' : 'nothing was removed';
    this.warnings.push(`look-ups ended early and ${effect}: ${why}`);
    this.failure = reply;
    this.notBefore = reply === null ? null : retryTime(reply);
  }

  #reportProgress(done: number): void {
    const [saved, total, leastMs] = [this.#saved, this.#total, this.#leastMs];
    this.#run.deps.onProgress?.({ phase: 'look-up', done: saved + done, total, saved, leastMs });
  }
}

function isDenial(fault: WindowFault): boolean {
  return fault.kind === 'proof' && fault.proof.reason === 'witness-denied';
}

/** The reply to a proof; null if it was about an item, or an answer. */
function failureOf(fault: WindowFault): Failure | null {
  const reply = fault.kind === 'proof' ? fault.proof.reply : null;
  return reply === null || reply.kind === 'answered' ? null : reply;
}

const DOUBTS: Readonly<Record<BadProof['reason'], string>> = {
  'witness-denied': 'listed items can’t be looked up either',
  refused: 'the marketplace refused the API key',
  'no-api': 'the marketplace sent a page instead of an answer',
  'another-account': 'the API key opened another account',
  'mixed-up': 'an answer was about another item',
  limited: 'the marketplace asked for a pause',
  unavailable: 'the marketplace did not answer',
  unreadable: 'an answer could not be read',
};

function describeFault(fault: WindowFault, reply: Failure | null): string {
  if (fault.kind === 'slow') return 'the look-ups between two proofs of the API key took too long';
  if (reply !== null && !isDenial(fault)) return describeFailure(reply);
  if (fault.kind === 'pause') return DOUBTS.limited;
  return fault.kind === 'doubt' ? DOUBTS[fault.reason] : DOUBTS[fault.proof.reason];
}
