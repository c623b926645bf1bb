/** How many calls a check makes if nothing fails, by what they are for. */

import { LOOK_FIRST_CODES, LONGEST_WAIT_MS } from './first-pass.js';
import { openPerStep } from './plan.js';
import {
  asksInWindow,
  codesInWindow,
  FIRST_GUARD,
  FOUND_PER_LOOK,
  KEY_FRESH_MS,
  NEXT_GUARD,
} from './rules.js';
import { PROOF_BETWEEN_CODES } from './window.js';

interface Budget {
  /** Milliseconds that the budget puts between two calls; 0: none. */
  readonly spacingMs: number;
  /** A known-valid code or a live item can be asked for; default true. */
  readonly canFind?: boolean;
}

export interface FirstPassOf extends Budget {
  /** Codes without a fresh verdict: each is asked. Forms that are tried after a denial are not counted. */
  readonly codes: number;
  /** Those of them that will be denied, as far as anybody knows. */
  readonly denied: number;
}

export interface FirstPassCalls {
  readonly codes: number;
  /** Random codes that must be denied. */
  readonly control: number;
  /** Looks at account details, and proofs of the key when many codes in a row are denied. */
  readonly account: number;
}

export function firstPassCalls(of: FirstPassOf): FirstPassCalls {
  const { codes } = of;
  if (codes === 0) return { codes, control: 0, account: 0 };
  return { codes, control: controls(of), account: looks(of) + guards(of) };
}

/** One, and one more for each piece that begins when the last one is too old. */
function controls({ codes, spacingMs }: FirstPassOf): number {
  const perPiece = openPerStep({ spacingMs });
  const pieces = Math.ceil(codes / perPiece);
  const pieceMs = perPiece * spacingMs;
  const perControl = pieceMs === 0 ? Infinity : Math.floor(KEY_FRESH_MS / pieceMs) + 1;
  return Math.ceil(pieces / perControl);
}

/** One for so many purchases and at the end of a piece; one before a long list, or if nothing was found in a short one. */
function looks(of: FirstPassOf): number {
  const { codes, denied, spacingMs } = of;
  const isLong = codes >= LOOK_FIRST_CODES;
  const share = (codes - denied) / codes;
  const inTime = spacingMs === 0 ? Infinity : Math.max(1, Math.floor(LONGEST_WAIT_MS / spacingMs));
  const perLook = Math.min(FOUND_PER_LOOK, inTime);
  const perPiece = openPerStep(of);
  const ofPiece = (size: number): number => Math.ceil((share * size) / perLook);
  const whole = Math.floor(codes / perPiece) * ofPiece(perPiece);
  const sum = Number(isLong) + whole + ofPiece(codes % perPiece);
  return sum === 0 && guards(of) === 0 ? 1 : sum;
}

/** If bad codes stand anywhere in the list, so many denials in a row are as likely as their share says. */
function guards({ codes, denied, canFind = true }: FirstPassOf): number {
  if (denied < FIRST_GUARD) return 0;
  const likely = (denied / codes) ** FIRST_GUARD;
  const times = 1 + Math.floor((denied - FIRST_GUARD) / NEXT_GUARD);
  return Math.round(likely * times) * (canFind ? 2 : 1);
}

export interface SecondCheckOf extends Budget {
  readonly denied: number;
  /** Codes of the seller that were ever found: with few, a code that is denied in its window is asked three times. */
  readonly foundEver: number;
}

export interface SecondCheckCalls {
  /** Denied codes, each as often as it is asked. */
  readonly codes: number;
  /** Proofs of the key before, between and after. */
  readonly proofs: number;
  /** Of both, for each code of a full window. */
  readonly perDenied: number;
}

export function secondCheckCalls(of: SecondCheckOf): SecondCheckCalls {
  const { denied, foundEver, spacingMs, canFind = true } = of;
  const asks = asksInWindow(1, 0, foundEver);
  const size = codesInWindow(spacingMs, asks);
  const windows = Math.ceil(denied / size);
  const proof = canFind ? 2 : 1;
  const isProvenBetween = (codes: number): boolean =>
    canFind && asks > 1 && codes >= PROOF_BETWEEN_CODES;
  const between = (codes: number): number => Number(isProvenBetween(codes));
  const betweenAll = Math.floor(denied / size) * between(size) + between(denied % size);
  // The proof after a window serves before the next one.
  const proofs = denied === 0 ? 0 : proof * (windows + 1) + betweenAll;
  return { codes: denied * asks, proofs, perDenied: asks + (proof + between(size)) / size };
}
