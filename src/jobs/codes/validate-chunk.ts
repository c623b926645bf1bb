import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { sameHost } from '../../domain/address.js';
import { retryOf } from '../../domain/codes/outcome.js';
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
import type { RunDeps } from '../types.js';
import { BatchValidator } from './batch-validator.js';
import { countsAgainst, isGivenUp, type ChunkResult } from './chunk-outcome.js';
import type { Pace } from './pace.js';
import { getAudit } from '../../store/audits/progress.js';
import { ensureSeller, bindSeller } from '../../store/sellers.js';
import { recordDeniedCanaries, readDeniedCanaries } from '../../store/audits/denied.js';
import { readCanaries, countRunningAudits } from '../../store/audits/codes.js';
import { recordResults } from '../../store/audits/record.js';
import type { BatchOptions, BatchReport, BatchState, CountedCode, Stop } from './types.js';

/** Known canaries that a chunk may try. */
const MAX_CANARIES = 20;
/** Denied canaries that are validated again beside the codes of a chunk. */
const MAX_DENIED_CANARIES = 20;
/** Audits assumed to share the budget of their marketplace, at most. */
const MAX_SHARING_AUDITS = 50;

export interface AuditDeps
  extends Pace, Pick<RunDeps, 'db' | 'marketplace' | 'sellerId' | 'callCount'> {
  /** How each seller's last chunk ended; all chunks of a process share it. */
  readonly batchStates: Map<string, BatchState>;
  readonly closing?: AbortSignal;
  /** From a denial to the second look at it, milliseconds; default a minute. */
  readonly lookAfterMs?: number;
  /** Called with each code that gets a verdict or is given up. */
  readonly onVerdict?: (verdict: Verdict) => void;
  /** Adds a chunk to the queue; does nothing if it is there already. */
  readonly enqueueChunk: (auditId: bigint, chunk: number) => Promise<void>;
}

/** Validates codes of an audit and records the results. */
export async function validateChunk(
  deps: AuditDeps,
  held: LockedChunk,
  pending: readonly PendingCode[],
  confirm: Confirm,
  signal: AbortSignal,
): Promise<ChunkResult> {
  const { db, sellerId, marketplace, batchStates, onVerdict } = deps;
  const { lookAfterMs = SECOND_LOOK_DELAY_MS } = deps;
  const [audit, binding] = await Promise.all([
    getAudit(db, held.auditId),
    ensureSeller(db, sellerId, marketplace.host),
  ]);
  let done = 0;
  const writer = new ResultWriter(deps, held.auditId, audit?.state ?? 'running');
  const isUntried = audit !== null && audit.valid + audit.invalid + audit.denied === audit.reused;
  const resultOf = (stop: Stop | null, failedRounds = 0): ChunkResult => {
    const { state } = writer;
    return { stop, done, open: pending.length - done, failedRounds, isUntried, state };
  };
  if (audit === null || pending.length === 0) return { ...resultOf(null), open: 0 };
  const { username } = binding;
  if (username !== null && !sameHost(binding.marketplace, marketplace.host)) {
    const detail = `seller "${sellerId}" belongs to the marketplace ${binding.marketplace}, not ${marketplace.host}`;
    return resultOf({ reason: 'account-changed', notBefore: null, detail });
  }
  const record = (results: readonly CodeResult[]): Promise<void> => {
    for (const { finding, final, denied } of results) {
      if (final || denied === true) done++;
      if (final) onVerdict?.(finding.verdict);
    }
    return writer.add(results);
  };

  const ordered = inOrder(pending, audit.problem !== null);
  const pendingByCode = new Map(ordered.map((code) => [code.code, code]));
  const validator = new BatchValidator(marketplace, {
    ...(await batchOptions(deps, held, pendingByCode)),
    account: username,
    signal: AbortSignal.any([signal, held.lost, writer.auditEnded]),
  });
  const deniedCanaries: DeniedCanary[] = [];
  const foundCanaries: string[] = [];
  for await (const counted of validator) {
    const results: CodeResult[] = [];
    for (const result of counted) {
      const known = pendingByCode.get(result.code);
      if (known !== undefined) results.push(countedResult(result, known, confirm));
      else if (result.kind === 'found') foundCanaries.push(result.code);
      else deniedCanaries.push({ ...result, ...result.evidence, checkedAt: new Date(result.at) });
    }
    await record(results);
  }

  const { report } = validator;
  batchStates.set(sellerId, report.endState);
  await recordDeniedCanaries(db, sellerId, deniedCanaries, foundCanaries, lookAfterMs);
  const { results, failedRounds } = unprovenResults(report, pendingByCode);
  await record(results);
  await writer.flush();
  if (username === null && report.account !== null) {
    const bound = { username: report.account, marketplace: marketplace.host };
    await bindSeller(db, sellerId, bound);
  }
  return resultOf(report.stop, failedRounds);
}

/**
 * Sorts codes with failed attempts last. After a problem it starts at a random place: the codes that
 * came first may have caused it.
 */
function inOrder(pending: readonly PendingCode[], hadProblem: boolean): readonly PendingCode[] {
  const first = hadProblem ? Math.floor(Math.random() * pending.length) : 0;
  const byPosition = pending.toSorted((a, b) => a.position - b.position);
  const rotated = [...byPosition.slice(first), ...byPosition.slice(0, first)];
  return rotated.sort((a, b) => a.attempts - b.attempts);
}

async function batchOptions(
  deps: AuditDeps,
  held: LockedChunk,
  pendingByCode: ReadonlyMap<string, PendingCode>,
): Promise<Omit<BatchOptions, 'account' | 'signal'>> {
  const { db, sellerId, marketplace, batchStates, concurrency, spacingMs, closing } = deps;
  const { lookAfterMs = SECOND_LOOK_DELAY_MS } = deps;
  const known = await readCanaries(db, sellerId, MAX_CANARIES);
  const canaries = [...new Set([...(held.canary === null ? [] : [held.canary]), ...known])];
  // A code can't vouch for itself: prefer canaries that this chunk does not validate.
  const others = canaries.filter((code) => !pendingByCode.has(code));
  const denied = await readDeniedCanaries(db, sellerId, lookAfterMs, MAX_DENIED_CANARIES);
  const sharing = await countRunningAudits(db, marketplace.host);
  return {
    codes: [...pendingByCode.keys()],
    extraCodes: denied.filter((code) => !pendingByCode.has(code)),
    canaries: others.length > 0 ? others : canaries,
    concurrency,
    // Audits of the same marketplace take turns, so the calls of each lie further apart.
    spacingMs: spacingMs * Math.min(Math.max(1, sharing), MAX_SHARING_AUDITS),
    startState: batchStates.get(sellerId) ?? null,
    now: Date.now,
    ...(closing === undefined ? {} : { closing }),
  };
}

function countedResult(
  one: CountedCode,
  { position, codeId }: PendingCode,
  confirm: Confirm,
): CodeResult {
  const { proof, evidence, at } = one;
  const common = { position, codeId, proof, ...evidence, checkedAt: new Date(at) };
  if (one.kind === 'found') {
    const finding = { verdict: 'valid', purchase: leanReading(one.answer) } as const;
    const rawHash = hash('sha256', one.answer.text);
    return { ...common, finding, reason: 'answered', checkpoints: null, rawHash, final: true };
  }
  const denied = { ...common, checkpoints: one.checkpoints, rawHash: null };
  return confirm === 'none'
    ? { ...denied, finding: { verdict: 'invalid' }, reason: 'denied', final: true }
    : {
        ...denied,
        finding: { verdict: 'unproven' },
        reason: 'unconfirmed',
        final: false,
        denied: true,
      };
}

/** The results of codes whose round failed, and the most rounds that a code has failed that may still pass. */
function unprovenResults(
  { unproven, stop }: BatchReport,
  pendingByCode: ReadonlyMap<string, PendingCode>,
): { readonly results: readonly CodeResult[]; readonly failedRounds: number } {
  const results: CodeResult[] = [];
  let failedRounds = 0;
  for (const [code, { reason, evidence, at }] of unproven) {
    if (!countsAgainst(reason, stop)) continue;
    const { position, codeId, attempts } = pendingByCode.get(code) as PendingCode;
    const rounds = attempts + 1;
    const final = isGivenUp(rounds, stop);
    if (!final && retryOf(reason) === 'later') failedRounds = Math.max(failedRounds, rounds);
    const nothing = { proof: 'none', checkpoints: null, rawHash: null };
    const finding = { verdict: 'unproven' } as const;
    const checkedAt = new Date(at);
    results.push({ position, codeId, finding, reason, ...nothing, ...evidence, checkedAt, final });
  }
  return { results, failedRounds };
}

/**
 * Drops the item from a purchase's raw JSON where its id was read. The item is most of an answer, and
 * results wait in memory until they are written.
 */
function leanReading({ value, raw }: Sourced<Purchase>): PurchaseReading {
  if ((value.item?.id ?? null) === null || !isObject(raw)) return { value, raw };
  const { item: _, ...rest } = raw;
  return { value, raw: rest };
}

/** The pause after a write is this many times as long as the write, so writing takes a tenth of the time. */
const PAUSE_FACTOR = 9;
const MAX_PAUSE_MS = 1_000;
/** This many buffered results are written without a pause. */
const FULL_WRITE = 400;
/** This many buffered results make `add` wait for the write. */
const MAX_BUFFERED = 1_000;

/**
 * Writes results into the store while codes are validated, together with the number of calls made.
 * A result is written at once if no write is in progress. The faster results come, the more share a
 * write, so that writing does not slow down an audit without a budget. A kill loses the results since
 * the last write began.
 */
class ResultWriter {
  readonly #deps: Pick<AuditDeps, 'db' | 'callCount'>;
  readonly #auditId: bigint;
  readonly #auditEnded = new AbortController();
  #buffer: CodeResult[] = [];
  #countedCalls: number;
  /** The write loop; null when the buffer is empty. */
  #writing: Promise<void> | null = null;
  #pause = new AbortController();
  #isFlushing = false;
  #failure: { readonly error: unknown } | null = null;
  /** State of the audit at the last write. */
  state: AuditState;

  constructor(deps: Pick<AuditDeps, 'db' | 'callCount'>, auditId: bigint, state: AuditState) {
    this.#deps = deps;
    this.#auditId = auditId;
    this.state = state;
    this.#countedCalls = deps.callCount();
  }

  /** Aborted once a write finds that the audit is no longer running. */
  get auditEnded(): AbortSignal {
    return this.#auditEnded.signal;
  }

  /**
   * Buffers results. The promise resolves when more may come.
   * @throws the error of an earlier write
   */
  async add(results: readonly CodeResult[]): Promise<void> {
    this.#buffer.push(...results);
    if (this.#buffer.length > MAX_BUFFERED || this.#failure !== null) return this.flush();
    if (this.#buffer.length >= FULL_WRITE && !this.#pause.signal.aborted) this.#pause.abort();
    if (this.#buffer.length > 0) this.#writing ??= this.#writeLoop();
  }

  /** Writes everything, the number of calls too. @throws the error of a write */
  async flush(): Promise<void> {
    this.#isFlushing = true;
    this.#pause.abort();
    await this.#writing;
    this.#isFlushing = false;
    if (this.#failure !== null) throw this.#failure.error;
    if (this.#buffer.length > 0 || this.#deps.callCount() > this.#countedCalls) await this.#write();
  }

  /** Writes until the buffer is empty. The next `add` or `flush` throws a failure. */
  async #writeLoop(): Promise<void> {
    try {
      while (this.#buffer.length > 0) {
        const began = performance.now();
        await this.#write();
        const tookMs = performance.now() - began;
        if (this.#isFlushing || this.#buffer.length >= FULL_WRITE) continue;
        this.#pause = new AbortController();
        const pauseMs = Math.min(PAUSE_FACTOR * tookMs, MAX_PAUSE_MS);
        await sleep(pauseMs, undefined, { signal: this.#pause.signal }).catch(() => undefined);
      }
    } catch (error) {
      this.#failure = { error };
    }
    this.#writing = null;
  }

  async #write(): Promise<void> {
    const { db, callCount } = this.#deps;
    const [calls, results] = [callCount(), this.#buffer];
    this.#buffer = [];
    const newCalls = calls - this.#countedCalls;
    this.state = await recordResults(db, this.#auditId, results, newCalls);
    this.#countedCalls = calls;
    if (this.state !== 'running') this.#auditEnded.abort();
  }
}
