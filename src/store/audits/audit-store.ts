import type { Pools } from '../pools.js';
import { nextChunks, pendingOf, withChunk } from './chunks.js';
import { beginAudit } from './loader.js';
import {
  cancelAudit,
  failAudit,
  getList,
  getProgress,
  listProgress,
  resumeAudit,
} from './progress.js';
import { recordResults } from './record.js';
import type {
  AuditList,
  AuditLoader,
  AuditProgress,
  AuditState,
  CodeResult,
  HeldChunk,
  NewAudit,
  PendingCode,
  Recorded,
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

  /** Lets a cancelled or failed audit run again. Returns as `cancel`. */
  resume(auditId: bigint): Promise<AuditState | null> {
    return resumeAudit(this.#pools.others, auditId);
  }
}
