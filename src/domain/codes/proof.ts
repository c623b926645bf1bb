import type { CallResult, DenialFault } from './outcome.js';

/**
 * The rules that decide when a denial proves anything.
 *
 * A wrong key, a switched-off API and a bad code all get the same answer, so one denial proves nothing. A
 * denial counts only between two checkpoints. At a checkpoint the API key opens the seller's account and,
 * once any valid code is known, finds a valid code. The two checkpoints are at most two minutes apart (ten
 * calls, if the budget is slow), with at most 25 denials in a row and no sign of a bad key between them. A
 * code is invalid after two such denials, the second a minute later and after every other code (5 s later
 * for up to 25 codes given as arguments without `--out` or `--detach`), because a stale cache or one faulty
 * machine can deny valid codes for a moment. By default, every denied code is checked again if at most 1,000 codes or a tenth of the list were
 * denied. If more were, one in 12 is checked again, but at least 1,000, and every code that was valid
 * before. `--confirm all` checks all of them again, `none` checks none. If a code turns out valid after all,
 * every denied code is checked again until chance no longer explains its denials. An invalid code comes with
 * its evidence: `denied twice, 61 s apart`. Whatever can't be proven is unproven and checked again. Limits,
 * outages and odd answers never become a verdict.
 *
 * More exactly: one checkpoint ended before the denied call began, and the other began after that call
 * ended. The gap runs from the start of the first checkpoint to the end of the second. A valid code
 * separates two denials only if its call began after one of them ended, and ended before the other began.
 * For calls that overlap, nobody knows which one the marketplace answered first.
 *
 * `second-look.ts` has the rules for the second denial. A valid code needs no checkpoint: the purchase is
 * its own proof, unless the last account details belonged to another account.
 */

export type Verdict = 'valid' | 'invalid' | 'unproven';

/** What proved a verdict: the purchase itself, checkpoints with a valid code, or checkpoints without. */
export type Proof = 'purchase' | 'canary' | 'account' | 'none';

/** Milliseconds from the start of one checkpoint to the end of the next. */
export const MAX_GAP_MS = 120_000;
/** This many requests must fit between two checkpoints, however small the budget. */
const MIN_REQUESTS_PER_GAP = 10;
/** In a longer row, no denial counts. */
export const MAX_DENIALS_IN_ROW = 25;
/** The longest gap in milliseconds, for requests sent `spacingMs` apart. */
export const maxGapMs = (spacingMs: number): number =>
  Math.max(MAX_GAP_MS, MIN_REQUESTS_PER_GAP * spacingMs);

/** When a call was under way: by a counter that each start and each end raises, and by the clock. */
export interface Span {
  /** Counter values. They show which calls overlapped; clock times could be equal. */
  readonly begun: number;
  readonly ended: number;
  /** Milliseconds since 1970. */
  readonly beganAt: number;
  readonly endedAt: number;
}

export interface AccountCall extends Span, CallResult {
  readonly kind: 'account';
  /** The user name in the answer; null without an answer. */
  readonly account: string | null;
}

/** The validation of a code from the list, or of a *canary*: a code known to be valid. */
export interface CodeCall extends Span, CallResult {
  readonly kind: 'code' | 'canary';
  readonly code: string;
}

export type Call = AccountCall | CodeCall;

/** When the checkpoints around a denial ended, milliseconds since 1970. */
export type Checkpoints = { readonly before: number; readonly after: number };
/** The checkpoints of a denial that counts, `pending` until the second one has ended, or the fault. */
export type DenialJudgement = Checkpoints | 'pending' | DenialFault;

/** Collects calls, and decides by them which denials count. */
export class Proofs {
  /** User name of the seller's account; null until the first account details arrive. */
  account: string | null;
  /** The first account details that belonged to another account. */
  otherAccount: AccountCall | null = null;
  /** True once any code is known to be valid: checkpoints then need one. */
  needsValidCode: boolean;
  readonly #maxGapMs: number;
  /** These four are in the order in which the calls ended. */
  readonly #accounts: AccountCall[] = [];
  readonly #validCodes: CodeCall[] = [];
  readonly #failures: Span[] = [];
  readonly #denials: Span[] = [];
  /** `begun` of each denial, ascending. */
  readonly #denialsBegun: number[] = [];
  /** Calls that end a row of denials, by `begun`: valid codes or, while none is known, account details. */
  #separators: Span[] = [];

  /** @param account user name the seller is bound to; null takes it from the first account details */
  constructor(account: string | null, needsValidCode: boolean, longestGapMs = MAX_GAP_MS) {
    this.account = account;
    this.needsValidCode = needsValidCode;
    this.#maxGapMs = longestGapMs;
  }

  /** Adds a call that has just ended. Calls must be added in the order in which they ended. */
  add(call: Call): void {
    const { kind } = call.outcome;
    if (kind === 'inconclusive') return;
    if (kind === 'suspect' || (kind === 'denied' && call.kind !== 'code')) {
      this.#failures.push(call);
    } else if (kind === 'denied') {
      this.#denials.push(call);
      insert(this.#denialsBegun, call.begun, (begun) => begun);
    } else if (call.kind === 'account') {
      this.account ??= call.account;
      // Case differs between answers for the same account.
      if (call.account?.toLowerCase() !== this.account?.toLowerCase()) this.otherAccount ??= call;
      else this.#accounts.push(call);
      if (!this.needsValidCode) insert(this.#separators, call, ({ begun }) => begun);
    } else if (this.trusts(call)) {
      if (!this.needsValidCode) this.#separators = [];
      this.needsValidCode = true;
      this.#validCodes.push(call);
      insert(this.#separators, call, ({ begun }) => begun);
    }
  }

  get proof(): 'canary' | 'account' {
    return this.needsValidCode ? 'canary' : 'account';
  }

  /** False if the key was known to open another account before the call began. */
  trusts(validCode: Span): boolean {
    return this.otherAccount === null || validCode.begun < this.otherAccount.ended;
  }

  /** The last account details, unless a call has cast doubt on the key since their request. */
  get currentAccountProof(): AccountCall | null {
    return this.#current(this.#accounts);
  }

  /** The last valid code, under the same condition. */
  get currentCodeProof(): CodeCall | null {
    return this.#current(this.#validCodes);
  }

  #current<T extends Call>(proofs: readonly T[]): T | null {
    const last = proofs.at(-1) ?? null;
    return last === null || this.otherAccount !== null || this.#hasFailedSince(last.begun)
      ? null
      : last;
  }

  #hasFailedSince(begun: number): boolean {
    return (this.#failures.at(-1)?.ended ?? -Infinity) > begun;
  }

  /** Denials that have ended since the last separator was requested. */
  get denialsInRow(): number {
    const since = this.#separators.at(-1)?.begun ?? 0;
    return this.#denials.length - countUpTo(this.#denials, since, ({ ended }) => ended);
  }

  /**
   * Decides whether a denied call counts.
   * @param allEndedBefore every call that began before this counter value has ended
   * @param now milliseconds since 1970
   */
  judgeDenial(denial: CodeCall, allEndedBefore: number, now: number): DenialJudgement {
    if (this.otherAccount !== null) return 'account-changed';
    const account = nearest(denial, this.#accounts);
    const code = this.needsValidCode ? nearest(denial, this.#validCodes) : account;
    if (account.before === null) return 'no-account-before';
    if (code.before === null) return 'no-canary-before';
    const isTooLong = (before: Span, after: Span | null): boolean => {
      const gapMs = (after?.endedAt ?? now) - before.beganAt;
      // A negative gap: the clock was set back, so the real time between them is unknown.
      return gapMs > this.#maxGapMs || (after !== null && gapMs < 0);
    };
    const isGap = isTooLong(account.before, account.after) || isTooLong(code.before, code.after);
    const begun = Math.min(account.before.begun, code.before.begun);
    if (account.after === null || code.after === null) {
      // A later proof can't help: the failure will lie between the two checkpoints.
      if (this.#hasFailedSince(begun)) return 'proof-failed';
      return isGap ? 'gap' : 'pending';
    }
    const ended = Math.max(account.after.ended, code.after.ended);
    if (ended > allEndedBefore) return 'pending';
    if (this.#failures.some((call) => call.ended > begun && call.begun < ended)) {
      return 'proof-failed';
    }
    if (isGap) return 'gap';
    if (this.#longestRowWith(denial) > MAX_DENIALS_IN_ROW) return 'row-too-long';
    const before = Math.max(account.before.endedAt, code.before.endedAt);
    return { before, after: Math.max(account.after.endedAt, code.after.endedAt) };
  }

  /** What the next checkpoint still needs, so that these denials can count. */
  missingAfter(denials: Iterable<CodeCall>): { readonly account: boolean; readonly code: boolean } {
    const missing = { account: false, code: false };
    for (const denial of denials) {
      missing.account ||= nearest(denial, this.#accounts).after === null;
      missing.code ||= this.needsValidCode && nearest(denial, this.#validCodes).after === null;
    }
    return missing;
  }

  /**
   * The most denials that the marketplace may have given in a row, including this one. While it denies
   * everything, no separator can run from start to end. So the longest such period runs from the start
   * of one separator to the earliest end among the later ones. Denials that overlap this period count.
   */
  #longestRowWith(denial: Span): number {
    const separators = this.#separators;
    let longest = 1;
    for (let i = countUpTo(separators, denial.ended, ({ begun }) => begun) - 1; i >= -1; i--) {
      let ended = Infinity;
      for (let next = i + 1; next < separators.length; next++) {
        const separator = separators[next] as Span;
        if (separator.begun > ended) break;
        ended = Math.min(ended, separator.ended);
      }
      if (ended < denial.begun) break;
      const begun = separators[i]?.begun ?? 0;
      const endedBefore = countUpTo(this.#denials, begun, (call) => call.ended);
      const begunBefore = countUpTo(this.#denialsBegun, ended, (number) => number);
      longest = Math.max(longest, begunBefore - endedBefore);
    }
    return longest;
  }
}

/** The last proof that ended before the call began, and the first that began after the call ended. */
function nearest(call: Span, proofs: readonly Span[]) {
  const before = proofs[countUpTo(proofs, call.begun, ({ ended }) => ended) - 1] ?? null;
  let next = countUpTo(proofs, call.ended, ({ ended }) => ended);
  while (next < proofs.length && (proofs[next] as Span).begun <= call.ended) next++;
  return { before, after: proofs[next] ?? null };
}

/** Counts the values that are at most `most`. @param values sorted by `of` */
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

/** Inserts a value where the order by `of` puts it. */
function insert<T>(values: T[], value: T, of: (value: T) => number): void {
  const place = values.findLastIndex((other) => of(other) <= of(value)) + 1;
  values.splice(place, 0, value);
}
