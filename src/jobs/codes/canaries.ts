import type { Heard } from '../../domain/codes/outcome.js';

/** Canaries that are tried before all count as lost. */
const MOST_LOST = 20;
/** Calls without a sound answer, one after another, until a canary is given up. */
const USELESS = 2;

/** The codes known to be valid that one asking has to prove the key with. */
export class Canaries {
  /** One that was found; null while none was. */
  found: string | null;
  /** Those that were denied, or got no sound answer. */
  readonly lost = new Set<string>();
  readonly #known: readonly string[];
  readonly #denied: Set<string>;
  #failures = 0;

  /**
   * @param known codes to try, the best first
   * @param found a code that was found just before
   * @param denied codes that were denied as canaries in earlier askings
   */
  constructor(known: readonly string[], found: string | null, denied: readonly string[]) {
    this.#known = known;
    this.found = found;
    this.#denied = new Set(denied);
  }

  /** The code to ask for: one that was found, else the next that was not tried; null when all are lost. */
  get next(): string | null {
    if (this.found !== null) return this.found;
    if (this.lost.size >= MOST_LOST) return null;
    return this.#known.find((code) => !this.lost.has(code)) ?? null;
  }

  /** Takes in what came of asking for a canary. One that is denied has changed, or the key is bad: others tell. */
  hear(code: string, { kind }: Heard['outcome']): void {
    if (kind === 'affirmed') this.found = code;
    if (kind === 'denied') this.#denied.add(code);
    const isUseless = kind === 'doubtful' && ++this.#failures % USELESS === 0;
    if (kind !== 'denied' && !isUseless) return;
    this.lost.add(code);
    if (this.found === code) this.found = null;
  }

  /**
   * Codes to ask for once more, like those of the list, now that another code shows that the key is good:
   * they were denied as canaries, so they have changed. Each is given once.
   */
  takeDenied(): readonly string[] {
    const denied = [...this.#denied];
    this.#denied.clear();
    return denied;
  }
}
