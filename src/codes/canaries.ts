/** More are not kept: a proof needs one. */
const MOST_KEPT = 200;
/** If so many canaries are denied, the key is more likely bad than all of them gone. */
const MANY_DENIED = 3;

/**
 * The codes known to be valid that prove the key, in turn.
 *
 * A code that was not used as a proof yet comes first, so that neither a cache nor one lucky code vouches for everything.
 * After a canary was denied, only such a code, or the denied one itself, can show that the key is good again: a cache may
 * repeat what it answered before.
 */
export class Canaries {
  /** Never asked: the best come first. */
  readonly #unasked: string[] = [];
  /** Found by a check, but not used as a proof yet. */
  readonly #found: string[] = [];
  /** Used as a proof, the one used longest ago first. */
  readonly #used: string[] = [];
  /** Denied as a proof, and not found since. */
  readonly #denied: string[] = [];
  readonly #known = new Set<string>();
  #isInDoubt = false;

  get isEmpty(): boolean {
    return this.#known.size === 0;
  }

  /** Adds codes that are known to be valid, but were not asked. @param codes the best first */
  add(codes: Iterable<string>): void {
    for (const code of codes) {
      if (this.#known.has(code)) continue;
      this.#known.add(code);
      this.#unasked.push(code);
    }
  }

  /** Adds a code that was found by a check. */
  found(code: string): void {
    this.#isInDoubt = false;
    if (!this.#known.has(code) && this.#known.size >= MOST_KEPT) return;
    this.#forget(code);
    this.#found.push(code);
    this.#known.add(code);
  }

  /**
   * Asks these codes before the others, because they were denied a while ago, before a restart or by another process. So
   * the codes that can show that the key is good all the same are still unused then.
   */
  askFirst(denied: Iterable<string>): void {
    for (const code of denied) {
      const place = this.#unasked.indexOf(code);
      if (place > 0) this.#unasked.unshift(...this.#unasked.splice(place, 1));
    }
  }

  /** The next code to ask; null: none is known. */
  next(): string | null {
    const isKeyLikelyBad = this.#isInDoubt && this.#denied.length >= MANY_DENIED;
    const [unasked = isKeyLikelyBad ? undefined : this.#found[0]] = this.#unasked;
    const [other] = this.#isInDoubt ? this.#denied : this.#used;
    return unasked ?? other ?? this.#used[0] ?? this.#denied[0] ?? this.#found[0] ?? null;
  }

  /** Notes the answer about a canary. */
  note(code: string, answer: 'found' | 'denied' | 'none'): void {
    if (answer === 'none') return;
    const isNews = !this.#used.includes(code);
    this.#forget(code);
    (answer === 'found' ? this.#used : this.#denied).push(code);
    if (answer === 'denied') this.#isInDoubt = true;
    else if (isNews) this.#isInDoubt = false;
  }

  /** Drops a code that turned out invalid, or that is checked itself. */
  drop(code: string): void {
    this.#forget(code);
    this.#known.delete(code);
  }

  #forget(code: string): void {
    for (const list of [this.#unasked, this.#found, this.#used, this.#denied]) {
      const place = list.indexOf(code);
      if (place >= 0) list.splice(place, 1);
    }
  }
}
