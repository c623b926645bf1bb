import type { UnprovenReason } from '../../domain/codes/unproven.js';

/** How often a code is asked for whose replies tell nothing, or whose denials come to nothing. */
const TRIES = 3;

/** What may be another at the end of the same chunk. The rest is for a later one, or for nobody. */
const PASSING: ReadonlySet<UnprovenReason> = new Set([
  'unavailable',
  'refused',
  'switched-off',
  'redirect',
  'no-account-before',
  'no-canary-before',
  'proof-failed',
  'credential-doubted',
  'lull',
  'run-too-long',
  'unconfirmed',
]);

/**
 * Which code is to be asked for next: each in its order, then those that are worth another try. Only what
 * must be denied once more comes at once, lest the calls of all the time until then be kept for it.
 */
export class Agenda {
  readonly #codes: readonly string[];
  readonly #extraTries: (code: string) => number;
  readonly #again = new Set<string>();
  readonly #soon = new Set<string>();
  /** Of the codes that were asked for more than once. */
  readonly #tries = new Map<string, number>();
  #next = 0;

  /** @param denialsNeeded how often a code must be denied */
  constructor(codes: readonly string[], denialsNeeded: (code: string) => number) {
    this.#codes = codes;
    this.#extraTries = (code) => denialsNeeded(code) - 1;
  }

  get isEmpty(): boolean {
    return this.#soon.size === 0 && this.isAgain && this.#again.size === 0;
  }

  /** Whether all codes were asked for once. */
  get isAgain(): boolean {
    return this.#next >= this.#codes.length;
  }

  /** Codes whose turn has not come. */
  get left(): readonly string[] {
    return this.#codes.slice(this.#next);
  }

  /** The next code; only to be called when there is one. */
  take(): string {
    if (this.#soon.size === 0 && !this.isAgain) return this.#codes[this.#next++] as string;
    const queue = this.#soon.size > 0 ? this.#soon : this.#again;
    const [code] = queue as Iterable<string> as [string];
    queue.delete(code);
    this.#tries.set(code, (this.#tries.get(code) ?? 1) + 1);
    return code;
  }

  /** A code was asked for in vain; it gets another try where that is of use. */
  inVain(code: string, reason: UnprovenReason): void {
    const tries = this.#tries.get(code) ?? 1;
    if (!PASSING.has(reason) || tries >= TRIES + this.#extraTries(code)) return;
    (reason === 'unconfirmed' ? this.#soon : this.#again).add(code);
  }
}
