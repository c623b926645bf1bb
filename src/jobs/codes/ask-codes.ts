import { setImmediate as turn } from 'node:timers/promises';
import { readAccountReply, readCodeReply } from '../../domain/codes/outcome.js';
import {
  MAX_DENIALS_IN_ROW,
  Proofs,
  maxGapMs,
  type Call,
  type Checkpoints,
  type CodeCall,
  type Span,
} from '../../domain/codes/proof.js';
import type { Purchase } from '../../domain/item.js';
import type { Reply } from '../../domain/reply.js';
import type { CallOptions, Sourced } from '../../marketplace/types.js';
import { Canaries, CodeQueue } from './codes-to-ask.js';
import { OutageDetector } from './outage.js';
import { Throttle } from './pace.js';
import type {
  BatchOptions,
  BatchReport,
  BatchState,
  CodeMarketplace,
  SettledCode,
  Stop,
} from './types.js';

/** Denials since the last find after which a canary is asked for. With those under way it must stay below `MAX_DENIALS_IN_ROW`. */
const ROW_FOR_CANARY = 17;
/** Codes asked for since the last account details, while denials wait for them. */
const CODES_AN_ACCOUNT = 100;
/**
 * The part of the longest gap after which a checkpoint is due. Less than half of it: where a limit by
 * the minute makes calls wait until the next one, a checkpoint is due then.
 */
const CHECKPOINT_AT = 0.48;
/** Codes asked for without a canary in the hope that one of them is found. */
const HOPE = 100;
/** Account details that may fail, one after another, before asking stops. */
const PATIENCE = 2;

const CANARY_LOST: Stop = { reason: 'canary-lost', notBefore: null, detail: null };
const ABORTED: Stop = { reason: 'aborted', notBefore: null, detail: null };

/**
 * Asks the marketplace for codes and yields those that are settled, as soon as that is certain. Keeps
 * calls under way, and takes the checkpoints that `domain/codes/proof.ts` demands beside them: a canary
 * after every `ROW_FOR_CANARY` denials in a row, account details after `CODES_AN_ACCOUNT` codes or a
 * minute, both before the first code and after the last denial. Any valid answer serves as the canary.
 * While its reader is busy no further code is asked for.
 *
 * Ends when every code is settled or was asked for often enough; early when the server asks for a
 * pause, when the key proves to be bad, and on an abort or when its reader leaves, which cut the calls
 * under way. Closing it ends it early too, but with the checkpoint that is due. Throws what the client
 * throws that is not an abort. Then `report` has the rest.
 */
export class BatchValidator implements AsyncIterable<readonly SettledCode[]> {
  readonly #marketplace: CodeMarketplace;
  readonly #options: BatchOptions;
  readonly #proofs: Proofs;
  readonly #codes: CodeQueue;
  readonly #canaries: Canaries;
  readonly #outage = new OutageDetector();
  readonly #cut = new AbortController();
  readonly #call: CallOptions;
  readonly #gapMs: number;
  readonly #throttle: Throttle;

  /** Calls under way by the numbers of their beginnings, in that order. */
  readonly #underWay = new Set<number>();
  readonly #counts: Record<Call['kind'], number> = { account: 0, code: 0, canary: 0 };
  /** The number of the last beginning or end of a call. */
  #number = 0;
  /** Denials whose next checkpoint is still to come. */
  readonly #waiting = new Set<CodeCall>();
  #settled: SettledCode[] = [];
  #codesSinceAccount = 0;
  /** Codes asked for since a find stood. */
  #codesSinceFind = 0;
  #failedAccounts = 0;

  #stop: Stop | null = null;
  #failure: { readonly error: unknown } | null = null;
  /** Whether a call has ended since the last look. */
  #isNews = false;
  #wake: (() => void) | null = null;

  constructor(marketplace: CodeMarketplace, options: BatchOptions) {
    const { account, canaries, startState = null, spacingMs, signal } = options;
    this.#marketplace = marketplace;
    this.#options = options;
    this.#gapMs = maxGapMs(spacingMs);
    this.#throttle = new Throttle(
      options.concurrency,
      startState?.denialsPerCheckpoint ?? Infinity,
    );
    this.#proofs = new Proofs(account, canaries.length > 0, this.#gapMs);
    for (const call of startState?.checkpoint ?? []) this.#proofs.add(call);
    this.#codes = new CodeQueue(options.codes);
    this.#canaries = new Canaries(canaries, startState?.canary ?? null, options.also ?? []);
    this.#call = { priority: 'audit', signal: AbortSignal.any([signal, this.#cut.signal]) };
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<readonly SettledCode[], void, undefined> {
    try {
      for (;;) {
        this.#isNews = false;
        this.#judgeDenials();
        this.#askForProofs();
        while (this.#mayAskForCode()) this.#validate('code', this.#codes.take());
        if (this.#settled.length > 0) yield this.#settled.splice(0);
        if (this.#underWay.size === 0 && !this.#isNews) break;
        await this.#news();
      }
      if (this.#failure !== null) throw this.#failure.error;
      this.#giveUpWaiting();
    } finally {
      this.#cut.abort();
      for (; this.#underWay.size > 0; await this.#news()) this.#isNews = false;
    }
  }

  async #news(): Promise<void> {
    if (!this.#isNews) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    await turn();
  }

  #count(kind: Call['kind']): number {
    return this.#counts[kind];
  }

  get #isCut(): boolean {
    return this.#failure !== null || this.#options.signal.aborted;
  }

  get #hasCodes(): boolean {
    if (this.#isCut || this.#stop !== null || this.#options.closing?.aborted === true) return false;
    return !this.#codes.isEmpty;
  }

  #askForProofs(): void {
    if (this.#isCut || (this.#stop !== null && this.#stop !== CANARY_LOST)) return;
    const { isSuspected } = this.#outage;
    const due = this.#proofsDue();
    const canary = due.code || isSuspected ? this.#canaries.next : null;
    if (canary !== null && this.#count('canary') === 0) this.#validate('canary', canary);
    const isAccountDue = due.account || (isSuspected && canary === null);
    if (isAccountDue && this.#count('account') === 0) this.#askForAccount();
  }

  /** Which parts of a checkpoint are due now. */
  #proofsDue(): { readonly account: boolean; readonly code: boolean } {
    const { currentAccountProof, currentCodeProof, needsValidCode, denialsInRow, otherAccount } =
      this.#proofs;
    if (otherAccount !== null) return { account: false, code: false };
    if (!this.#hasCodes || this.#waiting.size >= this.#throttle.denialsPerCheckpoint) {
      // The last denials lack a checkpoint after them; the last calls must have ended before it begins.
      const isTime = this.#waiting.size > 0 && this.#count('code') === 0;
      return isTime ? this.#proofs.missingAfter(this.#waiting) : { account: false, code: false };
    }
    // What runs beside a proof has its checkpoints on both sides of that: too far apart.
    const mayRefresh = this.#count('code') === 0;
    const isDue = (one: Span | null): boolean => one === null || (mayRefresh && this.#isOld(one));
    const isRowLong = denialsInRow >= ROW_FOR_CANARY;
    const areMany = this.#waiting.size > 0 && this.#codesSinceAccount >= CODES_AN_ACCOUNT;
    return {
      account: isDue(currentAccountProof) || areMany || (isRowLong && !needsValidCode),
      code: needsValidCode && (isDue(currentCodeProof) || isRowLong),
    };
  }

  /** Whether a proof is too old, which matters where denials wait for the next checkpoint, or will. */
  #isOld(proof: Span): boolean {
    if (!this.#codes.isAgain && this.#waiting.size === 0) return false;
    return this.#options.now() - proof.beganAt > this.#gapMs * CHECKPOINT_AT;
  }

  #mayAskForCode(): boolean {
    if (!this.#hasCodes || this.#outage.isSuspected) return false;
    const { currentAccountProof, currentCodeProof, needsValidCode, denialsInRow } = this.#proofs;
    if (currentAccountProof === null) return false;
    const [codes, canaries] = [this.#count('code'), this.#count('canary')];
    // What is asked for again must not fall into the same gap.
    if (this.#codes.isAgain && canaries > 0) return false;
    if (this.#isOld(currentAccountProof)) return false;
    if (needsValidCode && currentCodeProof !== null && this.#isOld(currentCodeProof)) return false;
    if (needsValidCode && currentCodeProof === null) {
      // While none is found, codes of the list may turn out to be valid; denials are asked again then.
      if (canaries > 0 || this.#canaries.next !== null || this.#codes.isAgain) return false;
      if (this.#codesSinceFind >= HOPE) {
        this.#stop = CANARY_LOST;
        return false;
      }
    }
    if (codes >= this.#throttle.most(this.#waiting.size)) return false;
    // Calls that would make the row too long wait for the canary.
    const isRowShort =
      denialsInRow + Math.ceil(codes * this.#throttle.deniedShare) < MAX_DENIALS_IN_ROW;
    return isRowShort || canaries + this.#count('account') === 0;
  }

  #validate(kind: CodeCall['kind'], code: string): void {
    if (kind === 'code') {
      const { needsValidCode, currentCodeProof } = this.#proofs;
      this.#codesSinceAccount++;
      this.#codesSinceFind =
        needsValidCode && currentCodeProof === null ? this.#codesSinceFind + 1 : 0;
    }
    const ask = () => this.#marketplace.validate(code, this.#call);
    void this.#ask(kind, ask, (span, reply) => {
      const call: CodeCall = { kind, code, ...span, ...readCodeReply(code, reply) };
      if (kind === 'canary') this.#canaries.hear(call);
      else this.#readCodeReply(call, reply);
      return call;
    });
  }

  #askForAccount(): void {
    this.#codesSinceAccount = 0;
    const ask = () => this.#marketplace.account(this.#call);
    void this.#ask('account', ask, (span, reply) => {
      const call: Call = { kind: 'account', ...span, ...readAccountReply(reply) };
      const { outcome, evidence } = call;
      if (outcome.kind === 'success') this.#failedAccounts = 0;
      else if (outcome.kind === 'suspect' && ++this.#failedAccounts >= PATIENCE) {
        const reason = outcome.reason === 'another-code' ? 'refused' : outcome.reason;
        this.#stop ??= { reason, notBefore: null, detail: evidence.message };
      }
      return call;
    });
  }

  /** Makes a call and takes in what was heard. A call that was cut off has said nothing. */
  async #ask<T>(
    kind: Call['kind'],
    ask: () => Promise<Reply<T>>,
    hear: (span: Span, reply: Reply<T>) => Call,
  ): Promise<void> {
    const { now, signal } = this.#options;
    const [begun, beganAt] = [++this.#number, now()];
    this.#underWay.add(begun);
    this.#counts[kind]++;
    try {
      const reply = await ask();
      const endedAt = now();
      const call = hear({ begun, ended: ++this.#number, beganAt, endedAt }, reply);
      this.#proofs.add(call);
      const { otherAccount } = this.#proofs;
      if (otherAccount !== null && otherAccount === call) {
        const detail = `the API key opened the account "${otherAccount.account}"`;
        this.#stop ??= { reason: 'account-changed', notBefore: null, detail };
      }
      this.#stop ??= this.#outage.hear(call, reply, this.#canaries.next !== null, endedAt);
      if (call.outcome.kind === 'success' && kind !== 'account') {
        // Denied canaries are codes that have changed, now that another shows that the key is good.
        this.#codes.add(this.#canaries.denied);
        this.#canaries.denied.clear();
      }
    } catch (error) {
      if (!signal.aborted) this.#failure ??= { error };
      this.#cut.abort();
    }
    this.#underWay.delete(begun);
    this.#counts[kind]--;
    this.#isNews = true;
    this.#wake?.();
  }

  #readCodeReply(call: CodeCall, reply: Reply<Sourced<Purchase>>): void {
    const { outcome } = call;
    if (outcome.kind !== 'success' && outcome.kind !== 'denied') {
      return this.#codes.fail(call, outcome.reason);
    }
    this.#throttle.hear(outcome.kind === 'denied');
    if (outcome.kind === 'denied') this.#waiting.add(call);
    else if (reply.kind === 'answered') {
      this.#canaries.found ??= call.code;
      this.#settle(call, null, reply.data);
    }
  }

  /** @param checkpoints those around a denial that counts; null where the code was found */
  #settle(call: CodeCall, checkpoints: Checkpoints | null, answer: SettledCode['answer'] = null) {
    const { code, evidence, endedAt: at } = call;
    const found = { kind: 'found', proof: 'purchase' } as const;
    const how = answer === null ? { kind: 'denied' as const, proof: this.#proofs.proof } : found;
    this.#codes.unproven.delete(code);
    this.#settled.push({ code, ...how, evidence, at, checkpoints, answer });
  }

  /** Settles the denials that count by now; those that never will are asked for again. */
  #judgeDenials(): void {
    if (this.#waiting.size === 0) return;
    const now = this.#options.now();
    const [oldest = this.#number + 1] = this.#underWay.keys();
    let hasGap = false;
    for (const denial of this.#waiting) {
      const judgement = this.#proofs.judgeDenial(denial, oldest, now);
      if (judgement === 'pending') continue;
      this.#waiting.delete(denial);
      if (typeof judgement === 'object') {
        this.#throttle.count();
        this.#settle(denial, judgement);
      } else {
        hasGap ||= judgement === 'gap';
        this.#codes.fail(denial, judgement);
      }
    }
    if (hasGap) this.#throttle.slowDown();
  }

  /** No checkpoint is coming for what still waits. */
  #giveUpWaiting(): void {
    const { unproven } = this.#codes;
    const { needsValidCode, currentCodeProof } = this.#proofs;
    for (const { code, evidence, endedAt: at } of this.#waiting) {
      const reason = needsValidCode ? 'no-canary-after' : 'no-account-after';
      unproven.set(code, { reason, evidence, at });
    }
    const isLost = needsValidCode && currentCodeProof === null && this.#canaries.lost.size > 0;
    if (!isLost || this.#canaries.next !== null) return;
    for (const [code, one] of unproven) {
      if (one.reason !== 'no-canary-before' && one.reason !== 'no-canary-after') continue;
      unproven.set(code, { ...one, reason: 'no-canary' });
      this.#stop ??= CANARY_LOST;
    }
  }

  get report(): BatchReport {
    const { signal, closing } = this.#options;
    return {
      unproven: this.#codes.report(),
      left: this.#codes.left,
      stop: signal.aborted ? ABORTED : (this.#stop ?? (closing?.aborted === true ? ABORTED : null)),
      account: this.#proofs.account,
      lostCanaries: [...this.#canaries.lost],
      endState: this.#carry(),
    };
  }

  /** A checkpoint from before denials that still want one proves nothing to those who ask next. */
  #carry(): BatchState {
    const { currentAccountProof, currentCodeProof, needsValidCode, denialsInRow } = this.#proofs;
    const isWhole =
      currentAccountProof !== null &&
      (currentCodeProof !== null || !needsValidCode) &&
      denialsInRow === 0;
    const checkpoint = (isWhole ? [currentAccountProof, currentCodeProof] : []).flatMap((call) => {
      if (call === null) return [];
      return { ...call, begun: call.begun - this.#number, ended: call.ended - this.#number };
    });
    const isPaused = (this.#stop?.notBefore ?? 0) - this.#options.now() > this.#gapMs / 2;
    const denialsPerCheckpoint = this.#throttle.denialsAfter(isPaused, this.#waiting.size);
    return { checkpoint, canary: this.#canaries.found, denialsPerCheckpoint };
  }
}
