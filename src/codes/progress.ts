/** What a check costs, and how far it is: the same for files, terminal and pages. */

import { EARLY_LOOK, EARLY_LOOK_CODES, LOOK_FIRST_CODES, LONGEST_WAIT_MS } from './first-pass.js';
import { openPerStep } from './plan.js';
import {
  asksInWindow,
  codesInWindow,
  FOUND_PER_LOOK,
  KEY_FRESH_MS,
  MAX_ROUNDS,
  PROOF_CALLS,
  WAIT_MS,
} from './rules.js';
import type { AskedSoFar, AuditProgress } from './types.js';
import { PROOF_BETWEEN_CODES } from './window.js';

/** Calls in flight without a budget: marketplaces are far away, and calls cost nothing. */
const MAX_UNLIMITED = 48;
/** Calls in flight with a budget. */
const MAX_BUDGETED = 16;
/** A call may take this many seconds and the budget is still used up. */
const SLOW_CALL_S = 2;

export interface Pace {
  /** Most calls under way. */
  readonly concurrency: number;
  /** Milliseconds that the budget puts between two requests; 0: unlimited. */
  readonly spacingMs: number;
}

/**
 * Returns how fast an audit may send requests. The calls in flight are enough to use up the budget although
 * each takes a while, and no more: the others would only queue for it.
 * @param requestsPerMinute 0: unlimited
 */
export function paceOf(requestsPerMinute: number): Pace {
  if (requestsPerMinute === 0) return { concurrency: MAX_UNLIMITED, spacingMs: 0 };
  const enough = 1 + Math.ceil((requestsPerMinute / 60) * SLOW_CALL_S);
  return { concurrency: Math.min(MAX_BUDGETED, enough), spacingMs: 60_000 / requestsPerMinute };
}

interface CheckWork {
  /** Distinct codes without a fresh verdict: each needs a call. */
  readonly toCheck: number;
  /** Codes that were denied already; default 0. */
  readonly denied?: number;
  /** 0: unlimited. */
  readonly requestsPerMinute: number;
  /** Codes of the seller that were ever found: with few, a denied code is asked three times in its window. */
  readonly foundEver: number;
  /** From a denial to the second check, milliseconds; default a minute. */
  readonly confirmAfterMs?: number | undefined;
}

/** The cost of a check if nothing fails and every code that was not denied yet is valid. */
export interface CheckCost {
  /** For codes, and for the key: account details, the negative control, proofs. */
  readonly calls: number;
  /** Those of them for the key. */
  readonly proofCalls: number;
  /** Milliseconds that the request budget needs for the calls; null without a budget. */
  readonly leastMs: number | null;
  /** The end if it began now, milliseconds since 1970; null without a budget. */
  readonly finishAt: number | null;
  /** More calls for each code that is denied: the second check with its repeats, and its share of the proofs. */
  readonly callsPerDenied: number;
  /** Denied codes are checked again after this time, milliseconds. */
  readonly confirmAfterMs: number;
}

/** @param now milliseconds since 1970 */
export function checkCost(work: CheckWork, now: number): CheckCost {
  const { toCheck, denied = 0, requestsPerMinute, foundEver, confirmAfterMs = WAIT_MS } = work;
  const spacingMs = requestsPerMinute === 0 ? 0 : 60_000 / requestsPerMinute;
  const asks = asksInWindow(1, 0, foundEver);
  const size = codesInWindow(spacingMs, asks);
  const inWindows = asks > 1 ? windowsWithProofBetween(denied, size) : 0;
  // The proof after a window serves before the next one.
  const around = denied === 0 ? 0 : PROOF_CALLS * (Math.ceil(denied / size) + 1);
  const proofCalls = controls(toCheck, spacingMs) + looks(toCheck, spacingMs) + around + inWindows;
  const calls = toCheck + denied * asks + proofCalls;
  // The first call does not wait.
  const leastMs = spacingMs === 0 ? null : Math.ceil(Math.max(0, calls - 1) * spacingMs);
  const between = asks > 1 ? windowsWithProofBetween(size, size) : 0;
  return {
    calls,
    proofCalls,
    leastMs,
    finishAt: leastMs === null ? null : now + leastMs,
    callsPerDenied: asks + (PROOF_CALLS + between) / size,
    confirmAfterMs,
  };
}

/** Negative controls: one, and one more for each piece that begins when the last one is too old. */
function controls(codes: number, spacingMs: number): number {
  const perPiece = openPerStep({ spacingMs });
  const pieces = Math.ceil(codes / perPiece);
  const pieceMs = perPiece * spacingMs;
  const perControl = pieceMs === 0 ? Infinity : Math.floor(KEY_FRESH_MS / pieceMs) + 1;
  return Math.ceil(pieces / perControl);
}

/** Looks at the account: for so many purchases and at the end of a piece, an early one, and one before a long list. */
function looks(codes: number, spacingMs: number): number {
  const inTime = spacingMs === 0 ? Infinity : Math.max(1, Math.floor(LONGEST_WAIT_MS / spacingMs));
  const perLook = Math.min(FOUND_PER_LOOK, inTime);
  const perPiece = openPerStep({ spacingMs });
  const early = codes >= EARLY_LOOK_CODES ? Math.min(EARLY_LOOK, perLook) : 0;
  const ofPiece = (size: number): number => Math.ceil(size / perLook);
  const others = Math.max(0, Math.ceil(codes / perPiece) - 2);
  const last = codes <= perPiece ? 0 : codes - perPiece * (others + 1);
  return (
    Number(codes >= LOOK_FIRST_CODES) +
    Number(early > 0) +
    ofPiece(Math.min(codes, perPiece) - early) +
    others * ofPiece(perPiece) +
    ofPiece(last)
  );
}

/** Windows that prove the key between their first and their second questions, too. @param size codes of a full window */
function windowsWithProofBetween(denied: number, size: number): number {
  const full = size >= PROOF_BETWEEN_CODES ? Math.floor(denied / size) : 0;
  return full + Number(denied % size >= PROOF_BETWEEN_CODES);
}

/** The verdicts of an audit as people read them, with how many codes have each. */
export function verdictFigures(
  audit: Pick<AuditProgress, 'valid' | 'invalid' | 'noLongerValid' | 'unproven'>,
): readonly (readonly [string, number])[] {
  return [
    ['valid', audit.valid],
    ['invalid', audit.invalid],
    ['no longer valid', audit.noLongerValid],
    ['unproven', audit.unproven],
  ];
}

type Counts = Pick<AuditProgress, 'codes' | 'reused' | 'pending' | 'denied' | 'asked'> & {
  readonly resumeAt: Date | number | null;
};

/** What a running audit does, and how far it is. */
export interface Phase {
  readonly name: AskedSoFar['phase'];
  readonly done: number;
  readonly total: number;
  /** `first pass 1,204 of 5,000 · 97 denied` or `second check 40 of 97, next window in 12 s`. */
  readonly text: string;
  /** Milliseconds until the end, by the budget; null: unknown. */
  readonly leftMs: number | null;
}

/** @param now milliseconds since 1970 */
export function phaseOf(audit: Counts, now: number): Phase {
  const { codes, reused, pending, denied, resumeAt, asked } = audit;
  const waitMs = resumeAt === null ? 0 : Math.max(0, Number(resumeAt) - now);
  const leftMs = (asked?.leftMs ?? null) === null ? null : (asked?.leftMs ?? 0) + waitMs;
  const open = pending - denied;
  if (open > 0 || denied === 0) {
    const total = codes - reused;
    const isNow = asked?.phase === 'first pass';
    const done = Math.min(total, Math.max(total - open, isNow ? asked.asked : 0));
    const note = denied === 0 ? '' : ` · ${number(denied)} denied`;
    const text = `first pass ${number(done)} of ${number(total)}${note}`;
    return { name: 'first pass', done, total, text, leftMs };
  }
  const isNow = asked?.phase === 'second check' && resumeAt === null;
  const done = isNow ? Math.min(denied, asked.asked) : 0;
  const wait = waitMs === 0 ? '' : `, next window in ${Math.ceil(waitMs / 1000)} s`;
  const rounds = asked?.rounds ?? MAX_ROUNDS;
  const more = rounds < MAX_ROUNDS ? ` · at most ${number(rounds)} more rounds` : '';
  const text = `second check ${number(done)} of ${number(denied)}${wait}${more}`;
  return { name: 'second check', done, total: denied, text, leftMs };
}

function number(value: number): string {
  return value.toLocaleString('en-US');
}
