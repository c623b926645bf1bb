import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { sameHost } from '../../domain/address.js';
import { askAgain } from '../../domain/codes/outcome.js';
import type { Verdict } from '../../domain/codes/proof.js';
import type { PurchaseReading } from '../../domain/codes/known-code.js';
import { SECOND_LOOK_DELAY_MS, type Confirm } from '../../domain/codes/second-look.js';
import type { Purchase } from '../../domain/item.js';
import { isObject } from '../../domain/values.js';
import type { Sourced } from '../../marketplace/types.js';
import type {
  AuditState,
  CodeResult,
  DeniedCanary,
  LockedChunk,
  PendingCode,
} from '../../store/audits/types.js';
import type { JobDeps } from '../types.js';
import { BatchValidator } from './ask-codes.js';
import { countsAgainst, isGivenUp, type ChunkResult } from './chunk-outcome.js';
import type { Pace } from './pace.js';
import type { BatchOptions, BatchState, SettledCode, Stop, UnprovenCode } from './types.js';

/** Canaries known from before that a chunk may try. */
const CANARIES = 20;
/** Canaries denied earlier that are asked for again beside the codes of a second look. */
const DENIED_CANARIES = 20;
/** Audits that are taken to share the budget of their marketplace at most. */
const MOST_SHARING = 50;

export interface AuditDeps
  extends Pace, Pick<JobDeps, 'store' | 'marketplace' | 'sellerId' | 'callCount'> {
  /** What the last chunk of each seller told the next; shared by all chunks of a process. */
  readonly batchStates: Map<string, BatchState>;
  readonly closing?: AbortSignal;
  /** From a denial to the second look at it, milliseconds; default a minute. */
  readonly lookAfterMs?: number;
  /** Told of every code that gets a verdict, or is given up. */
  readonly onVerdict?: (verdict: Verdict) => void;
  /** Puts a chunk into the queue; harmless when it is there already. */
  readonly enqueueChunk: (auditId: bigint, chunk: number) => Promise<void>;
}

/** Asks for the given codes of an audit and records what comes of it. */
export async function validateChunk(
  deps: AuditDeps,
  held: LockedChunk,
  pending: readonly PendingCode[],
  confirm: Confirm,
  signal: AbortSignal,
): Promise<ChunkResult> {
  const { store, sellerId, marketplace, batchStates, onVerdict } = deps;
  const { lookAfterMs = SECOND_LOOK_DELAY_MS } = deps;
  const [audit, binding] = await Promise.all([
    store.audits.get(held.auditId),
    store.sellers.ensure(sellerId, marketplace.host),
  ]);
  let settled = 0;
  let roundsToWait = 0;
  const recorder = new Recorder(deps, held.auditId, audit?.state ?? 'running');
  const isFirst = audit !== null && audit.valid + audit.invalid + audit.denied === audit.reused;
  const resultOf = (stop: Stop | null): ChunkResult => {
    const { state } = recorder;
    return { stop, settled, open: pending.length - settled, roundsToWait, isFirst, state };
  };
  if (audit === null || pending.length === 0) return { ...resultOf(null), open: 0 };
  const { username } = binding;
  if (username !== null && !sameHost(binding.marketplace, marketplace.host)) {
    const detail = `seller "${sellerId}" is of the marketplace ${binding.marketplace}, not of ${marketplace.host}`;
    return resultOf({ reason: 'account-changed', notBefore: null, detail });
  }
  const record = (results: readonly CodeResult[]): Promise<void> => {
    for (const { finding, final, denied } of results) {
      if (final || denied === true) settled++;
      if (final) onVerdict?.(finding.verdict);
    }
    return recorder.add(results);
  };

  const codes = new Map(inTurn(pending, audit.problem !== null).map((one) => [one.code, one]));
  const asking = new BatchValidator(marketplace, {
    ...(await askOptions(deps, held, codes)),
    account: username,
    signal: AbortSignal.any([signal, held.lost, recorder.ended]),
  });
  const [denied, found]: [DeniedCanary[], string[]] = [[], []];
  for await (const news of asking) {
    const results: CodeResult[] = [];
    for (const one of news) {
      const { code, kind, proof, evidence, at, checkpoints } = one;
      const known = codes.get(code);
      if (known !== undefined) results.push(settledResult(one, known, confirm));
      else if (kind === 'found') found.push(code);
      else denied.push({ code, proof, ...evidence, checkedAt: new Date(at), checkpoints });
    }
    await record(results);
  }

  const { report } = asking;
  batchStates.set(sellerId, report.endState);
  await store.audits.recordDeniedCanaries(sellerId, denied, found, lookAfterMs);
  const unproven: CodeResult[] = [];
  for (const [code, one] of report.unproven) {
    if (!countsAgainst(one.reason, report.stop)) continue;
    const known = codes.get(code) as PendingCode;
    const rounds = known.attempts + 1;
    const isFinal = isGivenUp(rounds, report.stop);
    unproven.push(unprovenResult(one, known, isFinal));
    if (!isFinal && askAgain(one.reason) === 'later') roundsToWait = Math.max(roundsToWait, rounds);
  }
  await record(unproven);
  await recorder.flush();
  if (username === null && report.account !== null) {
    const bound = { username: report.account, marketplace: marketplace.host };
    await store.sellers.bind(sellerId, bound);
  }
  return resultOf(report.stop);
}

/**
 * Codes in the order in which they are asked for: those with failed attempts come last. Where the audit
 * was held up it begins at a random place: the codes that came first may have caused it.
 */
function inTurn(pending: readonly PendingCode[], wasHeldUp: boolean): readonly PendingCode[] {
  const first = wasHeldUp ? Math.floor(Math.random() * pending.length) : 0;
  const byPosition = pending.toSorted((a, b) => a.position - b.position);
  const rotated = [...byPosition.slice(first), ...byPosition.slice(0, first)];
  return rotated.sort((a, b) => a.attempts - b.attempts);
}

async function askOptions(
  deps: AuditDeps,
  held: LockedChunk,
  codes: ReadonlyMap<string, PendingCode>,
): Promise<Omit<BatchOptions, 'account' | 'signal'>> {
  const { store, sellerId, marketplace, batchStates, concurrency, spacingMs, closing } = deps;
  const { lookAfterMs = SECOND_LOOK_DELAY_MS } = deps;
  const known = await store.audits.canariesOf(sellerId, CANARIES);
  const canaries = [...new Set([...(held.canary === null ? [] : [held.canary]), ...known])];
  // A code that is asked for anyway says nothing of itself.
  const others = canaries.filter((code) => !codes.has(code));
  const earlier = await store.audits.deniedCanaries(sellerId, lookAfterMs, DENIED_CANARIES);
  const sharing = await store.audits.countRunning(marketplace.host);
  return {
    codes: [...codes.keys()],
    also: earlier.filter((code) => !codes.has(code)),
    canaries: others.length > 0 ? others : canaries,
    concurrency,
    // Audits of the same marketplace take turns, so that the calls of each lie further apart.
    spacingMs: spacingMs * Math.min(Math.max(1, sharing), MOST_SHARING),
    startState: batchStates.get(sellerId) ?? null,
    now: Date.now,
    ...(closing === undefined ? {} : { closing }),
  };
}

function settledResult(
  { kind, proof, evidence, at, checkpoints, answer }: SettledCode,
  { position, codeId }: PendingCode,
  confirm: Confirm,
): CodeResult {
  const isWaiting = kind === 'denied' && confirm !== 'none';
  const common = { position, codeId, proof, ...evidence, checkedAt: new Date(at), checkpoints };
  if (answer !== null) {
    const finding = { verdict: 'valid', purchase: leanReading(answer) } as const;
    const rawHash = hash('sha256', answer.text);
    return { ...common, finding, reason: 'answered', rawHash, final: true };
  }
  const denied = { ...common, rawHash: null, final: !isWaiting };
  return isWaiting
    ? { ...denied, finding: { verdict: 'unproven' }, reason: 'unconfirmed', denied: true }
    : { ...denied, finding: { verdict: 'invalid' }, reason: 'denied' };
}

function unprovenResult(
  { reason, evidence, at }: UnprovenCode,
  { position, codeId }: PendingCode,
  final: boolean,
): CodeResult {
  return {
    position,
    codeId,
    finding: { verdict: 'unproven' },
    reason,
    proof: 'none',
    ...evidence,
    checkedAt: new Date(at),
    checkpoints: null,
    rawHash: null,
    final,
  };
}

/**
 * What is recorded of a purchase. The item it is of is most of what was answered: where its id was
 * read it is let go here, since results may wait for a while until they are written.
 */
function leanReading({ value, raw }: Sourced<Purchase>): PurchaseReading {
  if ((value.item?.id ?? null) === null || !isObject(raw)) return { value, raw };
  const { item: _, ...rest } = raw;
  return { value, raw: rest };
}

/** Writing may take a tenth of the time: the pause after a write is so many times as long as it took. */
const PAUSE_SHARE = 9;
/** Longest pause between two writes. */
const LONGEST_PAUSE_MS = 1_000;
/** So many results are written without a pause, while the next are asked for: their number makes up for it. */
const WORTH_A_WRITE = 400;
/** Results that may wait for a write before asking waits too. */
const MOST_WAITING = 1_000;

/**
 * Writes results into the store while codes are asked for, with the number of calls that were made for
 * them. A result is written at once when the last write is past; the faster they come, the more of them
 * go into one write, so that an audit without a budget is not held up by writing. A kill loses what came
 * since the last write began.
 */
class Recorder {
  readonly #deps: Pick<AuditDeps, 'store' | 'callCount'>;
  readonly #auditId: bigint;
  readonly #ended = new AbortController();
  #waiting: CodeResult[] = [];
  #countedCalls: number;
  /** Fulfilled when nothing waits any more. */
  #writing: Promise<void> | null = null;
  #pause = new AbortController();
  #isFlushing = false;
  #failure: { readonly error: unknown } | null = null;
  /** Of the audit, after the last write. */
  state: AuditState;

  constructor(deps: Pick<AuditDeps, 'store' | 'callCount'>, auditId: bigint, state: AuditState) {
    this.#deps = deps;
    this.#auditId = auditId;
    this.state = state;
    this.#countedCalls = deps.callCount();
  }

  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /**
   * Takes results; the promise is fulfilled when more may come.
   * @throws what an earlier write threw
   */
  async add(results: readonly CodeResult[]): Promise<void> {
    this.#waiting.push(...results);
    if (this.#waiting.length > MOST_WAITING || this.#failure !== null) return this.flush();
    if (this.#waiting.length >= WORTH_A_WRITE && !this.#pause.signal.aborted) this.#pause.abort();
    if (this.#waiting.length > 0) this.#writing ??= this.#writeWaiting();
  }

  /** Returns when everything is written, the calls made too. @throws what a write threw */
  async flush(): Promise<void> {
    this.#isFlushing = true;
    this.#pause.abort();
    await this.#writing;
    this.#isFlushing = false;
    if (this.#failure !== null) throw this.#failure.error;
    if (this.#waiting.length > 0 || this.#deps.callCount() > this.#countedCalls)
      await this.#write();
  }

  /** Writes until nothing waits. A failure is thrown to who adds more. */
  async #writeWaiting(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const began = performance.now();
        await this.#write();
        const tookMs = performance.now() - began;
        if (this.#isFlushing || this.#waiting.length >= WORTH_A_WRITE) continue;
        this.#pause = new AbortController();
        const pauseMs = Math.min(PAUSE_SHARE * tookMs, LONGEST_PAUSE_MS);
        await sleep(pauseMs, undefined, { signal: this.#pause.signal }).catch(() => undefined);
      }
    } catch (error) {
      this.#failure = { error };
    }
    this.#writing = null;
  }

  async #write(): Promise<void> {
    const { store, callCount } = this.#deps;
    const [calls, results] = [callCount(), this.#waiting];
    this.#waiting = [];
    const newCalls = calls - this.#countedCalls;
    this.state = (await store.audits.record(this.#auditId, results, newCalls)).state;
    this.#countedCalls = calls;
    if (this.state !== 'running') this.#ended.abort();
  }
}
