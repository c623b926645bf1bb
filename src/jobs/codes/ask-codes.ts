import { setImmediate as turn } from 'node:timers/promises';
import { hearAccount, hearCode } from '../../domain/codes/outcome.js';
import {
  canaryToAsk,
  proofsAfterCodes,
  proofsBeforeCodes,
  type NeededProof,
  type ProofPlan,
} from '../../domain/codes/proofs.js';
import type { Purchase } from '../../domain/item.js';
import type { Reply } from '../../domain/reply.js';
import type { CallOptions, Marketplace, Sourced } from '../../marketplace/types.js';
import { Agenda } from './agenda.js';
import { Journal, type Ended, type TimedCall } from './journal.js';
import { CANARY_LOST, failedProof, isOutage } from './stop.js';
import type { AskOptions, AskReport, Stop } from './types.js';
import { Verdicts } from './verdicts.js';
import { Weather } from './weather.js';

/** The operations that codes are asked with. */
export type CodeMarketplace = Pick<Marketplace, 'account' | 'validate'>;

/**
 * Denials that wait before an account proof is asked for them beside the codes: at most so many
 * calls, and those under way, are in vain when a process is killed.
 */
const PROVE_DENIALS = 50;
/** Codes begun since the last account proof after which a single denial gets its own. */
const PROVE_CODES = 150;
/** As long, at least, when many wait: some of them may wait for a canary, which is asked for in time. */
const PROVE_CODES_LEAST = 25;

/** Proofs that denials may need to count, a canary and account details. */
const CLOSING_PROOFS = 2;
/**
 * Codes under way that were asked for in vain: most of them may be denied in a row, as before, and while
 * more are under way their run may become too long before anybody can look into it.
 */
const AGAIN_AT_ONCE = 16;

/**
 * Asks the marketplace for codes and judges what it says: keeps validations under way, asks for the
 * proofs that the rules need when they need them, and goes on with codes while it waits for those,
 * so that the budget is the only thing that is waited for. Calls wait for the budget as audits do.
 *
 * Ends when all codes are settled or have been asked for often enough; early when the server asks
 * for a pause, when nothing can be proven, and on an abort, which cuts the calls under way. Whatever
 * was answered until then is judged. Closing it ends it early too, but with the proofs that are due.
 * @throws what the client or `onSettled` throws that is not an abort
 */
export function askCodes(marketplace: CodeMarketplace, options: AskOptions): Promise<AskReport> {
  return new Asking(marketplace, options).run();
}

class Asking {
  readonly #marketplace: CodeMarketplace;
  readonly #options: AskOptions;
  readonly #agenda: Agenda;
  readonly #journal: Journal;
  readonly #verdicts: Verdicts;
  readonly #weather = new Weather(() => this.#tryCanary());
  readonly #cut = new AbortController();
  readonly #call: CallOptions;
  readonly #made = { codes: 0, proofs: 0 };
  readonly #underWay = new Set<string>();
  #codesSinceProof = 0;
  /** The end of an account proof by which denials are still to be judged. */
  #proofEnd: number | null = null;
  /** The last plan let codes be asked for, and nothing was heard since that could change it. */
  #isClear = false;
  /** What was denied before the next silence that is to be expected has its proofs. */
  #isProvenAhead = false;
  #stop: Stop | null = null;
  #failure: { readonly error: unknown } | null = null;
  #isNews = false;
  #wake: (() => void) | null = null;
  /**
   * Codes that may still be asked for in this turn as soon as others are answered, before those are
   * judged: the marketplace would have to wait for that. None but while replies are waited for.
   */
  #refills = 0;

  constructor(marketplace: CodeMarketplace, options: AskOptions) {
    this.#marketplace = marketplace;
    this.#options = options;
    const { account, codes, canaries, denialsNeeded = () => 1, carried = null } = options;
    this.#agenda = new Agenda(codes, denialsNeeded);
    const subject = { account, canaries, denialsNeeded };
    this.#journal = new Journal(subject, options, carried, options.now());
    this.#verdicts = new Verdicts(
      this.#journal,
      (code, why) => this.#agenda.inVain(code, why),
      (code) => this.#underWay.has(code),
    );
    this.#call = { priority: 'audit', signal: AbortSignal.any([options.signal, this.#cut.signal]) };
  }

  async run(): Promise<AskReport> {
    do {
      await this.#askAll();
      await this.#proveRest();
      this.#isProvenAhead = true;
    } while (!this.#isOver && !this.#agenda.isEmpty);
    if (this.#failure !== null) throw this.#failure.error;
    return this.#report();
  }

  get #isOver(): boolean {
    return this.#stop !== null || this.#isCut || this.#isClosing;
  }

  get #isCut(): boolean {
    return this.#failure !== null || this.#options.signal.aborted;
  }

  get #isClosing(): boolean {
    return this.#options.closing?.aborted === true;
  }

  /** Asks for all codes on the agenda and waits for the last reply. */
  async #askAll(): Promise<void> {
    for (;;) {
      await this.#settle();
      this.#fill();
      if (this.#journal.isIdle && !this.#isNews) return;
      this.#refills = this.#options.concurrency;
      await this.#news();
      this.#refills = 0;
    }
  }

  /** Begins as many calls as may be under way. */
  #fill(): void {
    while (!this.#isOver && !this.#weather.isDoubtful && !this.#agenda.isEmpty) {
      if (this.#waitsForSilence()) return;
      this.#proveOpen();
      if (!this.#isClear && this.#follow(this.#plan()) !== 'codes') return;
      if (this.#journal.underWay.codes >= this.#atOnce) return;
      this.#askCode(this.#agenda.take());
    }
  }

  /**
   * Where the marketplace is about to fall silent, as when its limit is below the budget, no code is
   * asked for until what was denied has its proofs: after the silence they would come too late. Then
   * one at a time, since what waits for the end of the silence is in vain too.
   */
  #waitsForSilence(): boolean {
    const { repliesLeft, isIdle } = this.#journal;
    if (repliesLeft > CLOSING_PROOFS) {
      this.#isProvenAhead = false;
      return false;
    }
    return !isIdle || (!this.#isProvenAhead && this.#verdicts.openDenials > 0);
  }

  get #atOnce(): number {
    const { concurrency } = this.#options;
    return this.#agenda.isAgain ? Math.min(AGAIN_AT_ONCE, concurrency) : concurrency;
  }

  #plan(): ProofPlan {
    const { timeline, underWay } = this.#journal;
    // A plan for as many as may be under way holds for fewer too, and need not be made for each.
    const codes = Math.max(underWay.codes, this.#options.concurrency - 1);
    const plan = proofsBeforeCodes(timeline, { ...underWay, codes });
    this.#isClear = plan.next === 'codes';
    return this.#isClear ? plan : proofsBeforeCodes(timeline, underWay);
  }

  #follow({ ask, next }: ProofPlan): ProofPlan['next'] {
    for (const proof of ask) this.#askProof(proof);
    if (next === 'end') this.#stop ??= failedProof(this.#journal.timeline) ?? CANARY_LOST;
    return next;
  }

  /** Once in a while, and without waiting for it, asks for the account proof that denials wait for. */
  #proveOpen(): void {
    const { openDenials } = this.#verdicts;
    // What waits when the marketplace falls silent is in vain too.
    const isPatient = openDenials < PROVE_DENIALS && !this.#journal.isInterrupted;
    const patience = isPatient ? PROVE_CODES : PROVE_CODES_LEAST;
    if (openDenials === 0 || this.#codesSinceProof < patience) return;
    if (this.#journal.underWay.account) return;
    this.#codesSinceProof = 0;
    const needed = proofsAfterCodes(this.#journal.timeline);
    for (const proof of needed) if (proof.kind === 'account') this.#askProof(proof);
  }

  /** Asks for what the last denials lack, unless the marketplace is not to be asked. */
  async #proveRest(): Promise<void> {
    if (this.#stop !== null && isOutage(this.#stop)) await this.#doubtOutage(this.#stop);
    for (;;) {
      const stop = this.#stop;
      const mayAsk = stop === null || stop.reason === 'canary-lost' || stop.isContradicted === true;
      if (!mayAsk || this.#isCut) return;
      const [needed] = proofsAfterCodes(this.#journal.timeline);
      if (needed === undefined) {
        // What waits for a proof still will not get it: as long as proofs fail, or because of one
        // that failed.
        const waits = this.#verdicts.stopWaiting();
        if (waits) this.#stop ??= failedProof(this.#journal.timeline);
        return;
      }
      this.#askProof(needed);
      await this.#news();
      await this.#settle();
    }
  }

  /**
   * What looks like an outage is but a guess: where no code is known to tell it from codes on which the
   * marketplace fails, account details have a say.
   */
  async #doubtOutage(stop: Stop): Promise<void> {
    if (this.#isCut || canaryToAsk(this.#journal.timeline) !== null) return;
    this.#askProof({ kind: 'account' });
    await this.#news();
    const last = this.#journal.timeline.calls.findLast(({ kind }) => kind === 'account');
    if (last?.outcome.kind === 'affirmed') this.#stop = { ...stop, isContradicted: true };
    await this.#settle();
  }

  #askCode(code: string): void {
    this.#made.codes++;
    this.#codesSinceProof++;
    this.#underWay.add(code);
    const ask = () => this.#marketplace.validate(code, this.#call);
    void this.#ask('code', ask, (span, reply) => {
      this.#underWay.delete(code);
      const call = validated('code', code, span, reply);
      this.#verdicts.hear(call, reply.kind === 'answered' ? reply.data : null);
      return call;
    });
  }

  #askProof(proof: NeededProof): void {
    this.#made.proofs++;
    if (proof.kind === 'canary') {
      const { kind, code } = proof;
      const ask = () => this.#marketplace.validate(code, this.#call);
      void this.#ask(kind, ask, (span, reply) => validated(kind, code, span, reply));
      return;
    }
    const { kind } = proof;
    this.#codesSinceProof = 0;
    const ask = () => this.#marketplace.account(this.#call);
    void this.#ask(kind, ask, ({ begun, ended, at }, reply) => {
      this.#proofEnd = ended;
      const { account, outcome, evidence } = hearAccount(reply);
      return { kind, account, begun, ended, at, outcome, evidence };
    });
  }

  /** Makes a call and enters what was heard. A call that was cut off has said nothing. */
  async #ask<T>(
    kind: TimedCall['kind'],
    ask: () => Promise<Reply<T>>,
    hear: (span: Ended, reply: Reply<T>) => TimedCall,
  ): Promise<void> {
    const begun = this.#journal.begin(kind);
    try {
      const reply = await ask();
      const call = hear(this.#journal.end(begun, this.#options.now()), reply);
      this.#journal.add(call);
      this.#isClear &&= call.kind === 'code' && call.outcome.kind === 'affirmed';
      const stop = this.#weather.hear(call, reply);
      this.#stop ??= stop;
      if (this.#isClear && this.#refills > 0) {
        this.#refills--;
        this.#fill();
      }
    } catch (error) {
      this.#journal.cutOff(begun);
      if (!this.#options.signal.aborted) this.#fail(error);
    }
    this.#isNews = true;
    this.#wake?.();
  }

  /** @returns false when there is none to ask */
  #tryCanary(): boolean {
    if (this.#journal.underWay.canary) return true;
    const code = canaryToAsk(this.#journal.timeline);
    if (code !== null) this.#askProof({ kind: 'canary', code });
    return code !== null;
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
    this.#cut.abort(error);
  }

  /** Tells of what can be judged now: denials when a proof has ended, and all begun before it too. */
  async #settle(): Promise<void> {
    this.#isNews = false;
    const settled = this.#verdicts.settleFound();
    const { isIdle, quiet } = this.#journal;
    if (isIdle || (this.#proofEnd !== null && this.#proofEnd <= quiet)) {
      this.#proofEnd = null;
      settled.push(...this.#verdicts.settleDenied());
    }
    if (settled.length === 0) return;
    try {
      await this.#options.onSettled?.(settled);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Returns when a call has ended since the last look, and with it those that ended just then. */
  async #news(): Promise<void> {
    if (!this.#isNews) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    await turn();
  }

  #report(): AskReport {
    const { timeline } = this.#journal;
    const aborted: Stop = { reason: 'aborted', notBefore: null, detail: null };
    const closed = this.#isClosing ? aborted : null;
    return {
      judgements: this.#verdicts.all,
      left: this.#agenda.left,
      stop: this.#options.signal.aborted ? aborted : (this.#stop ?? closed),
      calls: this.#made,
      account: timeline.account,
      lostCanaries: timeline.calls.flatMap((call) =>
        call.kind === 'canary' && call.outcome.kind === 'denied' ? [call.code] : [],
      ),
      carried: this.#journal.carried,
    };
  }
}

/**
 * A call that asked for a code. Written out, and so of one shape: the rules look at all calls again
 * and again.
 */
function validated<K extends 'code' | 'canary'>(
  kind: K,
  code: string,
  { begun, ended, at }: Ended,
  reply: Reply<Sourced<Purchase>>,
) {
  const { outcome, evidence } = hearCode(code, reply);
  return { kind, code, begun, ended, at, outcome, evidence };
}
