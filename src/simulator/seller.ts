import type { Catalogue } from './catalogue.js';
import { SeededRandom, Permutation, hash32 } from './random.js';
import { seconds } from './seeded.js';
import type { PurchaseState, SimAccount, SimItem, SimPurchase } from './types.js';

/** An explicit purchase. Missing fields are derived from the item. */
type PurchaseSpec = Partial<SimPurchase> & Pick<SimPurchase, 'code' | 'itemId'>;

interface SeededPurchases {
  readonly seed: number;
  readonly count: number;
  /** 37 hex characters (default) or a UUID (servers: requests). */
  readonly format?: 'hex' | 'uuid';
}

const CODE_SPACE = 2 ** 32;
const DAY_MS = 86_400_000;

/**
 * A seller's purchases, with methods to change them. The code of a seeded purchase contains its number in permuted
 * form, so millions of them need no memory.
 */
export class Purchases {
  readonly #seeded: SeededPurchases;
  readonly #order: Permutation;
  readonly #explicit = new Map<string, PurchaseSpec>();
  readonly #changes = new Map<string, Partial<SimPurchase>>();

  constructor(seeded: SeededPurchases, explicit: readonly PurchaseSpec[] = []) {
    this.#seeded = seeded;
    this.#order = new Permutation(CODE_SPACE, seeded.seed);
    for (const spec of explicit) this.add(spec);
  }

  get size(): number {
    return this.#seeded.count + this.#explicit.size;
  }

  /** The code of the seeded purchase with this number (0 … count-1). */
  codeAt(index: number): string {
    const { seed, format = 'hex' } = this.#seeded;
    let code = hex(this.#order.at(index));
    for (let part = 1; part <= 4; part++) code += hex(hash32(seed, index, part));
    if (format === 'hex') return code.slice(0, 37);
    return [0, 8, 12, 16, 20].map((from, n) => code.slice(from, [8, 12, 16, 20, 32][n])).join('-');
  }

  *codes(): Generator<string> {
    for (let index = 0; index < this.#seeded.count; index++) yield this.codeAt(index);
    for (const spec of this.#explicit.values()) yield spec.code;
  }

  /** The purchase with this code in any letter case, whatever its state; null if there is none. */
  find(code: string, catalogue: Catalogue): SimPurchase | null {
    const key = code.toLowerCase();
    const spec = this.#explicit.get(key);
    const purchase =
      spec === undefined ? this.#findSeeded(key, catalogue) : complete(spec, catalogue);
    return purchase === null ? null : { ...purchase, ...this.#changes.get(key) };
  }

  /** Adds a purchase, or replaces the explicit one with the same code. */
  add(spec: PurchaseSpec): void {
    this.#explicit.set(spec.code.toLowerCase(), spec);
  }

  change(code: string, fields: Partial<SimPurchase>): void {
    const key = code.toLowerCase();
    this.#changes.set(key, { ...this.#changes.get(key), ...fields });
  }

  /** The code of a refunded or cancelled purchase is denied like an unknown one (servers: errors). */
  setState(code: string, state: PurchaseState): void {
    this.change(code, { state });
  }

  #findSeeded(key: string, catalogue: Catalogue): SimPurchase | null {
    const position = Number.parseInt(key.slice(0, 8), 16);
    if (Number.isNaN(position) || catalogue.initialSize === 0) return null;
    const index = this.#order.invert(position);
    if (index >= this.#seeded.count || this.codeAt(index) !== key) return null;
    const random = new SeededRandom(this.#seeded.seed, index);
    const item = catalogue.original(random.below(catalogue.initialSize));
    const bought = Date.UTC(2024, 0, 1) + random.below(900) * DAY_MS + random.below(86_400) * 1000;
    const license = random.below(5) === 0 ? 'Extended' : 'Regular';
    return {
      ...defaults(item, license),
      code: key,
      supportedUntil: random.below(3) === 0 ? null : seconds(bought + 180 * DAY_MS),
      downloaded: random.below(2) === 0,
      date: seconds(bought),
    };
  }
}

export function seededPurchases(options: SeededPurchases): Purchases {
  return new Purchases(options);
}

function complete(spec: PurchaseSpec, catalogue: Catalogue): SimPurchase | null {
  const slot = catalogue.slotOf(spec.itemId);
  if (slot < 0) return null;
  return { ...defaults(catalogue.original(slot), spec.license ?? 'Regular'), ...spec };
}

/** Fields derived from the original item: later price changes don't affect an old purchase. */
function defaults(item: SimItem, license: SimPurchase['license']): Omit<SimPurchase, 'code'> {
  const price = license === 'Regular' ? item.priceRegularCents : item.priceExtendedCents;
  return {
    itemId: item.id,
    license,
    priceCents: price ?? 0,
    currency: item.currency,
    supportedUntil: '2027-01-31T00:00:00Z',
    downloaded: false,
    date: '2026-08-04T09:30:00Z',
    state: 'valid',
  };
}

function hex(value: number): string {
  return value.toString(16).padStart(8, '0');
}

export interface SellerSpec {
  readonly key: string;
  readonly username: string;
  readonly account?: Partial<SimAccount>;
  readonly catalogue: Catalogue;
  readonly purchases?: Purchases | readonly PurchaseSpec[];
  /** False for a user who sells nothing: the key works for account details only (servers: errors). */
  readonly sells?: boolean;
}

/** A seller of the simulated marketplace. Its fields may be changed at any time. */
export interface Seller {
  readonly key: string;
  readonly username: string;
  account: SimAccount;
  catalogue: Catalogue;
  purchases: Purchases;
  sells: boolean;
}

export function sellerOf({ key, username, catalogue, sells = true, ...spec }: SellerSpec): Seller {
  const account = { ...defaultAccount(username), ...spec.account, username };
  const purchases =
    spec.purchases instanceof Purchases
      ? spec.purchases
      : new Purchases({ seed: 0, count: 0 }, spec.purchases);
  return { key, username, account, catalogue, purchases, sells };
}

function defaultAccount(username: string): SimAccount {
  return {
    username,
    firstname: 'Ada',
    lastname: 'Seller',
    email: `${username}@mail.example`,
    balanceCents: 123_450,
    currency: 'USD',
    heading: 'Scripts and themes since 2016',
    description: '<p>We make things that work &amp; keep working.</p>',
    contactEmail: `help@${username}.example`,
    socialLinks: {
      facebook: `https://www.facebook.com/${username}`,
      x: `https://x.com/${username}`,
    },
    avatar: `https://storage.marketplace.example/avatars/${username}.png`,
    cover: `https://storage.marketplace.example/covers/${username}.jpg`,
    registeredAt: '2016-03-04T05:06:07Z',
  };
}
