import { bindSeller, ensureSeller } from '../catalogue/sellers-store.js';
import type { Db } from '../db/db.js';
import { sameHost } from '../domain/address.js';
import type { CallOptions, Marketplace } from '../marketplace/types.js';
import type { UnprovenReason } from './evidence.js';
import { afterBad } from './after-proof.js';
import { control } from './first-pass.js';
import { callMarket } from './market-runner.js';
import { lookAtAccount } from './prove.js';
import { KEY_FRESH_MS, WAIT_MS } from './rules.js';
import { FRESH_MEMORY, type Memory } from './situation.js';
import { runRequests, type Runner } from './requests.js';

/** Why no code may be asked about now. */
export interface KeyFault {
  readonly reason: UnprovenReason;
  /** When to try again, milliseconds since 1970; null: unknown. */
  readonly retryAt: number | null;
}

type KeyMarket = Pick<Marketplace, 'account' | 'validate' | 'item' | 'host'>;

/** A proof of this age is renewed while callers go on, milliseconds. */
const RENEW_MS = KEY_FRESH_MS / 2;

/**
 * Whether the key opens the seller's own account, and whether the marketplace denies codes that nobody sold. With another
 * seller's key, or a marketplace that finds everything, whatever is asked would be valid.
 */
export class SellerKey {
  readonly #db: Db;
  readonly #sellerId: string;
  readonly #market: KeyMarket;
  /** By `performance.now()`. */
  #provenAt = -Infinity;
  #findsEverything = false;
  /** The proof under way, and the signal of its caller. */
  #proving: {
    readonly fault: Promise<KeyFault | null>;
    readonly signal: AbortSignal | undefined;
  } | null = null;
  /** A request was sent, and no answer came yet. */
  #wasAsked = false;

  constructor(db: Db, sellerId: string, market: KeyMarket) {
    this.#db = db;
    this.#sellerId = sellerId;
    this.#market = market;
  }

  /**
   * Waits only if the last good proof is older than ten minutes; from half of that on it is renewed in the background. Callers
   * share a proof. Binds a seller that has no account.
   * @param like a code whose shape the negative control has
   * @param lasting ends a renewal in the background
   * @returns null: codes may be asked about
   * @throws errors of the store; the reason of the options' signal
   */
  async fault(like: string, options: CallOptions, lasting: AbortSignal): Promise<KeyFault | null> {
    const ageMs = performance.now() - this.#provenAt;
    if (ageMs >= KEY_FRESH_MS) return this.#shared(like, options);
    if (ageMs >= RENEW_MS && this.#proving === null) {
      void this.#shared(like, { priority: 'audit', signal: lasting }).then(
        (fault) => fault !== null && isAboutKey(fault) && this.forget(),
        () => undefined,
      );
    }
    return this.#verdict();
  }

  /** Whether the marketplace was asked and did not answer; otherwise a proof only waits for the budget. */
  get wasAsked(): boolean {
    return this.#wasAsked;
  }

  /** The key came into doubt: the next code waits for a new proof. */
  forget(): void {
    this.#provenAt = -Infinity;
  }

  #verdict(): KeyFault | null {
    return this.#findsEverything ? { reason: 'finds-everything', retryAt: null } : null;
  }

  async #shared(like: string, options: CallOptions): Promise<KeyFault | null> {
    const shared = this.#proving;
    if (shared === null) {
      const fault = this.#prove(like, options).finally(() => (this.#proving = null));
      this.#proving = { fault, signal: options.signal };
      return fault;
    }
    try {
      return await shared.fault;
    } catch (error) {
      // The time of whoever made the call may be up, which is no failure for this caller.
      if (shared.signal?.aborted !== true) throw error;
      options.signal?.throwIfAborted();
      return this.#shared(like, options);
    }
  }

  async #prove(like: string, options: CallOptions): Promise<KeyFault | null> {
    const { host } = this.#market;
    const bound = await ensureSeller(this.#db, this.#sellerId, host);
    if (bound.username !== null && !sameHost(bound.marketplace, host)) {
      return { reason: 'another-account', retryAt: null };
    }
    const beganAt = performance.now();
    const runner = this.#runner(options);
    const look = await runRequests(lookAtAccount(bound.username), runner);
    this.#wasAsked = false;
    if ('bad' in look) return faultIn(afterBad(FRESH_MEMORY, look.bad, WAIT_MS, false));
    if (bound.username === null) {
      const binding = { username: look.good.account, marketplace: host };
      await bindSeller(this.#db, this.#sellerId, binding);
    }
    const settings = { dice: Math.random, waitMs: WAIT_MS };
    const controlled = await runRequests(control(like, settings, FRESH_MEMORY), runner);
    this.#wasAsked = false;
    if (controlled.hold !== null) return faultIn(controlled);
    this.#findsEverything = controlled.findsEverything;
    this.#provenAt = beganAt;
    return this.#verdict();
  }

  /** Makes requests, and records nothing. */
  #runner(options: CallOptions): Runner {
    const onRequest = () => {
      this.#wasAsked = true;
      return options.onRequest?.() ?? (() => undefined);
    };
    return {
      concurrency: 1,
      ask: (call) => callMarket(this.#db, this.#market, call, { ...options, onRequest }),
      record: () => Promise.resolve(),
    };
  }
}

function isAboutKey({ reason }: KeyFault): boolean {
  return reason !== 'limited' && reason !== 'unavailable' && reason !== 'unreadable';
}

function faultIn({ hold }: Memory): KeyFault {
  const reason = hold?.stop.reason ?? 'unavailable';
  return { reason: reason === 'challenge' ? 'unavailable' : reason, retryAt: hold?.until ?? null };
}
