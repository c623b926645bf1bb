/**
 * Answers one code for a caller who waits: from the store if that is young enough, else by one question to the marketplace.
 * A denial decides nothing: the code joins the look-ups of the day, a check like any other, and its second check is shared
 * by all who wait.
 */

import type { Db } from '../db/db.js';
import type { CallOptions } from '../marketplace/types.js';
import { formsOf } from '../marketplace/code.js';
import { meaningOf, retryTimeOf } from '../marketplace/reply.js';
import type { UnprovenReason } from './evidence.js';
import { evidenceOf, NO_CHANCE, NOTHING } from './judging.js';
import type { KnownCode } from './known-code.js';
import { Ledger } from './ledger-store.js';
import { enterLookUp, readLookUp, type LookedUp } from './look-up-store.js';
import { askForm } from './market-runner.js';
import type { CodeResult } from './results.js';
import { LOOK_UPS_GATHER_MS } from './rules.js';
import type { KeyFault, SellerKey } from './seller-key.js';
import { readCatalogue } from './situation-store.js';
import type { CodeReply } from './requests.js';

export interface LookUpDeps {
  readonly db: Db;
  readonly sellerId: string;
  readonly marketplace: Parameters<typeof askForm>[0];
  readonly key: SellerKey;
  /** Has the denied codes of an audit checked again: a worker does it, for all callers together. */
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
  /**
   * `stale`: older than asked for, because the marketplace gave no answer, or because a denial is being checked again;
   * `againAfterS`: when that is done, if it is known.
   */
  | {
      readonly kind: 'known';
      readonly known: KnownCode;
      readonly stale: boolean;
      readonly againAfterS: number | null;
    }
  /** Denied, and never proven before. The second check decides. */
  | { readonly kind: 'pending'; readonly againAfterS: number }
  | {
      readonly kind: 'unproven';
      readonly reason: UnprovenReason | typeof PAUSED | typeof BUSY;
      readonly retryAt: number | null;
    };

/** More sellers than this are not asked one after another about a code. */
export const MOST_SELLERS = 20;

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
/** A worker may be busy when the second check is due, seconds. */
const SLACK_S = 5;

/**
 * Answers from what is known, if it is young enough, or if a denial is being checked again. @returns null: the marketplace
 * must be asked
 * @param now milliseconds since 1970
 */
function answerFromStore(
  { known, waiting, problem, resumeAt }: LookedUp,
  maxAge: MaxAge,
  now: number,
): LookUp | null {
  if (known !== null && isYoung(known, maxAge, now)) return fresh(known);
  if (waiting === null) return null;
  const { askedAt, waitMs } = waiting;
  const leftMs = Math.min(waitMs, askedAt + waitMs - now) + LOOK_UPS_GATHER_MS;
  const againAfterS = Math.max(0, Math.ceil(leftMs / 1000)) + SLACK_S;
  if (known !== null) {
    return {
      kind: 'known',
      known,
      stale: true,
      againAfterS: problem === null ? againAfterS : null,
    };
  }
  return problem === null
    ? { kind: 'pending', againAfterS }
    : { kind: 'unproven', reason: PAUSED, retryAt: resumeAt };
}

function fresh(known: KnownCode): LookUp {
  return { kind: 'known', known, stale: false, againAfterS: null };
}

function isYoung({ verdict, checkedAt }: KnownCode, maxAge: MaxAge, now: number): boolean {
  const seconds = verdict === 'valid' ? maxAge.valid : maxAge.invalid;
  return Math.abs(now - checkedAt) <= seconds * 1000;
}

/** Reads what the store can answer. `answer` null: the marketplace must be asked. */
export async function lookUpStored(
  db: Db,
  sellerId: string,
  code: string,
  maxAge: MaxAge,
): Promise<{ readonly answer: LookUp | null; readonly stored: LookedUp }> {
  const stored = await readLookUp(db, sellerId, code);
  return { answer: answerFromStore(stored, maxAge, db.clock.now()), stored };
}

/**
 * Asks the marketplace about a code, and records the answer. A purchase makes the code valid. Without an answer the last
 * verdict is returned, marked as stale.
 * @param onCalls called once the answer is recorded
 * @param onDenied if given, a denial is not recorded, but handed over: another seller may have sold the code
 * @throws errors of the store
 */
export async function lookUpNow(
  deps: LookUpDeps,
  code: string,
  stored: LookedUp,
  signal: AbortSignal,
  onCalls?: (calls: LookUpCalls) => void,
  onDenied?: (record: () => Promise<LookUp>) => void,
): Promise<LookUp> {
  const late = callLimit(signal, deps.callMs ?? CALL_TIMEOUT_MS);
  const signals = { signal, limit: late.signal };
  try {
    return await new LookingUp(deps, code, stored, signals, onCalls).run(onDenied);
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

/** What the marketplace said about a code, and in which form it was asked last. */
interface Asked {
  readonly reply: CodeReply;
  readonly form: string;
}

class LookingUp {
  readonly #deps: LookUpDeps;
  readonly #code: string;
  readonly #stored: LookedUp;
  readonly #limit: AbortSignal;
  readonly #signal: AbortSignal;
  readonly #onCalls: ((calls: LookUpCalls) => void) | undefined;
  /** Other look-ups share the client, so its own count of calls would be theirs, too. */
  #own = 0;

  constructor(
    deps: LookUpDeps,
    code: string,
    stored: LookedUp,
    { signal, limit }: { readonly signal: AbortSignal; readonly limit: AbortSignal },
    onCalls: ((calls: LookUpCalls) => void) | undefined,
  ) {
    this.#deps = deps;
    this.#code = code;
    this.#stored = stored;
    this.#signal = signal;
    this.#limit = limit;
    this.#onCalls = onCalls;
  }

  async run(onDenied?: (record: () => Promise<LookUp>) => void): Promise<LookUp> {
    const { db, sellerId, key } = this.#deps;
    // A worker that met a bad key knows more than a proof of ten minutes ago.
    if (this.#stored.problem !== null) key.forget();
    const fault = await this.#inTime(key.fault(this.#code, this.#options, this.#signal));
    if (fault === 'late') return key.wasAsked ? this.#giveUp('unavailable', null) : this.#busy();
    if (fault !== null) return this.#giveUp(fault.reason, fault.retryAt);
    const before = this.#own;
    const asked = await this.#inTime(this.#ask());
    if (asked === 'late') {
      if (this.#own === before) return this.#busy();
      await this.#record({ ...NO_RESULT, check: { ...NO_REPLY, at: db.clock.now() } });
      return this.#giveUp('unavailable', null);
    }
    const { reply, form } = asked;
    const check = evidenceOf(reply, db.clock.now());
    const { reason } = check;
    if (reason !== 'answered' && reason !== 'denied') {
      if (meaningOf(reply).kind === 'doubt') key.forget();
      await this.#record({ ...NO_RESULT, check, reason });
      return this.#giveUp(reason, retryTimeOf(reply));
    }
    if (reason === 'denied') {
      const record = (): Promise<LookUp> => this.#recordDenial({ ...NO_RESULT, check, form });
      if (onDenied === undefined) return record();
      onDenied(record);
      return this.#giveUp('unconfirmed', null);
    }
    const another = await this.#inTime(this.#faultOf(reply));
    if (another === 'late') return this.#giveUp('unavailable', null);
    if (another !== null) return this.#giveUp(another.reason, another.retryAt);
    const chance = { calls: 1, denied: 0 };
    await this.#record({ ...NO_RESULT, check, form, verdict: 'valid', reason: null, chance });
    const { known } = await readLookUp(db, sellerId, this.#code);
    return known === null ? this.#giveUp('unreadable', null) : fresh(known);
  }

  get #options(): CallOptions {
    const onRequest = () => {
      this.#own++;
      return () => undefined;
    };
    return { signal: this.#limit, priority: 'audit', onRequest };
  }

  /** Asks for the code in each of its forms, until one is found. Denied means: each was denied. */
  async #ask(): Promise<Asked> {
    const { foundForm } = this.#stored;
    const [first, ...others] = formsOf(this.#code);
    const forms = new Set([foundForm ?? first, first, ...others]);
    let asked: Asked | null = null;
    for (const form of forms) {
      const reply = await askForm(this.#deps.marketplace, form, this.#options);
      asked = { reply, form };
      if (reply.kind !== 'denied') return asked;
    }
    return asked as Asked;
  }

  /** A purchase of an item that the catalogue never had may be another seller's: then the account is looked at again. */
  async #faultOf(reply: CodeReply): Promise<KeyFault | null> {
    const { db, sellerId, key } = this.#deps;
    const item = reply.kind === 'answered' ? (reply.data.value.item?.id ?? null) : null;
    if (item === null) return null;
    const catalogue = await readCatalogue(db, sellerId);
    if (catalogue.size === 0 || catalogue.has(item)) return null;
    key.forget();
    return key.fault(this.#code, this.#options, this.#signal);
  }

  async #recordDenial(result: Omit<CodeResult, 'of'>): Promise<LookUp> {
    const { db, sellerId, confirm } = this.#deps;
    const auditId = await this.#record({ ...result, verdict: null, reason: null });
    // Without the queue, `watchAudits` finds it within a minute.
    await confirm(auditId).catch(() => undefined);
    const { answer } = await lookUpStored(db, sellerId, this.#code, { valid: -1, invalid: -1 });
    return answer ?? this.#giveUp('unconfirmed', null);
  }

  /** Enters the code after the call: a worker would ask about a code that waits without a denial. */
  async #record(result: Omit<CodeResult, 'of'>): Promise<bigint> {
    const { db, sellerId } = this.#deps;
    const { auditId, position } = await enterLookUp(db, sellerId, this.#code);
    let counted = 0;
    const ledger = new Ledger(db, { auditId, sellerId, callCount: () => counted });
    counted = this.#own;
    await ledger.record([{ of: { position }, ...result }]);
    this.#onCalls?.({ auditId, own: this.#own, total: ledger.totalCalls });
    return auditId;
  }

  #busy(): LookUp {
    return this.#giveUp(BUSY, this.#deps.db.clock.now() + BUSY_MS);
  }

  #giveUp(reason: UnprovenReason | typeof BUSY, retryAt: number | null): LookUp {
    const { known } = this.#stored;
    return known === null
      ? { kind: 'unproven', reason, retryAt }
      : { kind: 'known', known, stale: true, againAfterS: null };
  }

  async #inTime<T>(call: Promise<T>): Promise<T | 'late'> {
    return call.catch((error: unknown) => {
      if (!this.#limit.aborted) throw error;
      return 'late' as const;
    });
  }
}

const NO_RESULT = {
  form: null,
  verdict: 'unproven',
  reason: 'unavailable',
  adds: { ...NOTHING, attempts: 0 },
  chance: NO_CHANCE,
} as const satisfies Omit<CodeResult, 'of' | 'check'>;

/** The evidence of a call that ended without a reply. */
const NO_REPLY = {
  reason: 'unavailable',
  httpStatus: null,
  message: `no answer within ${CALL_TIMEOUT_MS / 1000} s`,
  answer: null,
  proven: null,
} as const;
