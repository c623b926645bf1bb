import { KNOWN_VALID_PER_PROOF } from './rules.js';
import type { CodeReply } from './market.js';
import type { KnownValid } from './ledger.js';
import type { Situation } from './situation.js';

/** What proofs may ask for, while a piece of work is done. */
export class ProofCodes {
  readonly #codes: KnownValid[];
  readonly #items: number[];
  /** Denied as proofs in this check, without a verdict since. */
  readonly #doubtful = new Set<string>();

  readonly #hadItem: (id: number) => boolean;
  readonly #trustedItems = new Set<number>();

  constructor({ knownValid, liveItems, hadItem }: Situation) {
    this.#codes = [...knownValid];
    this.#items = [...liveItems];
    this.#hadItem = hadItem;
  }

  /** The item of a purchase if the catalogue never had it: another seller may have sold it. Null: it is the seller's. */
  strangeItem(reply: CodeReply): number | null {
    const id = reply.kind === 'answered' ? (reply.data.value.item?.id ?? null) : null;
    return id === null || this.#trustedItems.has(id) || this.#hadItem(id) ? null : id;
  }

  /** A purchase of this item was found before and after a good proof. */
  trust(item: number): void {
    this.#trustedItems.add(item);
  }

  /** Whether a proof can be more than account details. */
  get canFind(): boolean {
    return this.#codes.length > 0 || this.#items.length > 0;
  }

  /**
   * The codes that one proof may ask for, in turn: not used in this check before first, live items before removed ones, then
   * those found longest ago. Codes that were denied meanwhile are last. They are no proof at all if fewer than
   * three codes are known: then an item stands for them.
   */
  *inTurn(): Generator<KnownValid> {
    const isFew = this.#codes.length < KNOWN_VALID_PER_PROOF;
    const codes = this.#codes.filter(({ isDenied }) => !(isFew && isDenied));
    yield* codes.sort(byTurn).slice(0, KNOWN_VALID_PER_PROOF);
  }

  /** Whether every known-valid code may be denied and the key still good. */
  get mayAskItems(): boolean {
    return this.#codes.length < KNOWN_VALID_PER_PROOF;
  }

  /** Items to ask for in one proof, each proof beginning with another one. */
  *items(): Generator<number> {
    const items = this.#items.slice(0, KNOWN_VALID_PER_PROOF);
    const [first] = this.#items.splice(0, 1);
    if (first !== undefined) this.#items.push(first);
    yield* items;
  }

  /**
   * While a known-valid code that was denied as a proof has no verdict, nobody knows whether it was refunded, or whether
   * this marketplace denies valid codes. So no listed code becomes invalid until that is known. Its denials are kept.
   */
  get isAnyDoubtful(): boolean {
    return this.#doubtful.size > 0;
  }

  /** A code was found: as a proof, or by a check. */
  found(form: string, at: number): void {
    this.#doubtful.delete(form);
    const known = this.#take(form);
    const { codeId = null, isLive = false } = known ?? {};
    this.#codes.push({ codeId, form, foundAt: at, isLive, isUsed: true, isDenied: false });
  }

  /** A known-valid code was denied. */
  denied(form: string): void {
    const known = this.#take(form);
    if (known !== undefined) this.#codes.push({ ...known, isDenied: true });
  }

  /** It was denied as a proof. */
  doubt(form: string): void {
    this.#doubtful.add(form);
  }

  /** A denied code got its verdict. */
  settle(form: string, verdict: 'invalid' | 'unproven'): void {
    this.#doubtful.delete(form);
    if (verdict === 'invalid') this.#take(form);
  }

  #take(form: string): KnownValid | undefined {
    const place = this.#codes.findIndex((code) => code.form === form);
    return place < 0 ? undefined : this.#codes.splice(place, 1)[0];
  }
}

function byTurn(a: KnownValid, b: KnownValid): number {
  return (
    Number(a.isDenied) - Number(b.isDenied) ||
    Number(a.isUsed) - Number(b.isUsed) ||
    Number(b.isLive) - Number(a.isLive) ||
    a.foundAt - b.foundAt
  );
}
