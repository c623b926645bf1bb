import type { UnprovenReason } from '../../domain/codes/outcome.js';
import type { CodeCall } from '../../domain/codes/proof.js';
import type { UnprovenCode } from './types.js';

/** Times a code is asked for without a verdict, in one asking. */
const TRIES = 3;

/** Reasons for which another try in the same asking may help. */
const PASSING: ReadonlySet<UnprovenReason> = new Set<UnprovenReason>([
  'unavailable',
  'refused',
  'switched-off',
  'redirect',
  'no-account-before',
  'no-canary-before',
  'proof-failed',
  'gap',
  'row-too-long',
]);

/** The codes of one asking: first each of the list, then those that need another try. */
export class CodesToAsk {
  /** Codes that were asked for without a verdict, with the last reason. */
  readonly unproven = new Map<string, UnprovenCode>();
  readonly #listed: readonly string[];
  readonly #again = new Set<string>();
  readonly #tries = new Map<string, number>();
  /** Index of the first listed code that was not asked for. */
  #next = 0;

  /** @param listed each of them once */
  constructor(listed: readonly string[]) {
    this.#listed = listed;
  }

  /** Whether each code of the list was asked for once. */
  get isAgain(): boolean {
    return this.#next >= this.#listed.length;
  }

  /** Whether nothing is left to ask for. */
  get isEmpty(): boolean {
    return this.isAgain && this.#again.size === 0;
  }

  /** Codes of the list that were not asked for. */
  get left(): readonly string[] {
    return this.#listed.slice(this.#next);
  }

  /** The next code; there must be one. */
  take(): string {
    if (!this.isAgain) return this.#listed[this.#next++] as string;
    const [code] = this.#again as Iterable<string> as [string];
    this.#again.delete(code);
    return code;
  }

  /** Adds codes to ask for after the list, unless they are in it. */
  add(codes: readonly string[]): void {
    for (const code of codes) if (!this.#listed.includes(code)) this.#again.add(code);
  }

  /** A call came to no verdict; the code gets another try where that may help. */
  fail({ code, evidence, endedAt: at }: CodeCall, reason: UnprovenReason): void {
    const tries = (this.#tries.get(code) ?? 0) + 1;
    this.#tries.set(code, tries);
    this.unproven.set(code, { reason, evidence, at });
    if (PASSING.has(reason) && tries < TRIES) this.#again.add(code);
  }

  /** The codes of the list that have no verdict. */
  report(): ReadonlyMap<string, UnprovenCode> {
    const listed = new Set(this.#listed);
    return new Map([...this.unproven].filter(([code]) => listed.has(code)));
  }
}
