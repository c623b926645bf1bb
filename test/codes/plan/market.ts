import type { Purchase } from '../../../src/domain/item.js';
import type { Failure } from '../../../src/marketplace/reply.js';
import { foundPurchase } from '../../../src/codes/known-code.js';
import type { Answer, CodeReply } from '../../../src/codes/market.js';

/** A call as it arrives. */
export type Call =
  | { readonly kind: 'account' }
  | { readonly kind: 'validate'; readonly form: string; readonly onNewConnection: boolean }
  | { readonly kind: 'item'; readonly id: number };

export type Condition =
  | 'good'
  /** Account details are refused, everything else is denied. */
  | 'revoked'
  /** The key of another seller, who sold other codes. */
  | 'other-seller'
  /** The key opens the account and finds nothing: a user who sells nothing, or a stretch of false denials. */
  | 'sells-nothing'
  | 'down'
  | 'page'
  /** Two calls that are under way at a time get each other’s replies. */
  | 'swapped';

export interface Stretch {
  readonly calls: number;
  readonly condition: Condition;
}

export interface MarketOptions {
  readonly valid: ReadonlySet<string>;
  readonly others?: ReadonlySet<string>;
  readonly items?: readonly number[];
  /** After the last one, the market is good; unless `last` says so. */
  readonly stretches?: readonly Stretch[];
  readonly last?: Condition;
  /** The share of validations that are denied, whatever the code. */
  readonly deniedShare?: number;
  /** Machines behind the address. The first one denies all; a connection stays with its machine. */
  readonly machines?: number;
  /** Account details are always those of the seller, as from a cache. */
  readonly accountCached?: boolean;
  /**
   * A cache in front. `by-address`: it compares addresses, so the random parameter passes it. `says-so`: it ignores the
   * parameter, and tells that it answered.
   */
  readonly cache?: 'by-address' | 'says-so';
  readonly findsEverything?: boolean;
  /** Codes whose answer can never be read. */
  readonly unreadable?: readonly string[];
  /** The server takes so many calls, then asks for a pause of ten minutes. */
  readonly callsPerPause?: number;
  /** What an unknown code gets: a denial, or a success without a purchase. */
  readonly emptyPurchases?: boolean;
  readonly dice: () => number;
}

const DENIED: Failure = { kind: 'denied', httpStatus: 404, message: 'Invalid purchase code' };
const REFUSED: Failure = { kind: 'refused', httpStatus: 401, message: 'Invalid request' };
const EMPTY: Failure = {
  kind: 'unreadable',
  httpStatus: 200,
  detail: 'the purchase is empty',
  excerpt: '',
};
const MIXED_UP: Failure = { ...EMPTY, detail: 'about another code', isAboutAnother: true };

function failed(reason: 'html' | 'server-error' | 'cache'): Failure {
  const failure = { kind: 'unavailable', httpStatus: 200, reason, detail: reason, retryAt: null };
  return failure as Failure;
}

/** A call that is under way: its reply may still be swapped. */
export interface UnderWay {
  readonly call: Call;
  readonly sentAt: number;
  readonly at: number;
  reply: unknown;
  readonly connection: Connection;
  /** A cache answered in place of the market. */
  isCached: boolean;
}

/** A connection and the machine behind it, which may deny all. */
export interface Connection {
  readonly isBad: boolean;
  isBusy: boolean;
  usedAt: number;
}

/** A connection that was idle for so long is closed. */
const KEEP_ALIVE_MS = 4_000;

export class Market {
  /** Calls that reached the market; a stretch of conditions counts them. */
  calls = 0;
  readonly #options: MarketOptions;
  #pool: Connection[] = [];
  #swapping: UnderWay | null = null;
  #pausedUntil = 0;
  /** Calls before the next pause. */
  #left: number;
  readonly #cache = new Map<string, unknown>();

  constructor(options: MarketOptions) {
    this.#options = options;
    this.#left = options.callsPerPause ?? Infinity;
  }

  /** A minute passes: a bad stretch is mostly over. */
  pass(): void {
    const { stretches = [], dice } = this.#options;
    if (dice() < 0.3) return;
    let end = 0;
    for (const { calls, condition } of stretches) {
      end += calls;
      if (end <= this.calls) continue;
      if (condition !== 'good') this.calls = end;
      return;
    }
  }

  /**
   * Takes a call, whose answer is ready at `at`.
   * @param connection over which it came @param parameter the random one of its address
   */
  send(
    call: Call,
    sentAt: number,
    at: number,
    connection = this.#connect(call, sentAt),
    parameter = String(this.calls),
  ): UnderWay {
    const underWay: UnderWay = { call, sentAt, at, reply: null, connection, isCached: false };
    underWay.reply = this.#reply(underWay, parameter);
    return underWay;
  }

  end(underWay: UnderWay): Answer {
    const { sentAt, at, connection, isCached } = underWay;
    connection.isBusy = false;
    connection.usedAt = at;
    if (this.#swapping === underWay) this.#swapping = null;
    const isTold = isCached && this.#options.cache === 'says-so';
    const reply = isTold ? failed('cache') : underWay.reply;
    return { sentAt, at, reply } as Answer;
  }

  /** A new connection, to one of the machines. */
  open(at: number): Connection {
    const { machines = 1, dice } = this.#options;
    return { isBad: machines > 1 && dice() < 1 / machines, isBusy: true, usedAt: at };
  }

  #connect(call: Call, at: number): Connection {
    if (call.kind === 'validate' && call.onNewConnection) return this.open(at);
    this.#pool = this.#pool.filter(({ isBusy, usedAt }) => isBusy || at - usedAt < KEEP_ALIVE_MS);
    const idle = this.#pool.find(({ isBusy }) => !isBusy);
    if (idle !== undefined) {
      idle.isBusy = true;
      return idle;
    }
    const fresh = this.open(at);
    this.#pool.push(fresh);
    return fresh;
  }

  #reply(underWay: UnderWay, parameter: string): unknown {
    const { call, sentAt } = underWay;
    const { cache, callsPerPause = Infinity } = this.#options;
    if (this.#left === 0) {
      this.#left = callsPerPause;
      this.#pausedUntil = sentAt + 600_000;
    }
    if (this.#pausedUntil > sentAt) {
      return { kind: 'limited', httpStatus: 429, retryAt: this.#pausedUntil };
    }
    this.#left--;
    // The random parameter makes each address another one.
    const key = `${call.kind} ${formOf(call)} ${cache === 'by-address' ? parameter : ''}`;
    const condition = this.#condition();
    this.calls++;
    if (cache !== undefined && this.#cache.has(key)) {
      underWay.isCached = true;
      return this.#cache.get(key);
    }
    const reply = this.#answer(underWay, condition);
    if (cache !== undefined && (reply as { kind: string }).kind === 'answered') {
      this.#cache.set(key, reply);
    }
    return reply;
  }

  #condition(): Condition {
    const { stretches = [], last = 'good' } = this.#options;
    let end = 0;
    for (const { calls, condition } of stretches) {
      end += calls;
      if (end > this.calls) return condition;
    }
    return last;
  }

  #answer(underWay: UnderWay, condition: Condition): unknown {
    const { call, connection } = underWay;
    const { accountCached = false, items = [] } = this.#options;
    if (call.kind === 'account' && accountCached) return account('ada');
    if (condition === 'page') return failed('html');
    if (condition === 'down') return failed('server-error');
    if (call.kind === 'account') {
      if (condition === 'revoked') return REFUSED;
      return account(condition === 'other-seller' ? 'eve' : 'ada');
    }
    if (connection.isBad) return DENIED;
    const isGood = condition === 'good' || condition === 'swapped';
    if (call.kind === 'item') return isGood && items.includes(call.id) ? item(call.id) : DENIED;
    const reply = this.#validate(call.form, condition, isGood);
    return condition === 'swapped' ? this.#swap(underWay, reply) : reply;
  }

  #validate(form: string, condition: Condition, isGood: boolean): CodeReply {
    const {
      valid,
      others,
      deniedShare = 0,
      findsEverything,
      emptyPurchases,
      unreadable,
      dice,
    } = this.#options;
    if (condition === 'other-seller')
      return others?.has(form) === true ? purchase(form, 99) : DENIED;
    if (!isGood) return emptyPurchases === true ? EMPTY : DENIED;
    if (unreadable?.includes(form) === true) return EMPTY;
    if (findsEverything === true) return purchase(form);
    if (valid.has(form) && dice() >= deniedShare) return purchase(form);
    return emptyPurchases === true && dice() < 0.5 ? EMPTY : DENIED;
  }

  /** Gives two calls each other's reply. A call that is alone gets its own. */
  #swap(underWay: UnderWay, own: CodeReply): CodeReply {
    const other = this.#swapping;
    if (other === null || other.at < underWay.sentAt) {
      this.#swapping = underWay;
      return own;
    }
    this.#swapping = null;
    const theirs = other.reply as CodeReply;
    other.reply = own.kind === 'answered' ? MIXED_UP : own;
    return theirs.kind === 'answered' ? MIXED_UP : theirs;
  }
}

function formOf(call: Call): string {
  if (call.kind === 'account') return '';
  return call.kind === 'item' ? String(call.id) : call.form;
}

function account(username: string): unknown {
  return { kind: 'answered', httpStatus: 200, data: { value: { username } } };
}

function item(id: number): unknown {
  return { kind: 'answered', httpStatus: 200, data: { value: { id } } };
}

function purchase(code: string, id = 7): CodeReply {
  const value: Purchase = {
    purchaseCode: code,
    licenseType: 'Regular',
    price: '19.90',
    currency: 'USD',
    item: { id, name: `Item ${id}`, url: null, previewImageUrl: null, full: null },
    supportedUntil: null,
    downloaded: false,
    purchasedAt: '2025-12-01T00:00:00Z',
  };
  const data = foundPurchase({ value, raw: {}, sha256: '' });
  return { kind: 'answered', httpStatus: 200, data };
}
