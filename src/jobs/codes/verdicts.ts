import { sortEvidence } from '../../domain/codes/chunk-evidence.js';
import type { UnprovenReason } from '../../domain/codes/unproven.js';
import {
  denialFaults,
  judgeChunk,
  judgeCodes,
  type CodeJudgement,
  type FaultOf,
} from '../../domain/codes/verdict.js';
import type { Purchase } from '../../domain/item.js';
import type { Sourced } from '../../marketplace/types.js';
import type { Journal, TimedCall } from './journal.js';
import type { SettledCode } from './types.js';

type TimedCodeCall = TimedCall & { readonly kind: 'code' };

/** Faults of a denial that the next proof will mend. */
const AWAITS_PROOF: ReadonlySet<UnprovenReason> = new Set(['no-canary-after', 'no-account-after']);

/** Judges codes while they are asked for, each verdict as soon as it stands. */
export class Verdicts {
  readonly #journal: Journal;
  readonly #onVain: (code: string, reason: UnprovenReason) => void;
  readonly #isUnderWay: (code: string) => boolean;
  readonly #judgements = new Map<string, CodeJudgement>();
  /** Answers that were not judged yet. */
  #found: { readonly call: TimedCodeCall; readonly answer: Sourced<Purchase> }[] = [];
  /** Denials that may still be proven. */
  readonly #open = new Set<TimedCodeCall>();

  /**
   * @param onVain told when asking for a code came to nothing
   * @param isUnderWay whether a code is asked for just now
   */
  constructor(
    journal: Journal,
    onVain: (code: string, reason: UnprovenReason) => void,
    isUnderWay: (code: string) => boolean,
  ) {
    this.#journal = journal;
    this.#onVain = onVain;
    this.#isUnderWay = isUnderWay;
  }

  /** The judgement on every code that was heard of, as far as it goes. */
  get all(): ReadonlyMap<string, CodeJudgement> {
    return this.#judgements;
  }

  get openDenials(): number {
    return this.#open.size;
  }

  /** Takes denials that no proof is coming for as asked in vain; returns whether there were any. */
  stopWaiting(): boolean {
    const codes = [...new Set([...this.#open].map(({ code }) => code))].filter((code) =>
      AWAITS_PROOF.has(this.#judgements.get(code)?.reason as UnprovenReason),
    );
    for (const code of codes) {
      this.#close(code);
      this.#onVain(code, 'proof-failed');
    }
    return codes.length > 0;
  }

  /** @param answer null when the call affirmed nothing */
  hear(call: TimedCodeCall, answer: Sourced<Purchase> | null): void {
    const { kind } = call.outcome;
    if (kind === 'affirmed') {
      if (answer !== null) this.#found.push({ call, answer });
      return;
    }
    if (kind === 'denied') this.#open.add(call);
    const judgement = judgeChunk({ ...this.#journal.timeline, calls: [call] }).get(call.code);
    if (judgement === undefined) return;
    this.#judgements.set(call.code, judgement);
    if (kind !== 'denied') this.#vain(call.code, judgement);
  }

  /** Answers prove themselves, but for those that came to another account's key. */
  settleFound(): SettledCode[] {
    if (this.#found.length === 0) return [];
    const found = this.#found;
    this.#found = [];
    return found.flatMap(({ call, answer }) =>
      this.#conclude(call.code, this.#journal.judgeFind(call), answer),
    );
  }

  /** Judges the denials by what is certain while calls are under way, and forgets what that frees. */
  settleDenied(): SettledCode[] {
    if (this.#open.size === 0) return [];
    // Of later ones nothing can be certain yet.
    const { quiet, quietTimeline } = this.#journal;
    const certain = [...this.#open].filter(({ ended }) => ended <= quiet);
    const codes = new Set(certain.map(({ code }) => code));
    const evidence = sortEvidence(quietTimeline);
    const judgements = judgeCodes(quietTimeline, evidence, codes);
    const settled = [...codes].flatMap((code) => this.#conclude(code, judgements.get(code), null));
    this.#askUnconfirmed(quiet, denialFaults(evidence));
    this.#journal.forget(this.#open);
    return settled;
  }

  #conclude(
    code: string,
    judgement: CodeJudgement | undefined,
    answer: Sourced<Purchase> | null,
  ): SettledCode[] {
    if (judgement === undefined) return [];
    this.#judgements.set(code, judgement);
    if (judgement.verdict === 'unproven') {
      this.#vain(code, judgement);
      return [];
    }
    this.#close(code);
    const { at } = judgement.call as TimedCodeCall;
    return [{ code, judgement, at, answer }];
  }

  #vain(code: string, { reason }: CodeJudgement): void {
    if (AWAITS_PROOF.has(reason as UnprovenReason)) return;
    // Its denials still count for something.
    if (reason === 'unconfirmed') return;
    this.#close(code);
    this.#onVain(code, reason as UnprovenReason);
  }

  /**
   * Codes that must be denied once more are asked for again, unless a later denial of theirs waits for its
   * proof or is under way. Denials that came to nothing are forgotten; those proven count.
   */
  #askUnconfirmed(quiet: number, faultOf: FaultOf): void {
    const waiting = new Set<string>();
    for (const denial of this.#open) {
      const { code, ended } = denial;
      if (this.#judgements.get(code)?.reason !== 'unconfirmed') continue;
      const fault = ended <= quiet ? faultOf(denial) : null;
      const waits = ended > quiet || (fault !== null && AWAITS_PROOF.has(fault));
      if (waits || this.#isUnderWay(code)) waiting.add(code);
      else if (fault !== null) this.#open.delete(denial);
    }
    for (const { code } of this.#open) {
      if (waiting.has(code) || this.#judgements.get(code)?.reason !== 'unconfirmed') continue;
      this.#onVain(code, 'unconfirmed');
    }
  }

  #close(code: string): void {
    for (const call of this.#open) if (call.code === code) this.#open.delete(call);
  }
}
