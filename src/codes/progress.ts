import { CONFIRM_AFTER_MS, countedDenialsNeeded, FOUND_PER_LOOK, PIECE_CODES } from './rules.js';
import type { AuditProgress } from './types.js';
import { checksPerWindow } from '../marketplace/proven-window.js';

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

interface AuditWork {
  /** Distinct codes without a fresh verdict: each needs a call. */
  readonly toCheck: number;
  /** Those of them that were denied already; default 0. */
  readonly denied?: number;
  /** 0: unlimited. */
  readonly requestsPerMinute: number;
}

/** The cost of an audit if nothing fails. */
export interface AuditCost {
  /** One per code, and proofs of the key. */
  readonly calls: number;
  readonly proofCalls: number;
  /** Milliseconds that the request budget needs for the calls; null without a budget. */
  readonly leastMs: number | null;
  /** The end of the sweep if it began now, milliseconds since 1970; null without a budget. */
  readonly finishAt: number | null;
  /** Calls for each denied code: the second check, and its share of the proofs. */
  readonly callsPerDenied: number;
  /** Denied codes are checked again after this time, milliseconds. */
  readonly confirmAfterMs: number;
}

const CALLS_PER_PROOF = 2;

/**
 * Estimates the cost of an audit: a call for each code, a proof for each piece of the sweep, and looks at the account
 * details before purchases are recorded. How many codes will be
 * denied is not known; each costs `callsPerDenied` more.
 * @param now milliseconds since 1970
 */
export function auditCost(
  { toCheck, denied = 0, requestsPerMinute }: AuditWork,
  now: number,
): AuditCost {
  const spacingMs = requestsPerMinute === 0 ? 0 : 60_000 / requestsPerMinute;
  const perWindow = checksPerWindow(spacingMs);
  const callsPerDenied = 1 + CALLS_PER_PROOF / perWindow;
  const pieces = Math.ceil(toCheck / PIECE_CODES);
  // If every code is valid; denied ones need no look at account details.
  const looks = pieces + Math.floor(toCheck / FOUND_PER_LOOK);
  const sweepProofs = looks + (toCheck < 100 ? 0 : CALLS_PER_PROOF * pieces);
  const windowProofs = denied === 0 ? 0 : CALLS_PER_PROOF * (Math.ceil(denied / perWindow) + 1);
  const proofCalls = sweepProofs + windowProofs;
  const calls = toCheck + denied + proofCalls;
  // The first call does not wait.
  const leastMs = spacingMs === 0 ? null : Math.ceil(Math.max(0, calls - 1) * spacingMs);
  const finishAt = leastMs === null ? null : now + leastMs;
  const confirmAfterMs = CONFIRM_AFTER_MS;
  return { calls, proofCalls, leastMs, finishAt, callsPerDenied, confirmAfterMs };
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

type Counts = Pick<
  AuditProgress,
  'codes' | 'reused' | 'pending' | 'denied' | 'confirmed' | 'valid' | 'overturned'
> & { readonly resumeAt: Date | number | null };

/** What a running audit does, and how far it is. */
export interface Phase {
  readonly name: 'sweep' | 'confirm';
  readonly done: number;
  readonly total: number;
  /** `sweep 1,204 of 5,000 · 97 denied` or `confirm 40 of 97, next window in 12 s`. */
  readonly text: string;
}

/** @param now milliseconds since 1970 */
export function phaseOf(audit: Counts, now: number): Phase {
  const { codes, reused, pending, denied, confirmed, resumeAt } = audit;
  const open = pending - denied;
  if (open > 0 || denied === 0) {
    const [done, total] = [codes - reused - open, codes - reused];
    const note = denied === 0 ? '' : ` · ${number(denied)} denied`;
    return { name: 'sweep', done, total, text: `sweep ${number(done)} of ${number(total)}${note}` };
  }
  const total = denied * (countedDenialsNeeded(audit) ?? 1);
  const done = Math.min(total, confirmed);
  const waitMs = resumeAt === null ? 0 : Number(resumeAt) - now;
  const wait = waitMs <= 0 ? '' : `, next window in ${Math.ceil(waitMs / 1000)} s`;
  const text = `confirm ${number(done)} of ${number(total)}${wait}`;
  return { name: 'confirm', done, total, text };
}

function number(value: number): string {
  return value.toLocaleString('en-US');
}
