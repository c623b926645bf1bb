import { setTimeout as sleep } from 'node:timers/promises';
import type { BadProof, GoodProof, KeyHolder } from '../marketplace/prove-key.js';
import { MAX_WINDOW_CHECKS } from '../marketplace/proven-window.js';
import { type Reply, meaningOf, retryTimeOf, messageOf } from '../marketplace/reply.js';
import type { CallOptions, Marketplace, Sourced } from '../marketplace/types.js';
import { Canaries } from './canaries.js';
import type {
  CodeResult,
  DeniedCode,
  Ledger,
  OpenCode,
  CodeCheck,
  ProvenBetween,
} from './ledger.js';
import type { UnprovenReason } from './evidence.js';
import { MAX_ATTEMPTS, pauseBeforeConfirm } from './rules.js';
import { formsOf } from '../marketplace/code.js';
import type { Purchase } from '../domain/item.js';

export interface Work {
  readonly market: CodeMarket;
  readonly ledger: Ledger;
  readonly memory: WorkMemory;
  /** User name of the seller's account; null: that of the first account details. */
  readonly account: string | null;
  /** Calls under way at a time. */
  readonly concurrency: number;
  /** Milliseconds that the budget puts between two calls; 0: unlimited. */
  readonly spacingMs: number;
  /** From a denial to the check that confirms it, milliseconds. */
  readonly confirmAfterMs: number;
  /** Codes read and recorded at a time, at most; default 500, without a budget 4,000. */
  readonly batch?: number;
  /** From a bad proof of the key to the second one, milliseconds; default 2,000. */
  readonly proveAgainAfterMs?: number;
  /** Somebody waits: prove no key before the first code, and try no code again that got no answer. */
  readonly isBrief?: boolean;
  /** Codes are added meanwhile, so a full window may never be due: see `confirm`. */
  readonly isGrowing?: boolean;
  /** Ends the work at once. */
  readonly signal: AbortSignal;
  /** Ends the work in order: answers that came are proven and recorded. */
  readonly closing?: AbortSignal | undefined;
}

/** Why work has to pause or to stop. */
export interface Stop {
  readonly reason: UnprovenReason | 'challenge';
  /** When the server takes requests again, milliseconds since 1970; null if it did not say. */
  readonly notBefore: number | null;
  /** The server's or the client's words, redacted. */
  readonly detail: string | null;
}

/** How a piece of work ended. */
export type PieceEnd =
  /** Every code has a verdict, or was given up. */
  | { readonly kind: 'done' }
  | { readonly kind: 'more' }
  /** Nothing is due yet: codes were just denied. */
  | { readonly kind: 'wait'; readonly delayMs: number; readonly until: 'confirm' }
  /** Nothing is due yet: so many codes got no answer that counts, the last one for this reason. */
  | {
      readonly kind: 'wait';
      readonly delayMs: number;
      readonly until: 'retry';
      readonly codes: number;
      readonly reason: UnprovenReason | null;
    }
  /** An outage or a limit: go on later. */
  | { readonly kind: 'pause'; readonly stop: Stop; readonly delayMs: number }
  /** The key was bad twice: a person must act. */
  | { readonly kind: 'blocked'; readonly stop: Stop }
  /** Ended by `closing`. */
  | { readonly kind: 'closed' };

/** What a process remembers of a list between two pieces of work. Without it, work goes on, only slower. */
export class WorkMemory {
  readonly canaries = new Canaries();
  /** Purchases found since account details last showed the seller's account; not recorded yet. */
  readonly found: CodeResult[] = [];
  hasKnownValid = false;
  /** User name of the account that the key opened. */
  account: string | null = null;
  /** The sweep has passed this position. */
  after = -1;
  /** Times that the list was gone through. */
  passes = 0;
  /** When codes without an answer are tried again, by `performance.now()`. */
  retryAt = 0;
  /** Why the last such code has no answer. */
  unanswered: UnprovenReason | null = null;
  /** Replies of two calls were swapped, so only one call is made at a time. */
  isSerial = false;
  /** Most checks in a window. It shrinks when windows take too long. */
  windowChecks = MAX_WINDOW_CHECKS;
  opening: GoodProof | null = null;
  /** Windows in a row whose proof was bad. */
  badProofs = 0;
  /** Times that every code known to be valid was denied. */
  lostCanaries = 0;
  /** When each denial was first seen here, by position: `at` by `performance.now()`. */
  readonly #seen = new Map<number, { readonly deniedAt: number; readonly at: number }>();

  /**
   * Milliseconds until a denied code may be checked again. The clock of the machine may be set back: the wait is never
   * longer than if the denial had just come.
   * @param confirmAfterMs from the denial of the sweep to the check that confirms it
   */
  waitFor({ position, counted, deniedAt }: DeniedCode, confirmAfterMs: number): number {
    const pauseMs = pauseBeforeConfirm(confirmAfterMs, counted);
    // Of this very denial: look-ups add denials all the time.
    if (this.#seen.get(position)?.deniedAt !== deniedAt) {
      this.#seen.set(position, { deniedAt, at: performance.now() });
    }
    const since = performance.now() - (this.#seen.get(position)?.at ?? 0);
    const now = Date.now();
    const byClock = deniedAt > now ? pauseMs : deniedAt + pauseMs - now;
    return Math.max(0, Math.min(byClock, pauseMs - since));
  }

  /**
   * The proof after the last window, if it may serve before a window of these codes: it began after their denials were
   * seen, so that the key was tested between any two denials of a code; and if a valid code is known, it found one.
   */
  openingFor(codes: readonly DeniedCode[]): GoodProof | null {
    const { opening } = this;
    if (opening === null || (opening.by === 'account' && !this.canaries.isEmpty)) return null;
    const seenAt = codes.map(({ position }) => this.#seen.get(position)?.at ?? Infinity);
    return seenAt.every((at) => at <= opening.beganAt) ? opening : null;
  }
}

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
/** A bad key is proven again after this time, in case it was a moment's fault. */
const PROVE_AGAIN_AFTER_MS = 2 * SECOND_MS;
const AFTER_LIMIT_MS = MINUTE_MS;
const AFTER_CHALLENGE_MS = 10 * MINUTE_MS;
/** After an outage that let some answers through, and after one that did not. */
const AFTER_BREAK_MS = 15 * SECOND_MS;
const AFTER_OUTAGE_MS = 3 * MINUTE_MS;

export function callOptions({ signal }: Work): CallOptions {
  return { signal, priority: 'audit' };
}

/** The seller, whose known valid codes are witnesses. @param record called with each denied one */
export function holderOf(work: Work, record: (result: CodeResult) => void): KeyHolder {
  const { market, memory } = work;
  let asked = '';
  let wasDenied = false;
  return {
    get account() {
      return work.account ?? memory.account;
    },
    nextWitness() {
      const code = memory.canaries.next();
      // If no other code is left, asking for the denied one again at once tells nothing new.
      if (code === null || (wasDenied && code === asked)) {
        wasDenied = false;
        return null;
      }
      asked = code;
      return { ask: (options) => market.validate(code, options) };
    },
    onWitness(_, reply, at) {
      const { kind } = meaningOf(reply);
      wasDenied = kind === 'denied';
      memory.canaries.note(asked, kind === 'found' || kind === 'denied' ? kind : 'none');
      if (kind !== 'denied') return;
      const check = checkOf(asked, reply as CodeReply, at);
      record({ position: null, code: asked, check, verdict: null });
    },
  };
}

export function unanswered(
  { position, code, attempts }: OpenCode,
  check: CodeResult['check'],
): CodeResult {
  const reason = check?.reason === 'answered' || check === null ? 'unreadable' : check.reason;
  const verdict = attempts + 1 >= MAX_ATTEMPTS ? 'unproven' : null;
  return {
    position,
    code,
    check,
    verdict,
    reason: reason === 'denied' ? 'key-not-proven' : reason,
  };
}

/** Only a person, or the key itself, can mend these; the other reasons are outages and limits. */
export function isKeyFault({ reason, reply }: BadProof): boolean {
  if (reply?.kind === 'unavailable' && reply.reason === 'html') return false;
  return reason !== 'limited' && reason !== 'unavailable' && reason !== 'unreadable';
}

/** Waits until a bad proof is made again. @throws the signal's reason */
export async function waitToProveAgain({ signal, proveAgainAfterMs }: Work): Promise<void> {
  const ms = proveAgainAfterMs ?? PROVE_AGAIN_AFTER_MS;
  await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted());
}

/** Whether a bad proof may be a moment's fault: it is made again before anything rests on it. */
export function isWorthRepeating(proof: BadProof): boolean {
  return isKeyFault(proof) || (proof.reason !== 'limited' && proof.retryAt === null);
}

export function endByProof(proof: BadProof, hasAnswers: boolean): PieceEnd {
  if (isKeyFault(proof)) return { kind: 'blocked', stop: stopOf(proof) };
  const stop = stopOf(proof);
  return { kind: 'pause', stop, delayMs: delayAfter(stop, hasAnswers) };
}

export function stopOf({ reason, detail, retryAt, reply }: BadProof): Stop {
  if (reply !== null && isChallenge(reply)) {
    return { reason: 'challenge', notBefore: retryAt, detail: null };
  }
  const word = reason === 'witness-denied' ? 'known-valid-denied' : reason;
  return { reason: word, notBefore: retryAt, detail };
}

export function pauseAfter(reply: Reply<unknown>, hasAnswers: boolean): PieceEnd {
  const meaning = meaningOf(reply);
  const reason = isChallenge(reply)
    ? 'challenge'
    : meaning.kind === 'silent' || meaning.kind === 'doubt'
      ? meaning.reason
      : 'unavailable';
  const detail = 'detail' in reply ? reply.detail : null;
  const stop: Stop = { reason, notBefore: retryTimeOf(reply), detail };
  return { kind: 'pause', stop, delayMs: delayAfter(stop, hasAnswers) };
}

/** The server's own time is kept; without one, the pause grows with the kind of fault. */
function delayAfter({ reason, notBefore }: Stop, hasAnswers: boolean): number {
  const untilMs = notBefore === null ? 0 : notBefore - Date.now();
  if (untilMs > 0) return untilMs;
  if (reason === 'limited') return AFTER_LIMIT_MS;
  if (reason === 'challenge') return AFTER_CHALLENGE_MS;
  return hasAnswers ? AFTER_BREAK_MS : AFTER_OUTAGE_MS;
}

export function isChallenge(reply: Reply<unknown>): boolean {
  return reply.kind === 'unavailable' && reply.reason === 'challenge';
}

export type CodeMarket = Pick<Marketplace, 'account' | 'validate'>;
export type CodeReply = Reply<Sourced<Purchase>>;

/**
 * Asks the marketplace about a code, in its other forms too while it is denied: see `formsOf`. The purchase then has
 * the form that was found as its code, also if the marketplace left the code out.
 */
export async function askCode(
  market: Pick<CodeMarket, 'validate'>,
  code: string,
  options: CallOptions,
): Promise<CodeReply> {
  const [first, ...others] = formsOf(code);
  let reply = await market.validate(first, options);
  for (const form of others) {
    if (reply.kind !== 'denied') break;
    reply = await market.validate(form, options);
    if (reply.kind !== 'answered') continue;
    const { value } = reply.data;
    const purchaseCode = value.purchaseCode ?? form;
    return { ...reply, data: { ...reply.data, value: { ...value, purchaseCode } } };
  }
  return reply;
}

/**
 * The evidence that a reply gives about a code.
 * @param at when it came, milliseconds since 1970
 * @param proven the proofs around a denial that counts
 */
export function checkOf(
  code: string,
  reply: CodeReply,
  at: number,
  proven: ProvenBetween | null = null,
): CodeCheck {
  const { httpStatus } = reply;
  const nothing = { at, httpStatus, message: messageOf(reply), answer: null, proven: null };
  if (reply.kind === 'answered') {
    const { purchaseCode } = reply.data.value;
    const isSame =
      purchaseCode === null || purchaseCode.trim().toLowerCase() === code.toLowerCase();
    const message = isSame ? null : `found as ${purchaseCode}`;
    return { ...nothing, outcome: 'found', reason: 'answered', message, answer: reply.data };
  }
  const meaning = meaningOf(reply);
  if (meaning.kind === 'denied') return { ...nothing, outcome: 'denied', reason: 'denied', proven };
  const reason = meaning.kind === 'found' ? 'unreadable' : meaning.reason;
  return { ...nothing, outcome: 'unanswered', reason };
}
