import type { CallResult, UnprovenReason } from '../../domain/codes/outcome.js';
import type { CodeCall } from '../../domain/codes/proof.js';
import type { UnprovenCode } from './types.js';

/** Times a code is asked for without a verdict, in one asking. */
const TRIES = 3;

/** Reasons for which another try in the same asking may help. */
const PASSING: ReadonlySet<UnprovenReason> = new Set<UnprovenReason>([
  ...(['unavailable', 'refused', 'switched-off', 'redirect', 'proof-failed', 'gap'] as const),
  ...(['no-account-before', 'no-canary-before', 'row-too-long'] as const),
]);

/** The codes of one asking: first each of the list, then those that need another try. */
export class CodeQueue {
  /** Codes that were asked for without a verdict, with the last reason. */
  readonly unproven = new Map<string, UnprovenCode>();
  readonly #listed: readonly string[];
  readonly #again = new Set<string>();
  readonly #tries = new Map<string, number>();
  #next = 0;

  /** @param listed each of them once */
  constructor(listed: readonly string[]) {
    this.#listed = listed;
  }

  get isAgain(): boolean {
    return this.#next >= this.#listed.length;
  }

  get isEmpty(): boolean {
    return this.isAgain && this.#again.size === 0;
  }

  /** Codes of the list that were not asked for. */
  get left(): readonly string[] {
    return this.#listed.slice(this.#next);
  }

  take(): string {
    if (!this.isAgain) return this.#listed[this.#next++] as string;
    const [code] = this.#again as Iterable<string> as [string];
    this.#again.delete(code);
    return code;
  }

  /** Adds codes to ask for after the list, unless they are in it. */
  add(codes: Iterable<string>): void {
    for (const code of codes) if (!this.#listed.includes(code)) this.#again.add(code);
  }

  /** A call came to no verdict; the code gets another try where that may help. */
  fail({ code, evidence, endedAt: at }: CodeCall, reason: UnprovenReason): void {
    const tries = (this.#tries.get(code) ?? 0) + 1;
    this.#tries.set(code, tries);
    this.unproven.set(code, { reason, evidence, at });
    if (PASSING.has(reason) && tries < TRIES) this.#again.add(code);
  }

  report(): ReadonlyMap<string, UnprovenCode> {
    const listed = new Set(this.#listed);
    return new Map([...this.unproven].filter(([code]) => listed.has(code)));
  }
}

/** Canaries that are tried before all count as lost. */
const MOST_LOST = 20;
/** Calls without a sound answer, one after another, until a canary is given up. */
const USELESS = 2;

/** The codes known to be valid that one asking has to prove the key with. */
export class Canaries {
  /** Those that were denied, or got no sound answer. */
  readonly lost = new Set<string>();
  /** Codes that were denied as canaries. Once another code is found, they are asked for like the list's. */
  readonly denied: Set<string>;
  #failures = 0;

  /**
   * @param known codes to try, the best first
   * @param found a code that was found just before; null while none was
   * @param denied codes that were denied as canaries in earlier askings
   */
  constructor(
    readonly known: readonly string[],
    public found: string | null,
    denied: readonly string[],
  ) {
    this.denied = new Set(denied);
  }

  /** The code to ask for: one that was found, else the next that was not tried; null when all are lost. */
  get next(): string | null {
    if (this.found !== null) return this.found;
    if (this.lost.size >= MOST_LOST) return null;
    return this.known.find((code) => !this.lost.has(code)) ?? null;
  }

  /** Takes in what came of asking for a canary. One that is denied has changed, or the key is bad: others tell. */
  hear({ code, outcome: { kind } }: { readonly code: string } & CallResult): void {
    if (kind === 'success') this.found = code;
    if (kind === 'denied') this.denied.add(code);
    const isUseless = kind === 'suspect' && ++this.#failures % USELESS === 0;
    if (kind !== 'denied' && !isUseless) return;
    this.lost.add(code);
    if (this.found === code) this.found = null;
  }
}
