/** How many calls a check makes if nothing fails and no code of its first pass is denied, by what they are for. */

import { LOOK_FIRST_CODES, LONGEST_WAIT_MS } from './first-pass.js';
import { openPerStep } from './plan.js';
import { asksInWindow, codesInWindow, FOUND_PER_LOOK, KEY_FRESH_MS } from './rules.js';
import { PROOF_BETWEEN_CODES } from './window.js';

export interface FirstPassCalls {
  /** Codes without a fresh verdict: each is asked. Forms that are tried after a denial are not counted. */
  readonly codes: number;
  /** Random codes that must be denied. */
  readonly control: number;
  /** Looks at account details. */
  readonly account: number;
}

/** @param spacingMs that the budget puts between two calls; 0: none */
export function firstPassCalls(codes: number, spacingMs: number): FirstPassCalls {
  if (codes === 0) return { codes, control: 0, account: 0 };
  return { codes, control: controls(codes, spacingMs), account: looks(codes, spacingMs) };
}

/** One, and one more for each piece that begins when the last one is too old. */
function controls(codes: number, spacingMs: number): number {
  const perPiece = openPerStep({ spacingMs });
  const pieces = Math.ceil(codes / perPiece);
  const pieceMs = perPiece * spacingMs;
  const perControl = pieceMs === 0 ? Infinity : Math.floor(KEY_FRESH_MS / pieceMs) + 1;
  return Math.ceil(pieces / perControl);
}

/** One for so many purchases and at the end of a piece, and one before a long list. */
function looks(codes: number, spacingMs: number): number {
  const inTime = spacingMs === 0 ? Infinity : Math.max(1, Math.floor(LONGEST_WAIT_MS / spacingMs));
  const perLook = Math.min(FOUND_PER_LOOK, inTime);
  const perPiece = openPerStep({ spacingMs });
  const ofPiece = (size: number): number => Math.ceil(size / perLook);
  const whole = Math.floor(codes / perPiece) * ofPiece(perPiece);
  return Number(codes >= LOOK_FIRST_CODES) + whole + ofPiece(codes % perPiece);
}

export interface SecondCheckCalls {
  /** Denied codes, each as often as it is asked. */
  readonly codes: number;
  /** Proofs of the key before, between and after: account details, and a code or an item that exists. */
  readonly proofs: number;
  /** Of both, for each code of a full window. */
  readonly perDenied: number;
}

/** @param foundEver codes of the seller that were ever found: with few, a code that is denied in its window is asked thrice */
export function secondCheckCalls(
  denied: number,
  foundEver: number,
  spacingMs: number,
): SecondCheckCalls {
  const asks = asksInWindow(1, 0, foundEver);
  const size = codesInWindow(spacingMs, asks);
  const windows = Math.ceil(denied / size);
  const proof = 2;
  const between = (codes: number): number => Number(asks > 1 && codes >= PROOF_BETWEEN_CODES);
  const betweenAll = Math.floor(denied / size) * between(size) + between(denied % size);
  // The proof after a window serves before the next one.
  const proofs = denied === 0 ? 0 : proof * (windows + 1) + betweenAll;
  return { codes: denied * asks, proofs, perDenied: asks + (proof + between(size)) / size };
}
