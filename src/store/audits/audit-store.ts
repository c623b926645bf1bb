import type { RecheckCandidate, RecheckFilter } from '../../domain/codes/recheck.js';
import type { LookPlan } from '../../domain/codes/second-look.js';
import type { Pools } from '../pools.js';
import { beat, endBeat, liveProcesses, type LiveProcess, type ProcessInfo } from '../processes.js';
import { nextChunks, pendingOf, withChunk } from './chunks.js';
import { canariesOf, checksOf, countRunning, knownCodes, recheckCandidates } from './codes.js';
import {
  codesToLookAt,
  deniedCanaries,
  deniedCodes,
  recordDeniedCanaries,
  settleDenied,
} from './denied.js';
import { beginAudit } from './loader.js';
import {
  auditBacklogs,
  cancelAudit,
  failAudit,
  getList,
  getProgress,
  listProgress,
  markResultWritten,
  noteProblem,
  resumeAudit,
  setResultFile,
} from './progress.js';
import { recordResults } from './record.js';
import { accountProven, auditResults, unprovenCounts } from './results.js';
import type {
  AuditBacklog,
  AuditList,
  AuditLoader,
  AuditProgress,
  AuditResult,
  AuditState,
  CodeCheck,
  CodeResult,
  CodeState,
  DeniedCanary,
  DeniedCodes,
  HeldChunk,
  NewAudit,
  PendingCode,
  Recorded,
  ResultFile,
  UnprovenCount,
} from './types.js';

/** What the store knows of purchase codes, and of the audits that check them. */
export class AuditStore {
  readonly #pools: Pools;

  constructor(pools: Pools) {
    this.#pools = pools;
  }

  /**
   * Begins to take in a list. The seller must be known. The audit is there when the loader has finished,
   * whole or not at all; a loader that dies leaves nothing.
   */
  begin(audit: NewAudit): Promise<AuditLoader> {
    return beginAudit(this.#pools, audit);
  }

  /** How far an audit is, for those who ask often; null when there is none of this number. */
  get(auditId: bigint): Promise<AuditProgress | null> {
    return getProgress(this.#pools.others, auditId);
  }

  /** The newest audits first. */
  list(filter: {
    readonly sellerIds?: readonly string[];
    readonly limit: number;
  }): Promise<AuditProgress[]> {
    return listProgress(this.#pools.others, filter);
  }

  /** What is to be done still, of sellers who have an audit that runs. */
  backlogs(): Promise<AuditBacklog[]> {
    return auditBacklogs(this.#pools.others);
  }

  /** How the list of an audit was read; null when there is no such audit. */
  listOf(auditId: bigint): Promise<AuditList | null> {
    return getList(this.#pools.others, auditId);
  }

  /** Numbers of the chunks from `after` on that still have pending codes, in order. */
  nextChunks(auditId: bigint, after: number, limit: number): Promise<number[]> {
    return nextChunks(this.#pools.others, auditId, after, limit);
  }

  /** The codes of a chunk that are not settled, in the order of their positions. */
  pendingOf(auditId: bigint, chunk: number): Promise<PendingCode[]> {
    return pendingOf(this.#pools.others, auditId, chunk);
  }

  /**
   * Works on a chunk while nobody else does.
   * @throws {ChunkBusyError} when somebody else works on it
   * @throws {AuditNotRunningError} when the audit does not run
   */
  withChunk<T>(auditId: bigint, chunk: number, work: (held: HeldChunk) => Promise<T>): Promise<T> {
    return withChunk(this.#pools, auditId, chunk, work);
  }

  /**
   * Records what came of asking for codes of an audit. Repeating it changes nothing; what is recorded
   * already is left as it is.
   * @param apiCalls calls to the marketplace that were made for them, proofs included
   */
  record(auditId: bigint, results: readonly CodeResult[], apiCalls: number): Promise<Recorded> {
    return recordResults(this.#pools.others, auditId, results, apiCalls);
  }

  /** Stops an audit that runs. Returns its state afterwards; null when there is no such audit. */
  cancel(auditId: bigint): Promise<AuditState | null> {
    return cancelAudit(this.#pools.others, auditId);
  }

  /** Ends an audit that runs, for a reason that only a person can mend. Returns as `cancel`. */
  fail(auditId: bigint, problem: string): Promise<AuditState | null> {
    return failAudit(this.#pools.others, auditId, problem);
  }

  /** Says why an audit that runs does not get on at present; null: it does. */
  note(auditId: bigint, problem: string | null): Promise<void> {
    return noteProblem(this.#pools.others, auditId, problem);
  }

  /** Lets a cancelled or failed audit run again. Returns as `cancel`. */
  resume(auditId: bigint): Promise<AuditState | null> {
    return resumeAudit(this.#pools.others, auditId);
  }

  /** Notes which file the result of an audit goes to; it has not been written there. */
  setResultFile(auditId: bigint, file: Pick<ResultFile, 'path' | 'format'>): Promise<void> {
    return setResultFile(this.#pools.others, auditId, file);
  }

  /** Notes that the result of a finished audit was written to its file. */
  markResultWritten(auditId: bigint): Promise<void> {
    return markResultWritten(this.#pools.others, auditId);
  }

  /** The records of the list in their order with what came of them, as of one moment; in bounded memory. */
  results(auditId: bigint): AsyncIterable<AuditResult> {
    return auditResults(this.#pools, auditId);
  }

  /** Why codes of an audit have no verdict, the most frequent reason first. */
  unprovenCounts(auditId: bigint): Promise<UnprovenCount[]> {
    return unprovenCounts(this.#pools.others, auditId);
  }

  /** How many codes an audit found invalid with no other proof than account details. */
  accountProven(auditId: bigint): Promise<number> {
    return accountProven(this.#pools.others, auditId);
  }

  /**
   * Codes of a seller that were proven valid, those first that most likely still are: of items that are
   * listed, spread over items, from both ends of what was proven.
   */
  canariesOf(sellerId: string, limit: number): Promise<string[]> {
    return canariesOf(this.#pools.others, sellerId, limit);
  }

  /** How many audits are running at a marketplace, and share its budget. @param marketplace host, with its port */
  countRunning(marketplace: string): Promise<number> {
    return countRunning(this.#pools.others, marketplace);
  }

  /** What tells which denied codes are to be asked for again; null when there is no such audit. */
  deniedCodes(auditId: bigint): Promise<DeniedCodes | null> {
    return deniedCodes(this.#pools.others, auditId);
  }

  /** Denied codes of an audit that a plan wants to be asked for again, in the order of their positions. */
  codesToLookAt(
    auditId: bigint,
    plan: Extract<LookPlan, { kind: 'look' }>,
    limit: number,
  ): Promise<PendingCode[]> {
    return codesToLookAt(this.#pools.others, auditId, plan, limit);
  }

  /** Gives every denied code of an audit its verdict; returns how many that were. */
  settleDenied(auditId: bigint, verdict: 'invalid' | 'unproven'): Promise<number> {
    return settleDenied(this.#pools.others, auditId, verdict);
  }

  /** Codes known to be valid that were denied as canaries `afterMs` ago or earlier, and not found since. */
  deniedCanaries(sellerId: string, afterMs: number, limit: number): Promise<readonly string[]> {
    return deniedCanaries(this.#pools.others, sellerId, afterMs, limit);
  }

  /**
   * Records that canaries were denied, and which were found again. One that was denied `afterMs` before
   * is invalid from now on.
   */
  recordDeniedCanaries(
    sellerId: string,
    canaries: readonly DeniedCanary[],
    found: readonly string[],
    afterMs: number,
  ): Promise<void> {
    return recordDeniedCanaries(this.#pools.others, sellerId, canaries, found, afterMs);
  }

  /** What is known of some codes, by code; those that were never in a list are left out. */
  knownCodes(sellerId: string, codes: readonly string[]): Promise<Map<string, CodeState>> {
    return knownCodes(this.#pools.others, sellerId, codes);
  }

  /** The ledger of a code, the newest check first. */
  checksOf(codeId: bigint, limit: number): Promise<CodeCheck[]> {
    return checksOf(this.#pools.others, codeId, limit);
  }

  /**
   * The known codes of a seller that may be due, in portions and in no order, for `planRecheck`.
   * @param now milliseconds since 1970
   */
  recheckCandidates(
    sellerId: string,
    filter: RecheckFilter,
    now: number,
  ): AsyncIterable<readonly RecheckCandidate[]> {
    return recheckCandidates(this.#pools, sellerId, filter, now);
  }

  /** Tells that a process lives; to be said every `BEAT_EVERY_MS`. */
  beat(info: ProcessInfo): Promise<void> {
    return beat(this.#pools.others, info);
  }

  /** Takes a process off the list as it ends. */
  endBeat(processId: string): Promise<void> {
    return endBeat(this.#pools.others, processId);
  }

  /** The processes, of one role or of any, that told within this time that they live; milliseconds. */
  liveProcesses(withinMs: number, role?: string): Promise<LiveProcess[]> {
    return liveProcesses(this.#pools.others, withinMs, role);
  }
}
