import { setImmediate as turn } from 'node:timers/promises';
import { CODES_PER_ACCOUNT_CALL } from '../../domain/codes/cost.js';
import { readAccountReply, readCodeReply } from '../../domain/codes/outcome.js';
import {
  MAX_DENIALS_IN_ROW,
  Proofs,
  maxGapMs,
  type Call,
  type CodeCall,
  type Span,
} from '../../domain/codes/proof.js';
import type { Purchase } from '../../domain/item.js';
import type { Reply } from '../../domain/reply.js';
import type { CallOptions, Sourced } from '../../marketplace/types.js';
import { Canaries, CodeQueue } from './code-queue.js';
import { OutageDetector } from './outage.js';
import { Throttle } from './pace.js';
import type {
  BatchOptions,
  BatchReport,
  BatchState,
  CodeMarketplace,
  CountedCode,
  Stop,
} from './types.js';

/** Send a canary after this many denials in a row. With the calls in flight it must stay below `MAX_DENIALS_IN_ROW`. */
const DENIALS_BEFORE_CANARY = 17;
/** Take a checkpoint after this share of the longest gap. Below one half: a limit by the minute may delay it. */
const CHECKPOINT_AT_SHARE = 0.48;
/** Codes sent without a working canary, in case one of them turns out to be valid. */
const MAX_CODES_WITHOUT_CANARY = 100;
/** Stop after this many account requests in a row that showed a bad key or API. */
const MAX_FAILED_ACCOUNTS = 2;

const CANARY_LOST: Stop = { reason: 'canary-lost', notBefore: null, detail: null };
const ABORTED: Stop = { reason: 'aborted', notBefore: null, detail: null };
const NOTHING_DUE = { account: false, code: false };

/**
 * Validates a batch of codes and yields each once it was found or its denial counts. It keeps several calls
 * in flight, and sends no further code while its reader is busy. Beside the codes it takes the checkpoints
 * that `domain/codes/proof.ts` demands:
 *
 * - a canary after every `DENIALS_BEFORE_CANARY` denials in a row; any valid answer serves as one
 * - account details after `CODES_PER_ACCOUNT_CALL` codes or one minute
 * - both before the first code and after the last denial
 *
 * Iteration ends when every code is yielded or out of tries. It ends early when the server asks for a
 * pause, when the key proves to be bad, and on an abort or when the reader leaves; the last two cancel
 * the calls in flight. `closing` ends it early too, after one last checkpoint. Errors of the client are
 * thrown, except those of an abort. Read `report` afterwards.
 */
export class BatchValidator implements AsyncIterable<readonly CountedCode[]> {
  readonly #marketplace: CodeMarketplace;
  readonly #options: BatchOptions;
  readonly #proofs: Proofs;
  readonly #queue: CodeQueue;
  readonly #canaries: Canaries;
  readonly #outage = new OutageDetector();
  readonly #canceller = new AbortController();
  readonly #callOptions: CallOptions;
  readonly #maxGapMs: number;
  readonly #throttle: Throttle;

  /** Sequence numbers at which the calls in flight began, ascending. */
  readonly #inFlight = new Set<number>();
  readonly #inFlightOf: Record<Call['kind'], number> = { account: 0, code: 0, canary: 0 };
  /** Raised by each start and each end of a call. */
  #sequence = 0;
  /** Denials that still need a checkpoint after them. */
  readonly #pendingDenials = new Set<CodeCall>();
  #counted: CountedCode[] = [];
  #codesSinceAccount = 0;
  /** Codes sent in a row while no canary worked. */
  #codesWithoutCanary = 0;
  #failedAccounts = 0;

  #stop: Stop | null = null;
  #failure: { readonly error: unknown } | null = null;
  /** A call has ended since the main loop last looked. */
  #hasEndedCall = false;
  #wake: (() => void) | null = null;

  constructor(marketplace: CodeMarketplace, options: BatchOptions) {
    const { account, canaries, startState = null, spacingMs, signal } = options;
    this.#marketplace = marketplace;
    this.#options = options;
    this.#maxGapMs = maxGapMs(spacingMs);
    this.#throttle = new Throttle(options.concurrency, startState?.denialsPerCheckpoint);
    this.#proofs = new Proofs(account, canaries.length > 0, this.#maxGapMs);
    for (const call of startState?.checkpoint ?? []) this.#proofs.add(call);
    this.#queue = new CodeQueue(options.codes);
    this.#canaries = new Canaries(canaries, startState?.canary ?? null, options.extraCodes ?? []);
    const anySignal = AbortSignal.any([signal, this.#canceller.signal]);
    this.#callOptions = { priority: 'audit', signal: anySignal };
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<readonly CountedCode[], void, undefined> {
    try {
      for (;;) {
        this.#hasEndedCall = false;
        this.#judgeDenials();
        this.#requestProofs();
        while (this.#maySendCode()) this.#validate('code', this.#queue.next());
        if (this.#counted.length > 0) yield this.#counted.splice(0);
        if (this.#inFlight.size === 0 && !this.#hasEndedCall) break;
        await this.#callEnd();
      }
      if (this.#failure !== null) throw this.#failure.error;
      this.#giveUpPendingDenials();
    } finally {
      this.#canceller.abort();
      for (; this.#inFlight.size > 0; await this.#callEnd()) this.#hasEndedCall = false;
    }
  }

  /** Waits until a call has ended, and one turn more so that replies that came together count together. */
  async #callEnd(): Promise<void> {
    if (!this.#hasEndedCall) await new Promise<void>((resolve) => (this.#wake = resolve));
    await turn();
  }

  get #isCancelled(): boolean {
    return this.#failure !== null || this.#options.signal.aborted;
  }

  get #hasCodes(): boolean {
    const isClosing = this.#options.closing?.aborted === true;
    return !this.#isCancelled && this.#stop === null && !isClosing && !this.#queue.isEmpty;
  }

  #requestProofs(): void {
    if (this.#isCancelled || (this.#stop !== null && this.#stop !== CANARY_LOST)) return;
    const { isSuspected } = this.#outage;
    const due = this.#proofsDue();
    const canary = due.code || isSuspected ? this.#canaries.next : null;
    if (canary !== null && this.#inFlightOf.canary === 0) this.#validate('canary', canary);
    const isAccountDue = due.account || (isSuspected && canary === null);
    if (isAccountDue && this.#inFlightOf.account === 0) this.#requestAccount();
  }

  /** Which parts of a checkpoint are due now: account details, a valid code. */
  #proofsDue(): { readonly account: boolean; readonly code: boolean } {
    const proofs = this.#proofs;
    if (proofs.otherAccount !== null) return NOTHING_DUE;
    const hasPending = this.#pendingDenials.size > 0;
    const isQuiet = this.#inFlightOf.code === 0;
    if (!this.#hasCodes || this.#pendingDenials.size >= this.#throttle.denialsPerCheckpoint) {
      // The checkpoint after the last denials may begin only when the last code's call has ended.
      return hasPending && isQuiet ? proofs.missingAfter(this.#pendingDenials) : NOTHING_DUE;
    }
    // A refresh waits for the codes in flight: their checkpoints would lie on both sides of it, too far apart.
    const isDue = (proof: Span | null): boolean =>
      proof === null || (isQuiet && this.#isExpiring(proof));
    const isRowLong = proofs.denialsInRow >= DENIALS_BEFORE_CANARY;
    const areMany = hasPending && this.#codesSinceAccount >= CODES_PER_ACCOUNT_CALL;
    const { currentAccountProof, currentCodeProof, needsValidCode } = proofs;
    return {
      account: isDue(currentAccountProof) || areMany || (isRowLong && !needsValidCode),
      code: needsValidCode && (isDue(currentCodeProof) || isRowLong),
    };
  }

  /** Whether a proof is getting too old for the denials that are pending, or will be. */
  #isExpiring(proof: Span): boolean {
    if (!this.#queue.isRetrying && this.#pendingDenials.size === 0) return false;
    return this.#options.now() - proof.beganAt > this.#maxGapMs * CHECKPOINT_AT_SHARE;
  }

  /** Checkpoints need a valid code, and the last one no longer counts. */
  get #lacksValidCode(): boolean {
    return this.#proofs.needsValidCode && this.#proofs.currentCodeProof === null;
  }

  #maySendCode(): boolean {
    if (!this.#hasCodes || this.#outage.isSuspected) return false;
    const { currentAccountProof, currentCodeProof, denialsInRow } = this.#proofs;
    if (currentAccountProof === null || this.#isExpiring(currentAccountProof)) return false;
    if (currentCodeProof !== null && this.#isExpiring(currentCodeProof)) return false;
    const { code: codes, canary: canaries, account } = this.#inFlightOf;
    // A retry must not fall into the gap that its first try fell into.
    if (this.#queue.isRetrying && canaries > 0) return false;
    if (this.#lacksValidCode) {
      // A code of the list may prove to be valid and serve as the canary; its denials are retried then.
      if (canaries > 0 || this.#canaries.next !== null || this.#queue.isRetrying) return false;
      if (this.#codesWithoutCanary >= MAX_CODES_WITHOUT_CANARY) {
        this.#stop = CANARY_LOST;
        return false;
      }
    }
    if (codes >= this.#throttle.maxInFlight(this.#pendingDenials.size)) return false;
    // Codes that could make the row of denials too long wait for the proof that is in flight.
    const expectedDenials = Math.ceil(codes * this.#throttle.deniedShare);
    return denialsInRow + expectedDenials < MAX_DENIALS_IN_ROW || canaries + account === 0;
  }

  #validate(kind: CodeCall['kind'], code: string): void {
    if (kind === 'code') {
      this.#codesSinceAccount++;
      this.#codesWithoutCanary = this.#lacksValidCode ? this.#codesWithoutCanary + 1 : 0;
    }
    const request = () => this.#marketplace.validate(code, this.#callOptions);
    void this.#send(kind, request, (span, reply) => {
      const call: CodeCall = { kind, code, ...span, ...readCodeReply(code, reply) };
      if (kind === 'canary') this.#canaries.recordReply(call);
      else this.#recordCodeReply(call, reply);
      return call;
    });
  }

  #requestAccount(): void {
    this.#codesSinceAccount = 0;
    const request = () => this.#marketplace.account(this.#callOptions);
    void this.#send('account', request, (span, reply) => {
      const call: Call = { kind: 'account', ...span, ...readAccountReply(reply) };
      const { outcome, evidence } = call;
      if (outcome.kind === 'success') this.#failedAccounts = 0;
      else if (outcome.kind === 'suspect' && ++this.#failedAccounts >= MAX_FAILED_ACCOUNTS) {
        const reason = outcome.reason === 'another-code' ? 'refused' : outcome.reason;
        this.#stop ??= { reason, notBefore: null, detail: evidence.message };
      }
      return call;
    });
  }

  /** Makes a call and records its reply. A call that was cancelled leaves no trace. */
  async #send<T>(
    kind: Call['kind'],
    request: () => Promise<Reply<T>>,
    record: (span: Span, reply: Reply<T>) => Call,
  ): Promise<void> {
    const { now, signal } = this.#options;
    const [begun, beganAt] = [++this.#sequence, now()];
    this.#inFlight.add(begun);
    this.#inFlightOf[kind]++;
    try {
      const reply = await request();
      const endedAt = now();
      const call = record({ begun, ended: ++this.#sequence, beganAt, endedAt }, reply);
      this.#proofs.add(call);
      const { otherAccount } = this.#proofs;
      if (otherAccount !== null && otherAccount === call) {
        const detail = `the API key opened the account "${otherAccount.account}"`;
        this.#stop ??= { reason: 'account-changed', notBefore: null, detail };
      }
      this.#stop ??= this.#outage.recordReply(call, reply, this.#canaries.next !== null, endedAt);
      if (call.outcome.kind === 'success' && kind !== 'account') {
        // The key is good, so a canary that it denied may have become invalid: check it like a code.
        this.#queue.retry(this.#canaries.denied);
        this.#canaries.denied.clear();
      }
    } catch (error) {
      if (!signal.aborted) this.#failure ??= { error };
      this.#canceller.abort();
    }
    this.#inFlight.delete(begun);
    this.#inFlightOf[kind]--;
    this.#hasEndedCall = true;
    this.#wake?.();
  }

  #recordCodeReply(call: CodeCall, reply: Reply<Sourced<Purchase>>): void {
    const { outcome } = call;
    if (outcome.kind !== 'success' && outcome.kind !== 'denied') {
      return this.#queue.fail(call, outcome.reason);
    }
    this.#throttle.recordReply(outcome.kind === 'denied');
    if (outcome.kind === 'denied') this.#pendingDenials.add(call);
    else if (reply.kind === 'answered') {
      const { code, evidence, endedAt: at } = call;
      this.#canaries.found ??= code;
      this.#count({ kind: 'found', code, proof: 'purchase', evidence, at, answer: reply.data });
    }
  }

  #count(one: CountedCode): void {
    this.#queue.unproven.delete(one.code);
    this.#counted.push(one);
  }

  /** Counts the denials that are proven by now; retries those that never will be. */
  #judgeDenials(): void {
    if (this.#pendingDenials.size === 0) return;
    const now = this.#options.now();
    const [oldest = this.#sequence + 1] = this.#inFlight.keys();
    let hasGap = false;
    for (const denial of this.#pendingDenials) {
      const judgement = this.#proofs.judgeDenial(denial, oldest, now);
      if (judgement === 'pending') continue;
      this.#pendingDenials.delete(denial);
      if (typeof judgement === 'object') {
        this.#throttle.countProvenDenial();
        const { code, evidence, endedAt: at } = denial;
        const { proof } = this.#proofs;
        this.#count({ kind: 'denied', code, proof, evidence, at, checkpoints: judgement });
      } else {
        hasGap ||= judgement === 'gap';
        this.#queue.fail(denial, judgement);
      }
    }
    if (hasGap) this.#throttle.slowDown();
  }

  /** Marks denials as unproven at the end: no checkpoint will follow them. */
  #giveUpPendingDenials(): void {
    const { unproven } = this.#queue;
    const reason = this.#proofs.needsValidCode ? 'no-canary-after' : 'no-account-after';
    for (const { code, evidence, endedAt: at } of this.#pendingDenials) {
      unproven.set(code, { reason, evidence, at });
    }
    const isCanaryLost = this.#lacksValidCode && this.#canaries.lost.size > 0;
    if (!isCanaryLost || this.#canaries.next !== null) return;
    for (const [code, result] of unproven) {
      if (result.reason !== 'no-canary-before' && result.reason !== 'no-canary-after') continue;
      unproven.set(code, { ...result, reason: 'no-canary' });
      this.#stop ??= CANARY_LOST;
    }
  }

  get report(): BatchReport {
    const { signal, closing } = this.#options;
    return {
      unproven: this.#queue.report(),
      left: this.#queue.left,
      stop: signal.aborted ? ABORTED : (this.#stop ?? (closing?.aborted === true ? ABORTED : null)),
      account: this.#proofs.account,
      lostCanaries: [...this.#canaries.lost],
      endState: this.#endState(),
    };
  }

  /** Drops a checkpoint that denials have followed: the next batch could not rely on it. */
  #endState(): BatchState {
    const { currentAccountProof, currentCodeProof, denialsInRow } = this.#proofs;
    const isWhole = currentAccountProof !== null && !this.#lacksValidCode && denialsInRow === 0;
    const checkpoint = (isWhole ? [currentAccountProof, currentCodeProof] : []).flatMap((call) => {
      if (call === null) return [];
      return { ...call, begun: call.begun - this.#sequence, ended: call.ended - this.#sequence };
    });
    const isPaused = (this.#stop?.notBefore ?? 0) - this.#options.now() > this.#maxGapMs / 2;
    const denialsPerCheckpoint = this.#throttle.denialsAfter(isPaused, this.#pendingDenials.size);
    return { checkpoint, canary: this.#canaries.found, denialsPerCheckpoint };
  }
}
