import { type Reply, meaningOf, retryTimeOf, type DoubtReason } from './reply.js';
import {
  proveKey,
  type BadProof,
  type GoodProof,
  type KeyHolder,
  type KeyMarket,
  type KeyProof,
} from './prove-key.js';
import type { CallOptions } from './types.js';

/** Most checks of a window: a row of false denials between two proofs goes unnoticed. */
export const MAX_WINDOW_CHECKS = 25;
/** Longest time from the start of the first proof to the end of the second, milliseconds. */
const MAX_WINDOW_MS = 120_000;
/** This many calls fit into a window, however small the budget. */
const MIN_WINDOW_CALLS = 10;
/** Calls of two proofs: account details and a witness each. */
const PROOF_CALLS = 4;
/** The second proof of a window is the first of the next one if that begins within this time, milliseconds. */
const MAX_OPENING_AGE_MS = 10_000;
/** Or within this many calls, with a small budget. */
const MAX_OPENING_AGE_CALLS = 4;

/** One question to the marketplace: is this code valid, does this item exist? */
export interface WindowCheck<T> {
  ask(options: CallOptions): Promise<Reply<T>>;
}

interface WindowAnswer<T, C extends WindowCheck<T> = WindowCheck<T>> {
  readonly check: C;
  readonly reply: Reply<T>;
  /** When the reply came, milliseconds since 1970. */
  readonly at: number;
}

/** Why no denial of a window counts. */
export type WindowFault =
  /** The proof before or after was bad. */
  | { readonly kind: 'proof'; readonly proof: BadProof }
  /** An answer in between cast doubt on the key. */
  | { readonly kind: 'doubt'; readonly reason: DoubtReason }
  /** The server asked for a pause before the second proof. */
  | { readonly kind: 'pause'; readonly retryAt: number | null }
  /** The window took longer than its limit. */
  | { readonly kind: 'slow' };

export interface ProvenWindow<T, C extends WindowCheck<T> = WindowCheck<T>> {
  /** The answers that came, in any order. What was found was found, whatever `fault` says. */
  readonly answers: readonly WindowAnswer<T, C>[];
  /** Null: every denial counts. */
  readonly fault: WindowFault | null;
  /** The proofs around the checks; null: not made, or bad. */
  readonly before: GoodProof | null;
  readonly after: GoodProof | null;
}

export interface WindowOptions extends CallOptions {
  /** Checks under way at a time; default 1. */
  readonly concurrency?: number;
  /** The second proof of the window before, which then need not be made again. */
  readonly opening?: GoodProof | null;
  /** Milliseconds that the budget puts between two calls; default 0. */
  readonly spacingMs?: number;
  /** Once aborted, no further check is made; the second proof still is. */
  readonly closing?: AbortSignal | undefined;
}

/** How many checks fit into one window with this budget. @param spacingMs between two calls */
export function checksPerWindow(spacingMs: number): number {
  const calls = spacingMs === 0 ? Infinity : Math.floor(windowLimitMs(spacingMs) / spacingMs);
  return Math.max(1, Math.min(MAX_WINDOW_CHECKS, calls - PROOF_CALLS));
}

/** Longest duration of a window, milliseconds. */
function windowLimitMs(spacingMs: number): number {
  return Math.max(MAX_WINDOW_MS, MIN_WINDOW_CALLS * spacingMs);
}

/**
 * Makes checks between two proofs of the API key. A denial counts only if both proofs were good, no answer in
 * between cast doubt on the key, and the window took at most two minutes (ten calls, with a very small budget).
 *
 * It ends early when the key comes into doubt or the server asks for a pause; what was not asked has no answer.
 * Without any denial the second proof is not made: nothing would rest on it.
 *
 * @example
 * const checks = ids.map((id) => ({ id, ask: (options) => market.item(id, options) }));
 * const { answers, fault } = await provenWindow(market, checks, holder, { signal });
 * const gone = fault === null ? answers.filter(({ reply }) => reply.kind === 'denied') : [];
 *
 * @param checks at most `MAX_WINDOW_CHECKS`
 * @throws {RangeError} for too many checks; the signal's reason
 */
export async function provenWindow<T, C extends WindowCheck<T>>(
  market: KeyMarket,
  checks: readonly C[],
  holder: KeyHolder,
  { concurrency = 1, opening = null, spacingMs = 0, closing, ...options }: WindowOptions = {},
): Promise<ProvenWindow<T, C>> {
  if (checks.length > MAX_WINDOW_CHECKS) {
    throw new RangeError(`a window has at most ${MAX_WINDOW_CHECKS} checks, not ${checks.length}`);
  }
  const before = isFresh(opening, spacingMs) ? opening : await proveKey(market, holder, options);
  if (!before.isGood) {
    return { answers: [], fault: { kind: 'proof', proof: before }, before: null, after: null };
  }
  const { answers, interruption } = await askAll<T, C>(checks, concurrency, options, closing);
  if (interruption !== null || answers.every(({ reply }) => reply.kind !== 'denied')) {
    return { answers, fault: interruption, before, after: null };
  }
  const sameAccount = { ...bound(holder), account: holder.account ?? before.account };
  const after = await proveKey(market, sameAccount, options);
  const tookMs = performance.now() - before.beganAt;
  return {
    answers,
    fault: faultOf(after, tookMs, windowLimitMs(spacingMs)),
    before,
    after: after.isGood ? after : null,
  };
}

/** The rule: whether the denials between a good proof and this one count. */
function faultOf(after: KeyProof, tookMs: number, limitMs: number): WindowFault | null {
  if (!after.isGood) return { kind: 'proof', proof: after };
  return tookMs > limitMs ? { kind: 'slow' } : null;
}

function isFresh(opening: GoodProof | null, spacingMs: number): opening is GoodProof {
  const mostMs = Math.max(MAX_OPENING_AGE_MS, MAX_OPENING_AGE_CALLS * spacingMs);
  return opening !== null && performance.now() - opening.beganAt <= mostMs;
}

function bound(holder: KeyHolder): Omit<KeyHolder, 'account'> {
  return {
    nextWitness: () => holder.nextWitness(),
    onWitness: (witness, reply, at) => holder.onWitness?.(witness, reply, at),
  };
}

/** Asks until an answer casts doubt on the key or asks for a pause. */
async function askAll<T, C extends WindowCheck<T>>(
  checks: readonly C[],
  concurrency: number,
  options: CallOptions,
  closing: AbortSignal | undefined,
): Promise<{ answers: WindowAnswer<T, C>[]; interruption: WindowFault | null }> {
  const answers: WindowAnswer<T, C>[] = [];
  let interruption: WindowFault | null = null;
  const waiting = [...checks];
  const lane = async (): Promise<void> => {
    for (;;) {
      const isOver = interruption !== null || closing?.aborted === true;
      const check = isOver ? undefined : waiting.shift();
      if (check === undefined) return;
      const reply = await check.ask(options);
      answers.push({ check, reply, at: Date.now() });
      interruption ??= interruptionBy(reply);
    }
  };
  const lanes = Array.from({ length: Math.min(concurrency, checks.length) }, lane);
  // Every lane ends before an error is thrown: no call may outlive its window.
  const ends = await Promise.allSettled(lanes);
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  return { answers, interruption };
}

function interruptionBy(reply: Reply<unknown>): WindowFault | null {
  const meaning = meaningOf(reply);
  if (meaning.kind === 'doubt') return { kind: 'doubt', reason: meaning.reason };
  const retryAt = retryTimeOf(reply);
  const isPause = meaning.kind === 'silent' && (meaning.reason === 'limited' || retryAt !== null);
  return isPause ? { kind: 'pause', retryAt } : null;
}
