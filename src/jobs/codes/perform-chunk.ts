import type { Pace } from '../../domain/codes/pulse.js';
import type { Verdict } from '../../domain/codes/verdict.js';
import { AuditNotRunningError, ChunkBusyError } from '../../store/audits/chunks.js';
import type { HeldChunk } from '../../store/audits/types.js';
import type { Store } from '../../store/store.js';
import type { Alert } from '../alerts.js';
import type { MirrorOutcome } from '../mirror-outcome.js';
import { wordsOf } from '../problem.js';
import type { JobDeps } from '../types.js';
import type { CarriedProofs } from './carried-proofs.js';
import { afterAsking, describeStop, isHopeless, type ChunkResult } from './chunk-outcome.js';
import { workOnChunk } from './work-on-chunk.js';

/** What a chunk is worked on with. */
export interface AuditDeps
  extends Pace, Pick<JobDeps, 'store' | 'marketplace' | 'sellerId' | 'callCount'> {
  /** Shared by all chunks of a process. */
  readonly carried: CarriedProofs;
  /** As in `AskOptions`. */
  readonly closing?: AbortSignal;
  /** Told of every code that gets a verdict, or is given up. */
  readonly onVerdict?: (verdict: Verdict) => void;
  /** Puts a chunk into the queue; harmless when it is there already. */
  readonly enqueueChunk: (auditId: bigint, chunk: number) => Promise<void>;
}

export interface ChunkJob {
  readonly auditId: bigint;
  readonly chunk: number;
  /** No other attempt follows one that fails. */
  readonly isLastAttempt: boolean;
}

/** A chunk that somebody else works on is looked at again after this, and up to as much again. */
const BUSY_MS = 30_000;

/**
 * Puts the next chunk of an audit that is not done into the queue. To be called when an audit begins or
 * goes on, and by each chunk that is done; calling it more often changes nothing. One chunk at a time:
 * chunks beside each other would not hear what the others hear of the API key. And so a million codes
 * take little in the queue, and audits that run at the same time take turns.
 * @param from the chunk to look from; after the last one comes the first
 */
export async function enqueueNext(
  { audits }: Pick<Store, 'audits'>,
  auditId: bigint,
  enqueueChunk: AuditDeps['enqueueChunk'],
  from = 0,
): Promise<void> {
  const [next] = await audits.nextChunks(auditId, from, 1);
  const [chunk] = next === undefined && from > 0 ? await audits.nextChunks(auditId, 0, 1) : [next];
  if (chunk !== undefined) await enqueueChunk(auditId, chunk);
}

/**
 * Asks for the codes of a chunk that are not settled, and records what comes of it while it comes.
 * Never throws: whatever happens is told as an outcome, and repeating the job is harmless. What was
 * recorded is not asked for again.
 */
export async function performAuditChunk(
  deps: AuditDeps,
  job: ChunkJob,
  signal: AbortSignal,
): Promise<MirrorOutcome> {
  const { auditId, chunk } = job;
  try {
    signal.throwIfAborted();
    const work = (held: HeldChunk) => workOnChunk(deps, held, signal);
    const result = await deps.store.audits.withChunk(auditId, chunk, work);
    return await conclude(deps, job, result);
  } catch (error) {
    return afterError(error, auditId, signal);
  }
}

async function conclude(
  deps: AuditDeps,
  { auditId, chunk, isLastAttempt }: ChunkJob,
  result: ChunkResult,
): Promise<MirrorOutcome> {
  const { stop, settled, state } = result;
  const { audits } = deps.store;
  const next = afterAsking(result, Date.now(), Math.random());
  if (next.kind !== 'hand-back') {
    await audits.note(auditId, next.kind === 'done' ? null : describeStop(stop));
  }
  if (state !== 'running') return notRunning(auditId, state);
  switch (next.kind) {
    case 'hand-back':
      return next;
    case 'done':
      await enqueueNext(deps.store, auditId, deps.enqueueChunk, chunk + 1);
      return { kind: 'done', result: { audit: String(auditId), chunk, settled }, alert: null };
    case 'later':
      // Some of its codes wait, and the others need not.
      if (stop === null) await enqueueNext(deps.store, auditId, deps.enqueueChunk, chunk + 1);
      return { kind: 'later', reason: stop?.reason ?? 'some codes', delayMs: next.delayMs };
    case 'blocked': {
      // What the marketplace said stays in the store.
      const problem = `audit ${auditId} can’t go on: ${stop?.reason}; \`seller-mirror codes show ${auditId}\` tells more`;
      if (!isLastAttempt && !isHopeless(result)) {
        return { kind: 'retry', problem, notBefore: next.notBefore, alert: null };
      }
      await audits.fail(auditId, describeStop(stop) ?? problem);
      return { kind: 'give-up', problem, alert: finished(auditId) };
    }
  }
}

function afterError(error: unknown, auditId: bigint, signal: AbortSignal): MirrorOutcome {
  if (error instanceof AuditNotRunningError) return notRunning(auditId, error.state ?? 'gone');
  // Whatever came of being told to stop, another worker takes it from here.
  if (signal.aborted) return { kind: 'hand-back' };
  if (error instanceof ChunkBusyError) {
    const delayMs = Math.round(BUSY_MS * (1 + Math.random()));
    return { kind: 'later', reason: error.message, delayMs };
  }
  return { kind: 'retry', problem: wordsOf(error), notBefore: null, alert: null };
}

/** The one that finished it may have been killed before it could tell; an alert is sent once. */
function notRunning(auditId: bigint, state: string): MirrorOutcome {
  const alert = state === 'finished' ? finished(auditId) : null;
  return { kind: 'done', result: { audit: String(auditId), state }, alert };
}

function finished(auditId: bigint): Alert {
  return { kind: 'audit-finished', auditId: String(auditId) };
}
