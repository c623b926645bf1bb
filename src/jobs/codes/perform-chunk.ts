import {
  SECOND_LOOK_DELAY_MS,
  planSecondLook,
  waitBeforeSecondLook,
} from '../../domain/codes/second-look.js';
import { AuditNotRunningError, ChunkBusyError } from '../../store/audits/chunks.js';
import type { LockedChunk } from '../../store/audits/types.js';
import type { Store } from '../../store/store.js';
import { moment } from '../../domain/moment.js';
import { busyOutcome, errorOutcome } from '../problem.js';
import type { Alert, JobOutcome } from '../types.js';
import { nextStep, describeStop, isKeyNeverGood, type ChunkResult } from './chunk-outcome.js';
import { validateChunk, type AuditDeps } from './work-on-chunk.js';

interface ChunkJob {
  readonly auditId: bigint;
  /** Number of the chunk; `SECOND_LOOK` asks for the denied codes again. */
  readonly chunk: number;
  /** No other attempt follows one that fails. */
  readonly isLastAttempt: boolean;
}

/** Stands for the denied codes of all chunks, once each code of the list was asked for. */
export const SECOND_LOOK = -1;
/** Codes of a second look that are asked for in one go. */
const LOOK_CHUNK = 20_000;

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
  if (chunk !== undefined) return enqueueChunk(auditId, chunk);
  const audit = await audits.get(auditId);
  if (audit?.state === 'running' && audit.denied > 0) await enqueueChunk(auditId, SECOND_LOOK);
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
): Promise<JobOutcome> {
  const { auditId, chunk } = job;
  const { audits } = deps.store;
  try {
    signal.throwIfAborted();
    return await audits.withChunk(auditId, chunk, async (held) => {
      if (chunk === SECOND_LOOK) return lookAgain(deps, job, held, signal);
      const pending = await audits.pendingOf(auditId, chunk);
      const confirm = (await audits.deniedCodes(auditId))?.confirm ?? 'auto';
      const result = await validateChunk(deps, held, pending, confirm, signal);
      return (await notDone(deps, job, result)) ?? (await goOn(deps, job, result.settled));
    });
  } catch (error) {
    if (error instanceof AuditNotRunningError) return notRunning(auditId, error.state ?? 'gone');
    if (error instanceof ChunkBusyError && !signal.aborted) {
      return { ...busyOutcome(error.message), isBusy: true };
    }
    return errorOutcome(error, signal);
  }
}

/**
 * The second look (see `domain/codes/second-look.ts`): asks for denied codes again until they were
 * denied as often as it takes, then gives all of them their verdict.
 */
async function lookAgain(
  deps: AuditDeps,
  job: ChunkJob,
  held: LockedChunk,
  signal: AbortSignal,
): Promise<JobOutcome> {
  const { auditId } = job;
  const { audits } = deps.store;
  for (let settled = 0; ;) {
    const counts = await audits.deniedCodes(auditId);
    // Codes that nobody has asked for come first.
    if (counts === null || counts.open > 0 || counts.denied === 0) return goOn(deps, job, settled);
    const plan = planSecondLook(counts);
    const codes = plan.kind === 'look' ? await audits.codesToLookAt(auditId, plan, LOOK_CHUNK) : [];
    if (codes.length === 0) {
      const verdict = plan.kind === 'look' ? 'invalid' : 'unproven';
      const denied = await audits.settleDenied(auditId, verdict);
      for (let i = 0; i < denied; i++) deps.onVerdict?.(verdict);
      await audits.note(auditId, plan.kind === 'look' ? null : CONTRADICTED);
      return goOn(deps, job, settled + denied);
    }
    const { lookAfterMs = SECOND_LOOK_DELAY_MS } = deps;
    const deniedAt = codes.map(({ lastDeniedAt }) => lastDeniedAt?.getTime() ?? 0);
    const wait = waitBeforeSecondLook(deniedAt, lookAfterMs, counts.overturned, Date.now());
    if (wait > 0) {
      const at = new Date(Date.now() + wait);
      await audits.note(auditId, waiting(codes.length, at));
      return { kind: 'later', reason: 'second look', delayMs: wait };
    }
    await audits.note(auditId, null);
    const result = await validateChunk(deps, held, codes, 'all', signal);
    const outcome = await notDone(deps, job, result);
    if (outcome !== null) return outcome;
    settled += result.settled;
  }
}

const CONTRADICTED =
  'the marketplace denied codes and found them later, too often for any denial to be believed';

function waiting(codes: number, at: Date): string {
  return codes === 1
    ? `1 denied code is asked for again at ${moment(at)}, before it is called invalid`
    : `${codes} denied codes are asked for again at ${moment(at)}, before they are called invalid`;
}

async function goOn(
  deps: AuditDeps,
  { auditId, chunk }: ChunkJob,
  settled: number,
): Promise<JobOutcome> {
  await enqueueNext(deps.store, auditId, deps.enqueueChunk, chunk + 1);
  const isFinished = (await deps.store.audits.get(auditId))?.state === 'finished';
  const alert = isFinished ? finished(auditId) : null;
  return { kind: 'done', result: { audit: String(auditId), chunk, settled }, alert };
}

/** What follows when codes are left, or nobody wants them any more; null when the chunk is done. */
async function notDone(
  deps: AuditDeps,
  { auditId, chunk, isLastAttempt }: ChunkJob,
  result: ChunkResult,
): Promise<JobOutcome | null> {
  const { stop, state } = result;
  const { audits } = deps.store;
  const next = nextStep(result, Date.now(), Math.random());
  if (next.kind !== 'hand-back') {
    await audits.note(auditId, next.kind === 'done' ? null : describeStop(stop));
  }
  if (state !== 'running') return notRunning(auditId, state);
  switch (next.kind) {
    case 'hand-back':
      return next;
    case 'done':
      return null;
    case 'later':
      // Some of its codes wait, and the others need not.
      if (stop === null && chunk !== SECOND_LOOK) {
        await enqueueNext(deps.store, auditId, deps.enqueueChunk, chunk + 1);
      }
      return { kind: 'later', reason: stop?.reason ?? 'some codes', delayMs: next.delayMs };
    case 'blocked': {
      // What the marketplace said stays in the store.
      const problem = `audit ${auditId} can’t go on: ${stop?.reason}; \`seller-mirror audits show ${auditId}\` tells more`;
      if (!isLastAttempt && !isKeyNeverGood(result)) {
        return { kind: 'retry', problem, notBefore: next.notBefore, alert: null };
      }
      await audits.fail(auditId, describeStop(stop) ?? problem);
      return { kind: 'give-up', problem, alert: finished(auditId) };
    }
  }
}

/** The one that finished it may have been killed before it could tell; an alert is sent once. */
function notRunning(auditId: bigint, state: string): JobOutcome {
  const alert = state === 'finished' ? finished(auditId) : null;
  return { kind: 'done', result: { audit: String(auditId), state }, alert };
}

function finished(auditId: bigint): Alert {
  return { kind: 'audit-finished', auditId: String(auditId) };
}
