import { setTimeout as sleep } from 'node:timers/promises';
import type { Reply } from '../marketplace/reply.js';
import {
  checksPerWindow,
  MAX_WINDOW_CHECKS,
  provenWindow,
  type ProvenWindow,
  type WindowFault,
} from '../marketplace/proven-window.js';
import {
  proveKey,
  type BadProof,
  type GoodProof,
  type KeyHolder,
  type KeyProof,
} from '../marketplace/prove-key.js';
import { meaningOf, retryTimeOf } from '../marketplace/reply-meaning.js';
import type { CallOptions, Sourced } from '../marketplace/types.js';
import type { Purchase } from '../domain/item.js';
import { askCode, checkOf, type CodeMarket, type CodeReply } from './ask.js';
import type {
  CodeResult,
  DeniedCode,
  Ledger,
  LedgerCounts,
  OpenCode,
  ProvenBetween,
} from './ledger.js';
import type { WorkMemory } from './memory.js';
import type { UnprovenReason } from './reasons.js';
import {
  countedDenialsNeeded,
  FIRST_GUARD,
  MAX_ATTEMPTS,
  nextGuard,
  pauseBeforeRetry,
  SILENCES_LIKE_OUTAGE,
} from './rules.js';
import { Writer } from './writer.js';

export interface Work {
  readonly market: CodeMarket;
  readonly ledger: Ledger;
  readonly memory: WorkMemory;
  /** User name of the seller's account; null: that of the first account details. */
  readonly account: string | null;
  /** Calls under way at a time. */
  readonly concurrency: number;
  /** Milliseconds that the budget puts between two calls; 0: unlimited. */
  readonly spacingMs: number;
  /** From a denial to the check that confirms it, milliseconds. */
  readonly confirmAfterMs: number;
  /** Codes read and recorded at a time, at most; default 500, without a budget 4,000. */
  readonly batch?: number;
  /** From a bad proof of the key to the second one, milliseconds; default 2,000. */
  readonly proveAgainAfterMs?: number;
  /** Somebody waits: prove no key before the first code, and try no code again that got no answer. */
  readonly isBrief?: boolean;
  /** Ends the work at once. */
  readonly signal: AbortSignal;
  /** Ends the work in order: answers that came are proven and recorded. */
  readonly closing?: AbortSignal | undefined;
}

/** Why work has to pause or to stop. */
export interface Stop {
  readonly reason: UnprovenReason | 'challenge';
  /** When the server takes requests again, milliseconds since 1970; null if it did not say. */
  readonly notBefore: number | null;
  /** The server's or the client's words, redacted. */
  readonly detail: string | null;
}

/** How a piece of work ended. */
export type PieceEnd =
  /** Every code has a verdict, or was given up. */
  | { readonly kind: 'done' }
  | { readonly kind: 'more' }
  /** Nothing is due yet. */
  | { readonly kind: 'wait'; readonly delayMs: number; readonly until: 'confirm' | 'retry' }
  /** An outage or a limit: go on later. */
  | { readonly kind: 'pause'; readonly stop: Stop; readonly delayMs: number }
  /** The key was bad twice: a person must act. */
  | { readonly kind: 'blocked'; readonly stop: Stop }
  /** Ended by `closing`. */
  | { readonly kind: 'closed' };

/** A piece of the sweep has this many codes, and more while it took less than `PIECE_MS`. */
const PIECE_CODES = 500;
const PIECE_MS = 10_000;
/** Fewer codes waste fewer calls on a bad key than proofs of it cost. */
const GUARDED_CODES = 100;
/** Codes read at a time while there is no budget. */
const FAST_BATCH = 4_000;
/** Denied codes in a piece of confirmation: 20 windows. */
const PIECE_DENIED = 500;
/** Codes settled at a time. */
const SETTLE = 2_000;
/** Known valid codes that proofs choose from. */
const KNOWN_VALID = 100;

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
/** A bad key is proven again after this time, in case it was a moment's fault. */
const PROVE_AGAIN_AFTER_MS = 2 * SECOND_MS;
const AFTER_LIMIT_MS = MINUTE_MS;
const AFTER_CHALLENGE_MS = 10 * MINUTE_MS;
/** After an outage that let some answers through, and after one that did not. */
const AFTER_BREAK_MS = 15 * SECOND_MS;
const AFTER_OUTAGE_MS = 3 * MINUTE_MS;
/** Times that all known valid codes may be denied before the denied codes are given up. */
const MAX_LOST_CANARIES = 5;
/** Purchases found between two looks at account details: with another account's key, they would be another seller's. */
const FOUND_PER_LOOK = 50;
/** Codes swept although every known valid code was denied: one of them may turn out valid. */
const CODES_WITHOUT_CANARY = 100;

/**
 * Does the next piece of work on a list of codes: sweeps some, or confirms some windows of denied ones, or settles them.
 * Everything that it did is recorded when it returns, so that it may be stopped, killed and repeated at any point.
 * @throws the signal's reason; errors of the ledger
 */
export async function workPiece(work: Work): Promise<PieceEnd> {
  const { ledger, memory } = work;
  const counts = await ledger.counts();
  if (counts.open + counts.denied === 0) return { kind: 'done' };
  if (!memory.hasKnownValid) {
    memory.hasKnownValid = true;
    memory.canaries.add(await ledger.knownValid(KNOWN_VALID));
  }
  let retryMs = Infinity;
  if (counts.open > 0) {
    retryMs = memory.retryAt - performance.now();
    if (retryMs <= 0) {
      const end = await sweep(work);
      if (end !== null) return end;
      retryMs = pauseBeforeRetry(++memory.passes);
      memory.after = -1;
      memory.retryAt = performance.now() + retryMs;
    }
  }
  const isBriefAndOver = work.isBrief === true && memory.passes > 0;
  const end = counts.denied > 0 || retryMs !== Infinity ? await confirm(work) : null;
  if (end !== null && (end.kind !== 'wait' || isBriefAndOver)) return end;
  if (isBriefAndOver) return { kind: 'done' };
  const confirmMs = end?.delayMs ?? Infinity;
  return confirmMs < retryMs
    ? { kind: 'wait', delayMs: confirmMs, until: 'confirm' }
    : { kind: 'wait', delayMs: retryMs, until: 'retry' };
}

function callOptions({ signal }: Work): CallOptions {
  return { signal, priority: 'audit' };
}

/** The seller, whose known valid codes are witnesses. @param record called with each denied one */
function holderOf(work: Work, record: (result: CodeResult) => void): KeyHolder {
  const { market, memory } = work;
  let asked = '';
  let wasDenied = false;
  return {
    get account() {
      return work.account ?? memory.account;
    },
    nextWitness() {
      const code = memory.canaries.next();
      // If no other code is left, asking for the denied one again at once tells nothing new.
      if (code === null || (wasDenied && code === asked)) {
        wasDenied = false;
        return null;
      }
      asked = code;
      return { ask: (options) => market.validate(code, options) };
    },
    onWitness(_, reply, at) {
      const { kind } = meaningOf(reply);
      wasDenied = kind === 'denied';
      memory.canaries.note(asked, kind === 'found' || kind === 'denied' ? kind : 'none');
      if (kind !== 'denied') return;
      memory.noteDenial(false);
      const check = checkOf(asked, reply as CodeReply, at);
      record({ position: null, code: asked, check, verdict: null });
    },
  };
}

/** Sweeps codes, about `PIECE_CODES` of them. @returns null when the list was gone through */
async function sweep(work: Work): Promise<PieceEnd | null> {
  const { ledger, memory, spacingMs } = work;
  const batch = work.batch ?? (spacingMs === 0 ? FAST_BATCH : PIECE_CODES);
  const writer = new Writer(ledger, batch);
  const sweeper = new Sweeper(work, writer);
  const beganAt = performance.now();
  let codes: readonly OpenCode[] = [];
  try {
    // From a piece that the server's pause ended.
    if (memory.found.length > 0) {
      const end = await sweeper.recordFound();
      if (end !== null) return end;
    }
    for (let swept = 0; ; swept += codes.length) {
      if (swept >= PIECE_CODES && performance.now() - beganAt >= PIECE_MS) return { kind: 'more' };
      codes = await ledger.open(memory.after, batch);
      if (codes.length === 0) return swept > 0 ? { kind: 'more' } : null;
      const end = await sweeper.run(codes);
      if (end !== null) return end;
    }
  } finally {
    await writer.flush();
  }
}

/** Checks codes once each, several at a time, and guards that calls are not wasted on a bad key. */
class Sweeper {
  readonly #work: Work;
  readonly #writer: Writer;
  readonly #holder: KeyHolder;
  #codes: readonly OpenCode[] = [];
  #next = 0;
  #end: PieceEnd | null = null;
  #guarding: Promise<GoodProof | null> | null = null;
  #recording: Promise<void> = Promise.resolve();
  #denialsInRow = 0;
  /** The guard proves the key at this many denials in a row; the next time after twice as many more. */
  #guardAt = FIRST_GUARD;
  #guardStep = FIRST_GUARD;
  /** Results without an answer. They are dropped if it was an outage. */
  #silent: CodeResult[] = [];
  #challenges = 0;
  #lostCanaries = 0;
  #hasAnswers = false;
  #isFirst = true;

  constructor(work: Work, writer: Writer) {
    this.#work = work;
    this.#writer = writer;
    this.#holder = holderOf(work, (result) => void writer.add(result).catch(() => undefined));
  }

  /** @returns why the sweep must end; null: it may go on */
  async run(codes: readonly OpenCode[]): Promise<PieceEnd | null> {
    const { memory, concurrency, isBrief = false } = this.#work;
    this.#codes = codes;
    this.#next = 0;
    const isFirst = this.#isFirst && codes.length >= GUARDED_CODES;
    this.#isFirst = false;
    if (isFirst && !memory.isProven && !isBrief) await this.#guard();
    memory.isProven = false;
    const lanes = Array.from({ length: concurrency }, (_, lane) => this.#lane(lane));
    const ends = await Promise.allSettled(lanes);
    const failed = ends.find((end) => end.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    if (this.#end === null) await this.#recordSilent();
    // While the server wants a pause, what was found waits in memory.
    if (this.#end === null || this.#end.kind === 'closed') await this.recordFound();
    else await this.#recording;
    memory.after = codes[this.#next - 1]?.position ?? memory.after;
    return this.#end;
  }

  async #lane(lane: number): Promise<void> {
    const { market, memory, closing } = this.#work;
    for (;;) {
      if (this.#guarding !== null) await this.#guarding;
      if (closing?.aborted === true) this.#end ??= { kind: 'closed' };
      if (this.#end !== null || (memory.isSerial && lane > 0)) return;
      const open = this.#codes[this.#next];
      if (open === undefined) return;
      this.#next++;
      const { code } = open;
      try {
        const reply = await askCode(market, code, callOptions(this.#work));
        await this.#take(open, reply, Date.now());
      } catch (error) {
        this.#end ??= { kind: 'closed' };
        throw error;
      }
    }
  }

  async #take(open: OpenCode, reply: CodeReply, at: number): Promise<void> {
    const { memory } = this.#work;
    const { position, code } = open;
    const check = checkOf(code, reply, at);
    const meaning = meaningOf(reply);
    const isAnswer = meaning.kind === 'found' || meaning.kind === 'denied';
    if (isAnswer && this.#silent.length > 0) await this.#recordSilent();
    switch (meaning.kind) {
      case 'found':
        this.#hasAnswers = true;
        this.#denialsInRow = 0;
        this.#guardAt = this.#guardStep = FIRST_GUARD;
        memory.canaries.found(code);
        if (this.#work.isBrief === true) {
          return this.#writer.add({ position, code, check, verdict: 'valid' });
        }
        memory.found.push({ position, code, check, verdict: 'valid' });
        if (memory.found.length >= FOUND_PER_LOOK) void this.recordFound().catch(() => undefined);
        return;
      case 'denied': {
        this.#hasAnswers = true;
        memory.noteDenial(false);
        // A code that is checked itself can't vouch for the others.
        memory.canaries.drop(code);
        const verdict = open.known === 'invalid' ? 'invalid' : null;
        await this.#writer.add({ position, code, check, verdict });
        if (++this.#denialsInRow >= this.#guardAt) await this.#guard();
        return;
      }
      case 'doubt':
      case 'silent': {
        if (meaning.reason === 'mixed-up') memory.isSerial = true;
        const number = this.#silent.push(unanswered(open, check));
        this.#end ??= this.#endBySilence(reply);
        const isOdd = meaning.kind === 'doubt' && number === 1;
        if (this.#end !== null || (number < SILENCES_LIKE_OUTAGE && !isOdd)) return;
        const proof = await this.#guard();
        if (this.#end !== null || number < SILENCES_LIKE_OUTAGE) return;
        // Account details don't clear a server that answers about other codes.
        if (meaning.reason === 'mixed-up' && proof?.by === 'account') {
          this.#end = pauseAfter(reply, false);
        } else await this.#recordSilent();
      }
    }
  }

  /**
   * Records the purchases that were found, once account details show that the key still opens the seller's account.
   * Otherwise their codes stay open.
   * @returns why the sweep must end; null: it may go on
   */
  recordFound(): Promise<PieceEnd | null> {
    const found = this.#work.memory.found.splice(0);
    this.#recording = this.#recording.then(() => this.#recordProven(found));
    return this.#recording.then(() => this.#end);
  }

  async #recordProven(found: readonly CodeResult[]): Promise<void> {
    if (found.length === 0) return;
    const { memory } = this.#work;
    const { account } = this.#holder;
    const holder: KeyHolder = { account, nextWitness: () => null };
    const proof = await this.#proveAgain(holder);
    if (proof.isGood) {
      memory.account ??= proof.account;
      for (const result of found) await this.#writer.add(result);
      return;
    }
    for (const { code } of found) memory.canaries.drop(code);
    this.#end ??= endByProof(proof, this.#hasAnswers);
  }

  /** Proves the key, and once more if it was bad. */
  async #proveAgain(holder: KeyHolder): Promise<KeyProof> {
    const { market, signal, proveAgainAfterMs = PROVE_AGAIN_AFTER_MS } = this.#work;
    const options = callOptions(this.#work);
    const proof = await proveKey(market, holder, options);
    if (proof.isGood || !isKeyFault(proof)) return proof;
    await sleep(proveAgainAfterMs, undefined, { signal });
    return proveKey(market, holder, options);
  }

  async #recordSilent(): Promise<void> {
    for (const result of this.#silent.splice(0)) await this.#writer.add(result);
  }

  #endBySilence(reply: Reply<unknown>): PieceEnd | null {
    if (isChallenge(reply) && ++this.#challenges >= 2) return pauseAfter(reply, this.#hasAnswers);
    const isPause = reply.kind === 'limited' || retryTimeOf(reply) !== null;
    return isPause ? pauseAfter(reply, this.#hasAnswers) : null;
  }

  /** Proves the key; null: it was bad. Several callers at a time share one proof. */
  #guard(): Promise<GoodProof | null> {
    this.#guarding ??= this.#prove().finally(() => (this.#guarding = null));
    return this.#guarding;
  }

  async #prove(): Promise<GoodProof | null> {
    const { memory } = this.#work;
    this.#guardStep = nextGuard(this.#guardStep);
    this.#guardAt = this.#denialsInRow + this.#guardStep;
    const proof = await this.#proveAgain(this.#holder);
    if (proof.isGood) {
      memory.account ??= proof.account;
      return proof;
    }
    if (proof.reason !== 'witness-denied') {
      this.#end ??= endByProof(proof, this.#hasAnswers);
    } else if (++this.#lostCanaries > 1) {
      this.#end ??= { kind: 'blocked', stop: stopOf(proof) };
    } else {
      this.#guardAt = this.#denialsInRow + CODES_WITHOUT_CANARY;
    }
    return null;
  }
}

function unanswered(
  { position, code, attempts }: OpenCode,
  check: CodeResult['check'],
): CodeResult {
  const reason = check?.reason === 'answered' || check === null ? 'unreadable' : check.reason;
  const verdict = attempts + 1 >= MAX_ATTEMPTS ? 'unproven' : null;
  return {
    position,
    code,
    check,
    verdict,
    reason: reason === 'denied' ? 'key-not-proven' : reason,
  };
}

/** Only a person, or the key itself, can mend these; the other reasons are outages and limits. */
function isKeyFault({ reason, reply }: BadProof): boolean {
  if (reply?.kind === 'unavailable' && reply.reason === 'html') return false;
  return reason !== 'limited' && reason !== 'unavailable' && reason !== 'unreadable';
}

function endByProof(proof: BadProof, hasAnswers: boolean): PieceEnd {
  if (isKeyFault(proof)) return { kind: 'blocked', stop: stopOf(proof) };
  const stop = stopOf(proof);
  return { kind: 'pause', stop, delayMs: delayAfter(stop, hasAnswers) };
}

function stopOf({ reason, detail, retryAt, reply }: BadProof): Stop {
  if (reply !== null && isChallenge(reply)) {
    return { reason: 'challenge', notBefore: retryAt, detail: null };
  }
  const word = reason === 'witness-denied' ? 'no-canary' : reason;
  return { reason: word, notBefore: retryAt, detail };
}

function pauseAfter(reply: Reply<unknown>, hasAnswers: boolean): PieceEnd {
  const meaning = meaningOf(reply);
  const reason = isChallenge(reply)
    ? 'challenge'
    : meaning.kind === 'silent' || meaning.kind === 'doubt'
      ? meaning.reason
      : 'unavailable';
  const detail = 'detail' in reply ? reply.detail : null;
  const stop: Stop = { reason, notBefore: retryTimeOf(reply), detail };
  return { kind: 'pause', stop, delayMs: delayAfter(stop, hasAnswers) };
}

/** The server's own time is kept; without one, the pause grows with the kind of fault. */
function delayAfter({ reason, notBefore }: Stop, hasAnswers: boolean): number {
  const untilMs = notBefore === null ? 0 : notBefore - Date.now();
  if (untilMs > 0) return untilMs;
  if (reason === 'limited') return AFTER_LIMIT_MS;
  if (reason === 'challenge') return AFTER_CHALLENGE_MS;
  return hasAnswers ? AFTER_BREAK_MS : AFTER_OUTAGE_MS;
}

function isChallenge(reply: Reply<unknown>): boolean {
  return reply.kind === 'unavailable' && reply.reason === 'challenge';
}

/** Checks denied codes again, or settles them. @returns null when no code is denied */
async function confirm(work: Work): Promise<PieceEnd | null> {
  const { ledger, memory, confirmAfterMs } = work;
  const counts: LedgerCounts = await ledger.counts();
  if (counts.denied === 0) return null;
  const needed = countedDenialsNeeded(counts);
  if (needed === null) return settle(work, 'unproven', 'contradicted');
  const denied = await ledger.denied(needed, PIECE_DENIED);
  if (denied.length === 0) return settle(work, 'invalid');
  memory.canaries.askFirst(denied.map(({ code }) => code));
  const waits = denied.map((code) => ({ code, ms: memory.waitFor(code, confirmAfterMs) }));
  const size = Math.min(memory.windowChecks, checksPerWindow(work.spacingMs), denied.length);
  const due = waits.filter(({ ms }) => ms === 0).map(({ code }) => code);
  if (due.length >= size) return confirmDue(work, due, size);
  // A window with few checks costs as many proofs as a full one.
  const delayMs = waits.map(({ ms }) => ms).sort((a, b) => a - b)[size - 1] ?? 0;
  return { kind: 'wait', delayMs, until: 'confirm' };
}

async function confirmDue(work: Work, due: readonly DeniedCode[], size: number): Promise<PieceEnd> {
  const { market, ledger, memory, closing, spacingMs } = work;
  for (let from = 0; from < due.length; from += size) {
    if (closing?.aborted === true) return { kind: 'closed' };
    const results: CodeResult[] = [];
    const holder = holderOf(work, (result) => results.push(result));
    const checks = due.slice(from, from + size).map((code) => checkFor(work, code));
    const window = await provenWindow<Sourced<Purchase>, DenialCheck>(market, checks, holder, {
      ...callOptions(work),
      concurrency: memory.isSerial ? 1 : work.concurrency,
      opening: usableOpening(work),
      spacingMs,
      closing,
    });
    memory.opening = window.after;
    memory.account ??= window.before?.account ?? null;
    results.push(...resultsOf(window, memory));
    await ledger.record(results);
    const end = await afterWindow(work, window);
    if (end !== null) return end;
  }
  return { kind: 'more' };
}

interface DenialCheck {
  readonly denied: DeniedCode;
  ask(options: CallOptions): Promise<CodeReply>;
}

function checkFor({ market }: Work, denied: DeniedCode): DenialCheck {
  const { code } = denied;
  return { denied, ask: (options) => askCode(market, code, options) };
}

/** A proof by account details no longer does once a valid code is known. */
function usableOpening({ memory: { opening, canaries } }: Work): WorkMemory['opening'] {
  return opening?.by === 'account' && !canaries.isEmpty ? null : opening;
}

/** What a window says about its codes. */
function resultsOf(
  { answers, fault, before, after }: ProvenWindow<Sourced<Purchase>, DenialCheck>,
  memory: WorkMemory,
): CodeResult[] {
  const proven: ProvenBetween | null =
    fault !== null || before === null || after === null
      ? null
      : {
          by: before.by === 'witness' && after.by === 'witness' ? 'canary' : 'account',
          before: before.at,
          after: after.at,
        };
  const isOutage = answers.every(({ reply }) => meaningOf(reply).kind === 'silent');
  const isTooSlow = fault?.kind === 'slow' || fault?.kind === 'pause';
  const isTooSlowAlone = isTooSlow && answers.length === 1;
  return answers.flatMap(({ check: { denied }, reply, at }): CodeResult[] => {
    const { position, code } = denied;
    const check = checkOf(code, reply, at, proven);
    switch (check.outcome) {
      case 'found':
        // Another account's purchase says nothing about the seller's.
        if (isAnotherAccount(fault)) return [];
        memory.canaries.found(code);
        return [{ position, code, check, verdict: 'valid' }];
      case 'denied':
        if (proven !== null) {
          memory.noteDenial(true);
          return [{ position, code, check, verdict: null }];
        }
        return isTooSlowAlone
          ? [unanswered(denied, { ...check, outcome: 'unanswered', reason: 'key-not-proven' })]
          : [];
      case 'unanswered':
        return isOutage && fault?.kind !== 'doubt' ? [] : [unanswered(denied, check)];
    }
  });
}

function isAnotherAccount(fault: WindowFault | null): boolean {
  return fault?.kind === 'proof' && fault.proof.reason === 'another-account';
}

/** Decides how to go on after a window. @returns null: with the next one */
async function afterWindow(
  work: Work,
  { fault, answers }: ProvenWindow<Sourced<Purchase>, DenialCheck>,
): Promise<PieceEnd | null> {
  const { memory, signal } = work;
  if (fault === null) {
    memory.badProofs = 0;
    memory.lostCanaries = 0;
    memory.windowChecks = Math.min(MAX_WINDOW_CHECKS, 2 * memory.windowChecks);
    const silent = answers.find(({ reply }) => meaningOf(reply).kind === 'silent')?.reply;
    const isOutage = answers.every(({ reply }) => meaningOf(reply).kind === 'silent');
    return isOutage && silent !== undefined ? pauseAfter(silent, false) : null;
  }
  switch (fault.kind) {
    case 'slow':
      memory.windowChecks = Math.max(1, answers.length >> 1);
      return { kind: 'more' };
    case 'doubt':
      if (fault.reason === 'mixed-up') memory.isSerial = true;
      return null;
    case 'pause': {
      memory.windowChecks = Math.max(1, answers.length >> 1);
      const last = answers.at(-1)?.reply;
      return last === undefined ? { kind: 'more' } : pauseAfter(last, true);
    }
    case 'proof': {
      const { proof } = fault;
      if (!isKeyFault(proof)) return endByProof(proof, answers.length > 0);
      if (++memory.badProofs < 2) {
        await sleep(work.proveAgainAfterMs ?? PROVE_AGAIN_AFTER_MS, undefined, { signal });
        return null;
      }
      memory.badProofs = 0;
      return proof.reason === 'witness-denied'
        ? afterLostCanaries(work, proof)
        : endByProof(proof, false);
    }
  }
}

/** Every code known to be valid was denied twice. It may be a moment's fault, so this is tried some times. */
async function afterLostCanaries(work: Work, proof: BadProof): Promise<PieceEnd> {
  const { memory } = work;
  const lost = ++memory.lostCanaries;
  if (work.isBrief === true || lost >= MAX_LOST_CANARIES)
    return settle(work, 'unproven', 'no-canary');
  return { kind: 'pause', stop: stopOf(proof), delayMs: MINUTE_MS * 2 ** (lost - 1) };
}

/** Gives every denied code the verdict that its recorded denials lead to. */
async function settle(
  { ledger, memory }: Work,
  verdict: 'invalid' | 'unproven',
  reason?: UnprovenReason,
): Promise<PieceEnd> {
  for (;;) {
    const codes = await ledger.denied(Infinity, SETTLE);
    if (codes.length === 0) return { kind: 'more' };
    const common = { check: null, verdict, ...(reason === undefined ? {} : { reason }) };
    await ledger.record(codes.map(({ position, code }) => ({ position, code, ...common })));
    if (verdict === 'invalid') for (const { code } of codes) memory.canaries.drop(code);
  }
}
