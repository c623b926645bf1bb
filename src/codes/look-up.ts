import { bindSeller, ensureSeller } from '../catalogue/sellers-store.js';
import type { Db } from '../db/db.js';
import { sameHost } from '../domain/address.js';
import { proveKey } from '../marketplace/prove-key.js';
import { meaningOf } from '../marketplace/reply.js';
import type { CallOptions } from '../marketplace/types.js';
import { askCode, checkOf, type CodeMarket } from './piece.js';
import type { KnownCode } from './known-code.js';
import { StoredLedger } from './ledger-store.js';
import type { CodeResult } from './ledger.js';
import { enterLookUp, readLookUp, type LookedUp } from './look-up-store.js';
import type { UnprovenReason } from './evidence.js';
import { CONFIRM_AFTER_MS } from './rules.js';

export interface LookUpDeps {
  readonly db: Db;
  readonly sellerId: string;
  readonly marketplace: Pick<CodeMarket, 'validate'>;
  readonly account: SellerAccount;
  /** Has the denied codes of an audit confirmed: a worker does it, for all callers together. */
  readonly confirm: (auditId: bigint) => Promise<void>;
  /** Longest time that a caller waits for the marketplace, milliseconds; default 15,000. */
  readonly callMs?: number;
}

/** Calls of a look-up, retries included. */
export interface LookUpCalls {
  /** The look-ups of the day. */
  readonly auditId: bigint;
  readonly own: number;
  /** Of all look-ups of the day, with the second checks of denied codes, in all processes. */
  readonly total: number;
}

/** Why a denied code has no verdict while a problem keeps the worker from checking it again. */
const PAUSED = 'denied once; the second check is paused, and `seller-mirror audits list` says why';

/** Why a code has no verdict while other work uses the budget: the marketplace was never asked. */
const BUSY = 'other work used the request budget, so the marketplace was not asked';
/** When to ask again then, milliseconds. */
const BUSY_MS = 30_000;

/** The answer to a look-up. */
export type LookUp =
  /** `stale`: older than asked for, because the marketplace gave no answer. */
  | { readonly kind: 'known'; readonly known: KnownCode; readonly stale: boolean }
  /** Denied once. A second denial, a minute later, makes it invalid. */
  | { readonly kind: 'pending'; readonly known: KnownCode | null; readonly againAfterS: number }
  | {
      readonly kind: 'unproven';
      readonly reason: UnprovenReason | typeof PAUSED | typeof BUSY;
      readonly retryAt: number | null;
    };

/** Most seconds that an answer may be old. */
export interface MaxAge {
  readonly valid: number;
  readonly invalid: number;
}

const DAY_S = 86_400;
const HOUR_S = 3_600;

/** Codes rarely stop being valid; a code that was typed wrong may be sold tomorrow. */
export const DEFAULT_MAX_AGE: MaxAge = { valid: DAY_S, invalid: HOUR_S };

const CALL_TIMEOUT_MS = 15_000;
/** A worker may be busy when the second denial is due, seconds. */
const SLACK_S = 5;

/**
 * Answers from what is known, if it is young enough. @returns null: the marketplace must be asked
 * @param now milliseconds since 1970
 */
function answerFromStore(
  { known, deniedAt, isPaused, resumeAt }: LookedUp,
  maxAge: MaxAge,
  now: number,
): LookUp | null {
  if (known !== null && isYoung(known, maxAge, now)) return { kind: 'known', known, stale: false };
  if (deniedAt === null) return null;
  if (isPaused) {
    return known === null
      ? { kind: 'unproven', reason: PAUSED, retryAt: resumeAt }
      : { kind: 'known', known, stale: true };
  }
  // The clock may have been set back since.
  const leftMs = Math.min(CONFIRM_AFTER_MS, deniedAt + CONFIRM_AFTER_MS - now);
  return { kind: 'pending', known, againAfterS: Math.max(0, Math.ceil(leftMs / 1000)) + SLACK_S };
}

function isYoung({ verdict, checkedAt }: KnownCode, maxAge: MaxAge, now: number): boolean {
  const seconds = verdict === 'valid' ? maxAge.valid : maxAge.invalid;
  return Math.abs(now - checkedAt) <= seconds * 1000;
}

/** Reads what the store can answer. @returns null: the marketplace must be asked */
export async function lookUpStored(
  db: Db,
  sellerId: string,
  code: string,
  maxAge: MaxAge,
): Promise<{ readonly answer: LookUp | null; readonly known: KnownCode | null }> {
  const found = await readLookUp(db, sellerId, code);
  return { answer: answerFromStore(found, maxAge, Date.now()), known: found.known };
}

/** A proof of the account is good for this long, milliseconds: the key of a running process stays the same. */
const ACCOUNT_PROVEN_MS = 600_000;

/** Why no code may be asked about now. */
interface AccountFault {
  readonly reason: UnprovenReason;
  readonly retryAt: number | null;
}

/** Whether the key opens the seller's own account: with another one, another seller's purchases would be valid. */
export class SellerAccount {
  readonly #db: Db;
  readonly #sellerId: string;
  readonly #market: Pick<CodeMarket, 'account'> & { readonly host: string };
  #provenAt = -Infinity;
  /** The call under way, and the signal of its caller. */
  #proving: {
    readonly fault: Promise<AccountFault | null>;
    readonly signal: AbortSignal | undefined;
  } | null = null;
  /** A request was sent, and no answer came yet. */
  #wasAsked = false;

  constructor(
    db: Db,
    sellerId: string,
    market: Pick<CodeMarket, 'account'> & { readonly host: string },
  ) {
    this.#db = db;
    this.#sellerId = sellerId;
    this.#market = market;
  }

  /**
   * One call, shared by all who ask meanwhile; none while the last proof is young. Binds a seller that has no account.
   * @returns null: codes may be asked about
   * @throws errors of the store; the signal's reason
   */
  async fault(options: CallOptions): Promise<AccountFault | null> {
    if (performance.now() - this.#provenAt < ACCOUNT_PROVEN_MS) return null;
    const shared = this.#proving;
    if (shared === null) {
      const fault = this.#prove(options).finally(() => (this.#proving = null));
      this.#proving = { fault, signal: options.signal };
      return fault;
    }
    try {
      return await shared.fault;
    } catch (error) {
      // The time of whoever made the call may be up, which is no failure for this caller.
      if (shared.signal?.aborted !== true) throw error;
      options.signal?.throwIfAborted();
      return this.fault(options);
    }
  }

  /** Whether the marketplace was asked and did not answer; otherwise a proof only waits for the budget. */
  get wasAsked(): boolean {
    return this.#wasAsked;
  }

  /** The key came into doubt: the next code waits for a new proof. */
  forget(): void {
    this.#provenAt = -Infinity;
  }

  async #prove(options: CallOptions): Promise<AccountFault | null> {
    const { host } = this.#market;
    const bound = await ensureSeller(this.#db, this.#sellerId, host);
    if (bound.username !== null && !sameHost(bound.marketplace, host)) {
      return { reason: 'another-account', retryAt: null };
    }
    const holder = { account: bound.username, nextWitness: () => null };
    const onRequest = () => {
      this.#wasAsked = true;
      return options.onRequest?.() ?? (() => undefined);
    };
    const proof = await proveKey(this.#market, holder, { ...options, onRequest });
    this.#wasAsked = false;
    if (!proof.isGood) {
      const reason = proof.reason === 'witness-denied' ? 'refused' : proof.reason;
      return { reason, retryAt: proof.retryAt };
    }
    if (bound.username === null) {
      const binding = { username: proof.account, marketplace: host };
      await bindSeller(this.#db, this.#sellerId, binding);
    }
    this.#provenAt = proof.beganAt;
    return null;
  }
}

/**
 * Asks the marketplace once about a code, and records the answer. A purchase makes the code valid. A denial decides
 * nothing yet, unless the code was invalid before (`rules.ts`). Without an answer the last verdict is returned, marked
 * as stale.
 * @param onCalls called once the answer is recorded
 * @throws errors of the store
 */
export async function lookUpNow(
  deps: LookUpDeps,
  code: string,
  known: KnownCode | null,
  signal: AbortSignal,
  onCalls?: (calls: LookUpCalls) => void,
): Promise<LookUp> {
  const late = callLimit(signal, deps.callMs ?? CALL_TIMEOUT_MS);
  try {
    return await lookUpWithin(deps, code, known, late.signal, onCalls);
  } finally {
    late.clear();
  }
}

/** A signal that is aborted with another one, or when a caller has waited for long enough. */
function callLimit(
  signal: AbortSignal,
  ms: number,
): { readonly signal: AbortSignal; clear(): void } {
  // A timer, since `AbortSignal.any` does not keep an `AbortSignal.timeout` alive: once collected, it never fires.
  const limit = new AbortController();
  const abort = (): void => limit.abort(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  const timer = setTimeout(() => limit.abort(new Error('no answer in time')), ms);
  return {
    signal: limit.signal,
    clear() {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
    },
  };
}

async function lookUpWithin(
  { db, sellerId, marketplace, account, confirm }: LookUpDeps,
  code: string,
  known: KnownCode | null,
  limit: AbortSignal,
  onCalls?: (calls: LookUpCalls) => void,
): Promise<LookUp> {
  const giveUp = (reason: UnprovenReason | typeof BUSY, retryAt: number | null): LookUp =>
    known === null ? { kind: 'unproven', reason, retryAt } : { kind: 'known', known, stale: true };
  // Other look-ups share the client, so its own count of calls would be theirs, too.
  let own = 0;
  const onRequest = () => {
    own++;
    return () => undefined;
  };
  const options = { signal: limit, priority: 'audit', onRequest } as const;
  const inTime = async <T>(call: Promise<T>): Promise<T | 'late'> =>
    call.catch((error: unknown) => {
      if (!limit.aborted) throw error;
      return 'late' as const;
    });
  const fault = await inTime(account.fault(options));
  if (fault === 'late') {
    return account.wasAsked ? giveUp('unavailable', null) : giveUp(BUSY, Date.now() + BUSY_MS);
  }
  if (fault !== null) return giveUp(fault.reason, fault.retryAt);
  const ownBefore = own;
  const reply = await inTime(askCode(marketplace, code, options));
  if (reply === 'late' && own === ownBefore) return giveUp(BUSY, Date.now() + BUSY_MS);
  // Entered after the call: a worker would ask about a code that waits without a denial.
  const { auditId, position } = await enterLookUp(db, sellerId, code);
  let counted = 0;
  const callCount = (): number => counted;
  const ledger = new StoredLedger(db, { auditId, sellerId, knownValid: null, callCount });
  counted = own;
  const common = { position, code };
  const record = async (result: CodeResult): Promise<void> => {
    await ledger.record([result]);
    onCalls?.({ auditId, own, total: ledger.totalCalls });
  };
  if (reply === 'late') {
    const check = { ...NO_REPLY, at: Date.now() };
    await record({ ...common, check, verdict: 'unproven', reason: 'unavailable' });
    return giveUp('unavailable', null);
  }
  const check = checkOf(code, reply, Date.now());
  switch (check.outcome) {
    case 'found':
      await record({ ...common, check, verdict: 'valid' });
      break;
    case 'denied': {
      const wasInvalid = known !== null && known.verdict !== 'valid';
      await record({ ...common, check, verdict: wasInvalid ? 'invalid' : null });
      if (!wasInvalid) {
        // Without the queue, `watchAudits` finds it within a minute.
        await confirm(auditId).catch(() => undefined);
        return { kind: 'pending', known, againAfterS: CONFIRM_AFTER_MS / 1000 + SLACK_S };
      }
      break;
    }
    case 'unanswered': {
      if (meaningOf(reply).kind === 'doubt') account.forget();
      const reason =
        check.reason === 'answered' || check.reason === 'denied' ? 'unreadable' : check.reason;
      await record({ ...common, check, verdict: 'unproven', reason });
      return giveUp(reason, 'retryAt' in reply ? reply.retryAt : null);
    }
  }
  const { known: now } = await readLookUp(db, sellerId, code);
  return now === null ? giveUp('unreadable', null) : { kind: 'known', known: now, stale: false };
}

/** The evidence of a call that ended without a reply. */
const NO_REPLY = {
  outcome: 'unanswered',
  reason: 'unavailable',
  httpStatus: null,
  message: `no answer within ${CALL_TIMEOUT_MS / 1000} s`,
  answer: null,
  proven: null,
} as const;
