import { setImmediate as turn } from 'node:timers/promises';
import { hearAccount, hearCode } from '../../domain/codes/outcome.js';
import {
  LONGEST_ROW,
  Proofs,
  longestGapMs,
  type Call,
  type CodeCall,
  type Span,
} from '../../domain/codes/proof.js';
import type { Purchase } from '../../domain/item.js';
import type { Reply } from '../../domain/reply.js';
import type { CallOptions, Marketplace, Sourced } from '../../marketplace/types.js';
import { Canaries } from './canaries.js';
import { CodesToAsk } from './codes-to-ask.js';
import { OutageWatch } from './outage.js';
import type { AskOptions, AskReport, Carried, SettledCode, Stop } from './types.js';

/** The operations that codes are asked with. */
export type CodeMarketplace = Pick<Marketplace, 'account' | 'validate'>;

/** Denials since the last find after which a canary is asked for. With those under way it must stay below `LONGEST_ROW`. */
const ROW_FOR_CANARY = 17;
/** Denials between checkpoints where the server's limit interrupts: those without one when a pause begins are asked again. */
const DENIALS_A_CHECKPOINT = 10;
/** Denials that counted without an interruption, after which none is expected any more. */
const UNINTERRUPTED = 100;
/** So many denials may be under way at the same time; the more codes are denied, the fewer calls that is. */
const DENIALS_UNDER_WAY = 4.5;
/** Codes asked for since the last account details, while denials wait for them. */
const CODES_AN_ACCOUNT = 100;
/**
 * The part of the longest gap after which a checkpoint is due. Less than half of it: where a limit by
 * the minute makes calls wait until the next one, a checkpoint is due then.
 */
const CHECKPOINT_AT = 0.48;
/** How much the last reply counts in the share of codes that are denied. */
const WEIGHT = 1 / 16;
/** Codes asked for without a canary in the hope that one of them is found. */
const HOPE = 100;
/** Proofs of a kind that may fail, one after another, without a denial. */
const PATIENCE = 2;

/**
 * Asks the marketplace for codes and tells what it says as soon as it is certain. Keeps calls under way,
 * and takes the checkpoints that `domain/codes/proof.ts` demands beside them: a canary after every
 * `ROW_FOR_CANARY` denials in a row, account details after `CODES_AN_ACCOUNT` codes or a minute, both
 * before the first code and after the last denial. Any valid answer serves as the canary.
 *
 * Ends when every code is settled or was asked for often enough; early when the server asks for a
 * pause, when the key proves to be bad, and on an abort, which cuts the calls under way. Closing it ends
 * it early too, but with the checkpoint that is due.
 * @throws what the client or `onSettled` throws that is not an abort
 */
export function askCodes(marketplace: CodeMarketplace, options: AskOptions): Promise<AskReport> {
  return new Asking(marketplace, options).run();
}

class Asking {
  readonly #marketplace: CodeMarketplace;
  readonly #options: AskOptions;
  readonly #proofs: Proofs;
  readonly #codes: CodesToAsk;
  readonly #canaries: Canaries;
  readonly #outage = new OutageWatch();
  readonly #cut = new AbortController();
  readonly #call: CallOptions;
  /** A proof that is older than this, milliseconds, is asked for again. */
  readonly #refreshMs: number;
  readonly #gapMs: number;
  /** Most codes under way; fewer where replies are so slow that checkpoints lie too far apart. */
  #concurrency: number;
  /** Denials between two checkpoints where the server's limit interrupts; null where it does not. */
  readonly #denialsACheckpoint: number | null;

  /** Denials whose next checkpoint is still to come. */
  readonly #waiting = new Set<CodeCall>();
  #settled: SettledCode[] = [];

  /** Calls under way by the numbers of their beginnings, in that order. */
  readonly #underWay = new Map<number, Call['kind']>();
  readonly #counts = { code: 0, canary: 0, account: 0 };
  readonly #made = { codes: 0, proofs: 0 };
  #number = 0;

  #codesSinceAccount = 0;
  #codesWithoutFind = 0;
  /** Denials that counted. */
  #proven = 0;
  #failedAccounts = 0;
  /** Of the last replies about codes, the share that were denials. */
  #deniedShare = 0.5;

  #stop: Stop | null = null;
  #failure: { readonly error: unknown } | null = null;
  #isNews = false;
  #wake: (() => void) | null = null;
  /** Codes that may still be asked for in this turn as soon as others are found: the marketplace would wait. */
  #refills = 0;

  constructor(marketplace: CodeMarketplace, options: AskOptions) {
    const { account, canaries, carried = null, spacingMs, signal } = options;
    this.#marketplace = marketplace;
    this.#options = options;
    this.#gapMs = longestGapMs(spacingMs);
    this.#refreshMs = this.#gapMs * CHECKPOINT_AT;
    this.#concurrency = options.concurrency;
    this.#proofs = new Proofs(account, canaries.length > 0, this.#gapMs);
    for (const call of carried?.checkpoint ?? []) this.#proofs.add(call);
    this.#codes = new CodesToAsk(options.codes);
    this.#canaries = new Canaries(canaries, carried?.canary ?? null, options.also ?? []);
    this.#denialsACheckpoint = carried?.denialsACheckpoint ?? null;
    this.#call = { priority: 'audit', signal: AbortSignal.any([signal, this.#cut.signal]) };
  }

  async run(): Promise<AskReport> {
    for (;;) {
      await this.#settle();
      this.#askForProofs();
      while (this.#mayAskForCode()) this.#askForCode();
      if (this.#underWay.size === 0 && !this.#isNews) break;
      await this.#news();
    }
    if (this.#failure !== null) throw this.#failure.error;
    this.#giveUpWaiting();
    return this.#report();
  }

  get #isCut(): boolean {
    return this.#failure !== null || this.#options.signal.aborted;
  }

  /** Whether codes are left that may be asked for. */
  get #hasCodes(): boolean {
    if (this.#isCut || this.#stop !== null || this.#options.closing?.aborted === true) return false;
    return !this.#codes.isEmpty;
  }

  #askForProofs(): void {
    if (this.#isCut || (this.#stop !== null && this.#stop.reason !== 'canary-lost')) return;
    const isProbing = this.#outage.isSuspected;
    const due = this.#proofsDue();
    const canary = due.canary || isProbing ? this.#canaries.next : null;
    if (canary !== null && this.#counts.canary === 0) this.#askForCanary(canary);
    const isAccountDue = due.account || (isProbing && canary === null);
    if (isAccountDue && this.#counts.account === 0) this.#askForAccount();
  }

  /** Which parts of a checkpoint are due now. */
  #proofsDue(): { readonly account: boolean; readonly canary: boolean } {
    const { standingAccount, standingFind, proof, row } = this.#proofs;
    if (this.#proofs.stranger !== null) return { account: false, canary: false };
    const needsFind = proof === 'canary';
    if (this.#hasCodes && !this.#isCheckpointDue) {
      // What runs beside a proof has its checkpoints on both sides of that: too far apart.
      const mayRefresh = this.#mustBeFresh && this.#counts.code === 0;
      const isDue = (one: Span | null): boolean => one === null || (mayRefresh && this.#isOld(one));
      const isRowLong = row >= ROW_FOR_CANARY;
      const isAccountDue =
        isDue(standingAccount) ||
        (this.#waiting.size > 0 && this.#codesSinceAccount >= CODES_AN_ACCOUNT) ||
        (isRowLong && !needsFind);
      return { account: isAccountDue, canary: needsFind && (isDue(standingFind) || isRowLong) };
    }
    // The last denials lack a checkpoint after them; the last calls must have ended before it begins.
    if (this.#waiting.size === 0 || this.#counts.code > 0) return { account: false, canary: false };
    const { account, find } = this.#proofs.lacks(this.#waiting);
    return { account, canary: find };
  }

  /** Where the server's limit interrupts, as many denials as get a checkpoint of their own; else null. */
  get #denialsAtOnce(): number | null {
    return this.#proven < UNINTERRUPTED ? this.#denialsACheckpoint : null;
  }

  get #isCheckpointDue(): boolean {
    return this.#denialsAtOnce !== null && this.#waiting.size >= this.#denialsAtOnce;
  }

  /** Whether the gap since the last checkpoint matters: denials wait for the next one, or will. */
  get #mustBeFresh(): boolean {
    return this.#codes.isAgain || this.#waiting.size > 0;
  }

  #isOld(proof: Span): boolean {
    return this.#options.now() - proof.beganAt > this.#refreshMs;
  }

  #mayAskForCode(): boolean {
    if (!this.#hasCodes || this.#outage.isSuspected) return false;
    const { standingAccount, standingFind, proof, row } = this.#proofs;
    if (standingAccount === null) return false;
    const { code, canary } = this.#counts;
    // What is asked for again must not fall into the same gap.
    if (this.#codes.isAgain && canary > 0) return false;
    const isFindOld = proof === 'canary' && standingFind !== null && this.#isOld(standingFind);
    if (this.#mustBeFresh && (this.#isOld(standingAccount) || isFindOld)) return false;
    if (proof === 'canary' && standingFind === null) {
      // While none is found, codes of the list may turn out to be valid; denials are asked again then.
      if (canary > 0 || this.#canaries.next !== null) return false;
      if (this.#codes.isAgain) return false;
      if (this.#codesWithoutFind >= HOPE) this.#stop = CANARY_LOST;
      if (this.#stop !== null) return false;
    }
    const few = this.#denialsAtOnce;
    if (few !== null && this.#waiting.size + code >= few) return false;
    const most = Math.max(1, Math.floor(DENIALS_UNDER_WAY / this.#deniedShare));
    if (code >= Math.min(this.#concurrency, most)) return false;
    // Calls that would make the row too long wait for the canary.
    return (
      row + Math.ceil(code * this.#deniedShare) < LONGEST_ROW || canary + this.#counts.account === 0
    );
  }

  #askForCode(): void {
    const code = this.#codes.take();
    this.#made.codes++;
    this.#codesSinceAccount++;
    const { proof, standingFind } = this.#proofs;
    this.#codesWithoutFind =
      proof === 'canary' && standingFind === null ? this.#codesWithoutFind + 1 : 0;
    const ask = () => this.#marketplace.validate(code, this.#call);
    void this.#ask('code', ask, (span, reply) => {
      const call: CodeCall = { kind: 'code', code, ...span, ...hearCode(code, reply) };
      this.#hearCode(call, reply);
      return call;
    });
  }

  #askForCanary(code: string): void {
    this.#made.proofs++;
    const ask = () => this.#marketplace.validate(code, this.#call);
    void this.#ask('canary', ask, (span, reply) => {
      const call: CodeCall = { kind: 'canary', code, ...span, ...hearCode(code, reply) };
      this.#canaries.hear(code, call.outcome);
      return call;
    });
  }

  #askForAccount(): void {
    this.#made.proofs++;
    this.#codesSinceAccount = 0;
    const ask = () => this.#marketplace.account(this.#call);
    void this.#ask('account', ask, (span, reply) => {
      const call: Call = { kind: 'account', ...span, ...hearAccount(reply) };
      const { outcome, evidence } = call;
      if (outcome.kind === 'affirmed') this.#failedAccounts = 0;
      else if (outcome.kind === 'doubtful' && ++this.#failedAccounts >= PATIENCE) {
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
    this.#underWay.set(begun, kind);
    this.#counts[kind]++;
    const leave = (): void => {
      this.#underWay.delete(begun);
      this.#counts[kind]--;
    };
    try {
      const reply = await ask();
      leave();
      const endedAt = now();
      const call = hear({ begun, ended: ++this.#number, beganAt, endedAt }, reply);
      this.#proofs.add(call);
      if (this.#proofs.stranger === call && call.kind === 'account') {
        const detail = `the API key opened the account "${call.account}"`;
        this.#stop ??= { reason: 'account-changed', notBefore: null, detail };
      }
      const hasCanary = this.#canaries.next !== null;
      this.#stop ??= this.#outage.hear(call, reply, hasCanary, endedAt);
      const isFind = call.outcome.kind === 'affirmed' && kind !== 'account';
      // Denied canaries are codes that have changed, now that another shows that the key is good.
      if (isFind) this.#codes.add(this.#canaries.takeDenied());
      while (isFind && this.#refills > 0 && this.#mayAskForCode()) {
        this.#refills--;
        this.#askForCode();
      }
    } catch (error) {
      leave();
      if (!signal.aborted) this.#fail(error);
    }
    this.#isNews = true;
    this.#wake?.();
  }

  #hearCode(call: CodeCall, reply: Reply<Sourced<Purchase>>): void {
    const { code, outcome, evidence, endedAt: at } = call;
    const denied = outcome.kind === 'denied' ? 1 : 0;
    if (denied === 1 || outcome.kind === 'affirmed') {
      this.#deniedShare += WEIGHT * (denied - this.#deniedShare);
    }
    if (outcome.kind === 'denied') this.#waiting.add(call);
    else if (outcome.kind !== 'affirmed') this.#codes.fail(call, outcome.reason);
    else if (!this.#proofs.believes(call)) this.#codes.fail(call, 'account-changed');
    else if (reply.kind === 'answered') {
      const answer = reply.data;
      this.#canaries.found ??= code;
      this.#codes.unproven.delete(code);
      this.#settled.push({ code, kind: 'found', proof: 'purchase', evidence, at, answer });
    }
  }

  /** Tells of what is certain now. */
  async #settle(): Promise<void> {
    this.#isNews = false;
    const { now } = this.#options;
    if (this.#waiting.size > 0) {
      const [oldest = this.#number + 1] = this.#underWay.keys();
      let hasGap = false;
      for (const denial of this.#waiting) {
        const judgement = this.#proofs.judge(denial, oldest, now());
        if (judgement === 'waits') continue;
        this.#waiting.delete(denial);
        const { code, evidence, endedAt: at } = denial;
        if (judgement !== 'counts') {
          hasGap ||= judgement === 'gap';
          this.#codes.fail(denial, judgement);
          continue;
        }
        this.#proven++;
        this.#codes.unproven.delete(code);
        const { proof } = this.#proofs;
        this.#settled.push({ code, kind: 'denied', proof, evidence, at, answer: null });
      }
      if (hasGap) this.#concurrency = Math.max(1, this.#concurrency >> 1);
    }
    if (this.#settled.length === 0) return;
    const settled = this.#settled;
    this.#settled = [];
    try {
      await this.#options.onSettled?.(settled);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** No checkpoint is coming for what still waits. */
  #giveUpWaiting(): void {
    const { proof, standingFind } = this.#proofs;
    const needsFind = proof === 'canary';
    for (const { code, evidence, endedAt: at } of this.#waiting) {
      const reason = needsFind ? 'no-canary-after' : 'no-account-after';
      this.#codes.unproven.set(code, { reason, evidence, at });
    }
    const isLost = needsFind && standingFind === null && this.#canaries.lost.size > 0;
    if (!isLost || this.#canaries.next !== null) return;
    let waited = false;
    for (const [code, one] of this.#codes.unproven) {
      if (one.reason !== 'no-canary-before' && one.reason !== 'no-canary-after') continue;
      this.#codes.unproven.set(code, { ...one, reason: 'no-canary' });
      waited = true;
    }
    if (waited) this.#stop ??= CANARY_LOST;
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
    this.#cut.abort(error);
  }

  /** Returns when a call has ended since the last look, and with it those that ended just then. */
  async #news(): Promise<void> {
    if (!this.#isNews) {
      this.#refills = this.#options.concurrency;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    await turn();
    this.#refills = 0;
  }

  #report(): AskReport {
    const { signal, closing } = this.#options;
    const aborted: Stop = { reason: 'aborted', notBefore: null, detail: null };
    const isClosed = closing?.aborted === true;
    return {
      unproven: this.#codes.report(),
      left: this.#codes.left,
      stop: signal.aborted ? aborted : (this.#stop ?? (isClosed ? aborted : null)),
      calls: this.#made,
      account: this.#proofs.account,
      lostCanaries: [...this.#canaries.lost],
      carried: this.#carry(),
    };
  }

  /** A checkpoint from before denials that still want one proves nothing to those who ask next. */
  #carry(): Carried {
    const { standingAccount, standingFind, proof, row } = this.#proofs;
    const isWhole = standingAccount !== null && (standingFind !== null || proof === 'account');
    const calls = isWhole && row === 0 ? [standingAccount, standingFind] : [];
    const checkpoint = calls
      .filter((call) => call !== null)
      .sort((a, b) => a.ended - b.ended)
      .map((call, i, { length }) => {
        const number = 2 * (i - length);
        return { ...(call as Call), begun: number + 1, ended: number + 2 };
      });
    const { notBefore = null } = this.#stop ?? {};
    const pauseMs = notBefore === null ? 0 : notBefore - this.#options.now();
    let denialsACheckpoint = this.#denialsAtOnce;
    if (pauseMs > this.#gapMs / 2) {
      const most = Math.min(denialsACheckpoint ?? Infinity, DENIALS_A_CHECKPOINT);
      // A server that allows very little interrupted before anything was proven.
      const isTooMany = denialsACheckpoint !== null && this.#proven === 0 && this.#waiting.size > 0;
      denialsACheckpoint = isTooMany ? Math.max(1, most >> 1) : most;
    }
    return { checkpoint, canary: this.#canaries.found, denialsACheckpoint };
  }
}

const CANARY_LOST: Stop = { reason: 'canary-lost', notBefore: null, detail: null };
