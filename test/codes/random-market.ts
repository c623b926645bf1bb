import { setImmediate as turn } from 'node:timers/promises';
import type { Account, Purchase } from '../../src/domain/item.js';
import type { Failure, Reply } from '../../src/marketplace/reply.js';
import type { CodeMarket } from '../../src/codes/piece.js';
import type { Sourced } from '../../src/marketplace/types.js';

export type Condition =
  | 'good'
  | 'revoked'
  | 'other-seller'
  /** The key opens the account and finds nothing, as the key of a user who sells nothing; a stale cache does the same. */
  | 'sells-nothing'
  | 'down'
  | 'page'
  | 'swapped'
  /** Revoked, while a cache repeats the account details and what was found before. */
  | 'revoked-behind-cache';

export interface Stretch {
  readonly calls: number;
  readonly condition: Condition;
}

const DENIED: Failure = { kind: 'denied', httpStatus: 404, message: 'Invalid purchase code' };
const REFUSED: Failure = { kind: 'refused', httpStatus: 401, message: 'Invalid request' };

function failed(reason: 'html' | 'server-error'): Failure {
  return { kind: 'unavailable', httpStatus: 500, reason, detail: 'failed', retryAt: null };
}

const MIXED_UP: Failure = {
  kind: 'unreadable',
  httpStatus: 200,
  detail: 'the answer is about a different purchase code than the requested one',
  excerpt: '',
  isAboutAnother: true,
};

/** A marketplace whose calls overtake each other, and whose condition changes with the calls. */
export class RandomMarket implements CodeMarket {
  calls = 0;
  /** Times that each code was asked. */
  readonly asked = new Map<string, number>();
  readonly #stretches: readonly Stretch[];
  readonly #conditions: readonly Condition[];
  readonly #found = new Set<string>();
  /** The call that waits for a partner: whether its code is valid, and how it gets the partner's reply. */
  #swapping: { readonly isValid: boolean; readonly give: (isValid: boolean) => void } | null = null;

  constructor(
    readonly valid: ReadonlySet<string>,
    stretches: readonly Stretch[],
    private readonly dice: () => number,
    /** The share of calls that are denied on a bad machine. */
    private readonly badShare = 0,
  ) {
    this.#stretches = stretches;
    this.#conditions = stretches.flatMap(({ calls, condition }) =>
      Array<Condition>(calls).fill(condition),
    );
  }

  /** A minute passes: a bad stretch is over. */
  pass(): void {
    let end = 0;
    for (const { calls, condition } of this.#stretches) {
      end += calls;
      if (end <= this.calls) continue;
      if (condition !== 'good') this.calls = end;
      return;
    }
  }

  async account(): Promise<Reply<Sourced<Account>>> {
    const condition = await this.#reach();
    if (condition === 'revoked') return REFUSED;
    const failure = failureIn(condition);
    if (failure !== null) return failure;
    return answer({ username: condition === 'other-seller' ? 'eve' : 'ada' } as Account);
  }

  async validate(code: string): Promise<Reply<Sourced<Purchase>>> {
    this.asked.set(code, (this.asked.get(code) ?? 0) + 1);
    const condition = await this.#reach();
    const failure = failureIn(condition);
    if (failure !== null) return failure;
    if (condition === 'revoked-behind-cache') {
      return this.#found.has(code) ? purchase(code) : DENIED;
    }
    const isValid = this.valid.has(code);
    if (condition === 'swapped') return this.#swap(code, isValid);
    if (condition !== 'good' || !isValid || this.dice() < this.badShare) return DENIED;
    this.#found.add(code);
    return purchase(code);
  }

  /** Gives two calls each other's reply. A call that is alone gets its own. */
  async #swap(code: string, isValid: boolean): Promise<Reply<Sourced<Purchase>>> {
    const other = this.#swapping;
    if (other === null) {
      let partner: boolean | null = null;
      this.#swapping = { isValid, give: (is) => (partner = is) };
      const isTaken = (): boolean | null => partner;
      for (let turns = 0; turns < 3 && isTaken() === null; turns++) await turn();
      if (isTaken() === null) {
        this.#swapping = null;
        return isValid ? purchase(code) : DENIED;
      }
      return isTaken() === true ? MIXED_UP : DENIED;
    }
    this.#swapping = null;
    other.give(isValid);
    return other.isValid ? MIXED_UP : DENIED;
  }

  async #reach(): Promise<Condition> {
    for (let left = Math.floor(this.dice() * 4); left > 0; left--) await turn();
    const condition = this.#conditions[this.calls++] ?? 'good';
    for (let left = Math.floor(this.dice() * 4); left > 0; left--) await turn();
    return condition;
  }
}

function failureIn(condition: Condition): Failure | null {
  if (condition === 'page') return failed('html');
  return condition === 'down' ? failed('server-error') : null;
}

function answer<T>(value: T): Reply<Sourced<T>> {
  const data = { value, raw: {}, extra: {}, tolerated: [], text: '' };
  return { kind: 'answered', httpStatus: 200, data: data as unknown as Sourced<T> };
}

function purchase(code: string): Reply<Sourced<Purchase>> {
  return answer<Purchase>({
    purchaseCode: code,
    licenseType: 'Regular',
    price: '19.90',
    currency: 'USD',
    item: { id: 7, name: 'Item 7', url: null, previewImageUrl: null, full: null },
    supportedUntil: null,
    downloaded: false,
    purchasedAt: '2025-12-01T00:00:00Z',
  });
}
