import type { DenialFault, CallResult } from './outcome.js';

/**
 * The rules that decide when a denial proves anything.
 *
 * A wrong key, a switched-off API and a bad code get the same answer. So a denial counts only between two
 * checkpoints. A checkpoint is account details answered for the seller's account and, once any valid code
 * is known, a valid code that was found. The two are at most two minutes apart, or ten calls where the
 * budget is slow, with at most 25 denials in a row and nothing that speaks against the key between them. A
 * code is invalid when it was denied so twice, the second time a minute later and after every other code (5
 * s later for codes given as arguments): a stale cache or one sick machine denies good codes for a moment.
 * By default, every denied code is asked for again where they are at most 1,000 or a tenth of the list;
 * else one in 12, but at least 1,000, and those that were valid before. `--confirm all` asks for each
 * again, `none` for none. Once a code is found after all, every denied one is asked for again until chance
 * no longer explains its denials. An invalid code comes with its evidence: `denied twice, 61 s apart`. What
 * can't be proven is unproven and asked again; limits, outages and odd answers never become a verdict.
 *
 * More exactly: one checkpoint had ended before the denied call began, another began after it had
 * ended, and the time from the beginning of the first to the end of the other counts. A find parts two
 * denials in a row only when it began after one of them had ended, and ended before the other began: of
 * calls that ran at the same time nobody knows which the marketplace met first.
 *
 * `second-look.ts` has the rules of the second denial. A valid code needs no checkpoint: the purchase is
 * its own proof, unless account details last spoke of another account.
 */

export type Verdict = 'valid' | 'invalid' | 'unproven';

/** What proved a verdict: the purchase itself, a checkpoint with a valid code, or one without. */
export type Proof = 'purchase' | 'canary' | 'account' | 'none';

/** Longest time from the beginning of one checkpoint to the end of the next, milliseconds. */
export const MAX_GAP_MS = 120_000;
/** Requests that must fit between two checkpoints however small the budget is. */
const REQUESTS_A_GAP = 10;
/** Most denials in a row that count. */
export const MAX_DENIALS_IN_ROW = 25;
/** How long a gap may be for requests that leave so far apart, milliseconds. */
export const maxGapMs = (spacingMs: number): number =>
  Math.max(MAX_GAP_MS, REQUESTS_A_GAP * spacingMs);

/**
 * When a call was under way. `begun` and `ended` are numbers of one counter that every beginning and
 * every end raises, so that calls which ran at the same time are known to have.
 */
export interface Span {
  readonly begun: number;
  readonly ended: number;
  readonly beganAt: number;
  readonly endedAt: number;
}

export interface AccountCall extends Span, CallResult {
  readonly kind: 'account';
  /** The user name in the answer; null when none came. */
  readonly account: string | null;
}

/** A code, validated: one of the list, or a *canary*, a code known to be valid. */
export interface CodeCall extends Span, CallResult {
  readonly kind: 'code' | 'canary';
  readonly code: string;
}

export type Call = AccountCall | CodeCall;

/** When the checkpoints around a denial were complete, milliseconds since 1970. */
export type Checkpoints = { readonly before: number; readonly after: number };
/** The checkpoints make it count; `waits`: the one after it is still to come. */
export type DenialJudgement = Checkpoints | 'pending' | DenialFault;

export class Proofs {
  /** User name of the seller's account; null until the first account details tell it. */
  account: string | null;
  /** The first account details that were answered for another account. */
  otherAccount: AccountCall | null = null;
  /** Whether any code is known to be valid, so that checkpoints need a find. */
  needsValidCode: boolean;
  readonly #maxGapMs: number;
  /** Each list in the order in which its calls ended. */
  readonly #accounts: AccountCall[] = [];
  readonly #finds: CodeCall[] = [];
  readonly #faults: Span[] = [];
  readonly #denials: Span[] = [];
  /** Ascending. */
  readonly #denialsBegun: number[] = [];
  /** What parts rows of denials, in the order of their beginnings: finds, or account details without any. */
  #partings: Span[] = [];

  /** @param account user name that the seller is bound to; null when the first answer tells it */
  constructor(account: string | null, needsValidCode: boolean, longestGap = MAX_GAP_MS) {
    this.account = account;
    this.needsValidCode = needsValidCode;
    this.#maxGapMs = longestGap;
  }

  /** Takes a call that has just ended. Add calls in the order in which they ended. */
  add(call: Call): void {
    const { kind } = call.outcome;
    if (kind === 'inconclusive') return;
    if (kind === 'suspect' || (kind === 'denied' && call.kind !== 'code')) {
      this.#faults.push(call);
    } else if (kind === 'denied') {
      this.#denials.push(call);
      insert(this.#denialsBegun, call.begun, (begun) => begun);
    } else if (call.kind === 'account') {
      this.account ??= call.account;
      // Letter case does not tell accounts apart.
      if (call.account?.toLowerCase() !== this.account?.toLowerCase()) this.otherAccount ??= call;
      else this.#accounts.push(call);
      if (!this.needsValidCode) insert(this.#partings, call, ({ begun }) => begun);
    } else if (this.trusts(call)) {
      if (!this.needsValidCode) this.#partings = [];
      this.needsValidCode = true;
      this.#finds.push(call);
      insert(this.#partings, call, ({ begun }) => begun);
    }
  }

  get proof(): 'canary' | 'account' {
    return this.needsValidCode ? 'canary' : 'account';
  }

  /** Whether an answer is believed: the key had not been seen to open another account before it. */
  trusts(find: Span): boolean {
    return this.otherAccount === null || find.begun < this.otherAccount.ended;
  }

  /** The last account details, unless something has spoken against the key since they were asked for. */
  get currentAccountProof(): AccountCall | null {
    return this.#standing(this.#accounts);
  }

  /** The same of the last valid code that was found. */
  get currentCodeProof(): CodeCall | null {
    return this.#standing(this.#finds);
  }

  #standing<T extends Call>(proofs: readonly T[]): T | null {
    const last = proofs.at(-1) ?? null;
    return last === null || this.otherAccount !== null || this.#hasFailedSince(last.begun)
      ? null
      : last;
  }

  #hasFailedSince(number: number): boolean {
    return (this.#faults.at(-1)?.ended ?? -Infinity) > number;
  }

  /** Denials that have ended since the last thing that parts rows of denials was asked for. */
  get denialsInRow(): number {
    const since = this.#partings.at(-1)?.begun ?? 0;
    return this.#denials.length - countUpTo(this.#denials, since, ({ ended }) => ended);
  }

  /**
   * Whether a denied call counts.
   * @param quiet every call that began before this number has ended
   * @param now milliseconds since 1970
   */
  judgeDenial(denial: CodeCall, quiet: number, now: number): DenialJudgement {
    if (this.otherAccount !== null) return 'account-changed';
    const account = around(denial, this.#accounts);
    const find = this.needsValidCode ? around(denial, this.#finds) : account;
    if (account.before === null) return 'no-account-before';
    if (find.before === null) return 'no-canary-before';
    const isTooLong = (before: Span, after: Span | null): boolean => {
      const gapMs = (after?.endedAt ?? now) - before.beganAt;
      // A clock that was set back tells nothing of the time between.
      return gapMs > this.#maxGapMs || (after !== null && gapMs < 0);
    };
    const isGap = isTooLong(account.before, account.after) || isTooLong(find.before, find.after);
    const begun = Math.min(account.before.begun, find.before.begun);
    if (account.after === null || find.after === null) {
      // What spoke against the key since then lies between, whatever proof is still to come.
      if (this.#hasFailedSince(begun)) return 'proof-failed';
      return isGap ? 'gap' : 'pending';
    }
    const ended = Math.max(account.after.ended, find.after.ended);
    if (ended > quiet) return 'pending';
    if (this.#faults.some((one) => one.ended > begun && one.begun < ended)) return 'proof-failed';
    if (isGap) return 'gap';
    if (this.#rowOf(denial) > MAX_DENIALS_IN_ROW) return 'row-too-long';
    const before = Math.max(account.before.endedAt, find.before.endedAt);
    return { before, after: Math.max(account.after.endedAt, find.after.endedAt) };
  }

  /** Whether the checkpoint after these denials lacks its account details, or its find. */
  missingAfter(denials: Iterable<CodeCall>): { readonly account: boolean; readonly find: boolean } {
    const lacking = { account: false, find: false };
    for (const denial of denials) {
      lacking.account ||= around(denial, this.#accounts).after === null;
      lacking.find ||= this.needsValidCode && around(denial, this.#finds).after === null;
    }
    return lacking;
  }

  /**
   * How many denials the marketplace may have given in a row, this one among them. A stretch of time
   * in which it denied everything holds no find whole: at the longest it lasts from the beginning of
   * one find to the first end of those that began later. So the denials that touch such a stretch,
   * and the call, are counted.
   */
  #rowOf(denial: Span): number {
    const finds = this.#partings;
    let longest = 1;
    for (let i = countUpTo(finds, denial.ended, ({ begun }) => begun) - 1; i >= -1; i--) {
      let ended = Infinity;
      for (let next = i + 1; next < finds.length; next++) {
        const find = finds[next] as Span;
        if (find.begun > ended) break;
        ended = Math.min(ended, find.ended);
      }
      if (ended < denial.begun) break;
      const begun = finds[i]?.begun ?? 0;
      const endedBefore = countUpTo(this.#denials, begun, (one) => one.ended);
      const begunBefore = countUpTo(this.#denialsBegun, ended, (one) => one);
      longest = Math.max(longest, begunBefore - endedBefore);
    }
    return longest;
  }
}

/** The nearest proof on either side, neither of them under way at the same time as the call. */
function around(call: Span, proofs: readonly Span[]) {
  const before = proofs[countUpTo(proofs, call.begun, ({ ended }) => ended) - 1] ?? null;
  let next = countUpTo(proofs, call.ended, ({ ended }) => ended);
  while (next < proofs.length && (proofs[next] as Span).begun <= call.ended) next++;
  return { before, after: proofs[next] ?? null };
}

/** How many of the values are at most this. @param values in ascending order of `of` */
function countUpTo<T>(values: readonly T[], most: number, of: (value: T) => number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of(values[middle] as T) <= most) low = middle + 1;
    else high = middle;
  }
  return low;
}

function insert<T>(values: T[], value: T, of: (value: T) => number): void {
  const place = values.findLastIndex((one) => of(one) <= of(value)) + 1;
  values.splice(place, 0, value);
}
