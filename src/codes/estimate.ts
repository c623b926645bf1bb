/** What a check costs if nothing fails. */

import { openPerStep } from './plan.js';
import { LOOK_FIRST_CODES } from './first-pass.js';
import {
  asksInWindow,
  codesInWindow,
  FIRST_GUARD,
  FOUND_PER_LOOK,
  KEY_FRESH_MS,
  NEXT_GUARD,
} from './rules.js';
import { PROOF_BETWEEN_CODES } from './window.js';

export interface EstimateOf {
  /** Codes without a fresh verdict: each is asked. Forms that are tried after a denial are not counted. */
  readonly codes: number;
  /** Those of them that will be denied, as far as anybody knows. */
  readonly denied: number;
  /** Codes of the seller that were ever found. */
  readonly foundEver: number;
  /** A known-valid code or a live item can be asked for. */
  readonly canFind: boolean;
  /** Milliseconds that the budget puts between two calls; 0: none. */
  readonly spacingMs: number;
  readonly waitMs: number;
}

/** Calls of a check, by what they are for. */
export interface Estimate {
  /** Random codes that must be denied. */
  readonly control: number;
  /** Looks at account details in the first pass, and proofs of the key when many codes in a row are denied. */
  readonly account: number;
  readonly firstPass: number;
  /** Denied codes, asked again: with repeats, while few purchases of the seller are known. */
  readonly secondCheck: number;
  /** Proofs of the key around windows. */
  readonly proofs: number;
  readonly calls: number;
  /** Time that the budget needs, with the wait before the second check, milliseconds; null without a budget. */
  readonly leastMs: number | null;
}

/** Estimates the calls and the time of a check. */
export function estimate(of: EstimateOf): Estimate {
  const { codes, denied, foundEver, canFind, spacingMs, waitMs } = of;
  const proof = canFind ? 2 : 1;
  const control = codes === 0 ? 0 : controls(of);
  const account = looks(of) + guards(of);
  const asks = asksInWindow(1, 0, foundEver);
  const windows = Math.ceil(denied / codesInWindow(spacingMs, asks));
  const isRepeating = asks > 1 && canFind;
  const between = isRepeating
    ? Math.ceil((denied - PROOF_BETWEEN_CODES + 1) / codesInWindow(spacingMs, asks))
    : 0;
  // The proof after a window serves before the next one.
  const proofs = denied === 0 ? 0 : proof * (windows + 1) + Math.max(0, between);
  const calls = control + account + codes + denied * asks + proofs;
  const wait = denied === 0 ? 0 : waitMs;
  const leastMs = spacingMs === 0 ? null : Math.max(0, calls - 1) * spacingMs + wait;
  return { control, account, firstPass: codes, secondCheck: denied * asks, proofs, calls, leastMs };
}

/** One, and one more for a piece that begins when the last one is too old. */
function controls({ codes, spacingMs }: EstimateOf): number {
  const perPiece = openPerStep({ spacingMs });
  const pieceMs = perPiece * spacingMs;
  const pieces = Math.ceil(codes / perPiece);
  const piecesPerControl = pieceMs === 0 ? Infinity : Math.floor(KEY_FRESH_MS / pieceMs) + 1;
  return Math.ceil(pieces / piecesPerControl);
}

/** One for so many purchases and at the end of a piece; one before a long list, or if nothing was found in a short one. */
function looks(of: EstimateOf): number {
  const { codes, denied } = of;
  const isLong = codes >= LOOK_FIRST_CODES;
  const share = codes === 0 ? 0 : (codes - denied) / codes;
  const perPiece = openPerStep(of);
  let sum = Number(isLong);
  for (let left = codes; left > 0; left -= perPiece) {
    sum += Math.ceil((share * Math.min(left, perPiece)) / FOUND_PER_LOOK);
  }
  return sum === 0 && codes > 0 && guards(of) === 0 ? 1 : sum;
}

/** If bad codes stand anywhere in the list, so many denials in a row are as likely as their share says. */
function guards({ codes, denied, canFind }: EstimateOf): number {
  if (denied < FIRST_GUARD) return 0;
  const likely = (denied / codes) ** FIRST_GUARD;
  const times = 1 + Math.floor((denied - FIRST_GUARD) / NEXT_GUARD);
  return Math.round(likely * times) * (canFind ? 2 : 1);
}
