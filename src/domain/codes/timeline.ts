import type { Heard } from './outcome.js';

/**
 * When a call was under way: numbers of one counter that goes up with every beginning and every end,
 * so that calls which ran at the same time are known to have. `ended` is greater than `begun`.
 */
export interface Span {
  readonly begun: number;
  readonly ended: number;
}

/** Account details, asked to prove the credential. */
export interface AccountCall extends Span, Heard {
  readonly kind: 'account';
  /** The user name in the answer; null when none came. */
  readonly account: string | null;
}

/** A code of the chunk, validated. */
export interface CodeCall extends Span, Heard {
  readonly kind: 'code';
  readonly code: string;
}

/** A code known to be valid, asked to see whether it still is said to be. */
export interface CanaryCall extends Span, Heard {
  readonly kind: 'canary';
  readonly code: string;
}

export type ChunkCall = AccountCall | CodeCall | CanaryCall;

/** Everything that is known of the calls of one chunk, in any order. */
export interface Timeline {
  /** User name that the seller is bound to; null when the first proof of the chunk is to tell. */
  readonly account: string | null;
  /**
   * Codes of this seller known to be valid from before, the best first. When there is one, denials
   * need it. Empty when none is known, or when a person says that none is left.
   */
  readonly canaries: readonly string[];
  /**
   * How often a code must be denied, each time proven anew; default once. More makes a key that is
   * bad for single calls only less likely to be believed, at the price of as many calls.
   */
  readonly denialsNeeded?: (code: string) => number;
  readonly calls: readonly ChunkCall[];
  /**
   * Times in which nothing was heard that says anything of the credential, longer than usual: each
   * from the end of a call to the end of the next. Default none.
   */
  readonly lulls?: readonly Span[];
}

/** A span in which all that bears on a denial must be well. */
export interface Bracket {
  readonly before: Span;
  readonly after: Span;
}

/** True when the first call had ended when the second began: the server met them in this order. */
export function precedes(first: Span, second: Span): boolean {
  return first.ended < second.begun;
}

/** True when a call may have been answered within the bracket, its own two calls included. */
export function touches(call: Span, { before, after }: Bracket): boolean {
  return call.ended > before.begun && call.begun < after.ended;
}

/** Calls in the order of their ends; as they mostly come in it, hardly more than a look. */
export function byEnd<T extends Span>(calls: readonly T[]): readonly T[] {
  let last = -Infinity;
  for (const { ended } of calls) {
    if (ended < last) return [...calls].sort((a, b) => a.ended - b.ended);
    last = ended;
  }
  return calls;
}

/** How many of the calls had ended before this number. @param calls in the order of their ends */
export function countEnded(calls: readonly Span[], before: number): number {
  let [low, high] = [0, calls.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((calls[middle] as Span).ended < before) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** True for two spellings of one user name; letter case does not tell accounts apart. */
export function isSameAccount(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}
