import {
  SECOND_LOOK_DELAY_MS,
  planSecondLook,
  waitBeforeSecondLook,
} from '../../domain/codes/second-look.js';
import {
  AuditNotRunningError,
  ChunkBusyError,
  findNextChunks,
  withChunk,
  readPendingCodes,
} from '../../store/audits/chunks.js';
import type { LockedChunk } from '../../store/audits/types.js';
import { moment } from '../../domain/moment.js';
import { busyOutcome, errorOutcome } from '../problem.js';
import type { Alert, JobOutcome } from '../types.js';
import { describeStop, isKeyNeverGood, nextStep, type ChunkResult } from './chunk-outcome.js';
import type { Db } from '../../store/db.js';
import { getAudit, noteAuditProblem, failAudit } from '../../store/audits/progress.js';
import { readDeniedCodes, findCodesToLookAt, settleDenied } from '../../store/audits/denied.js';
import { validateChunk, type AuditDeps } from './validate-chunk.js';

interface ChunkJob {
  readonly auditId: bigint;
  /** Number of the chunk, or `SECOND_LOOK`. */
  readonly chunk: number;
  /** If this attempt fails, no other follows. */
  readonly isLastAttempt: boolean;
}

/** Chunk number of the second look: the denied codes of all chunks, once every code was validated. */
export const SECOND_LOOK = -1;
/** Most codes of a second look in one batch. */
const LOOK_CHUNK = 20_000;

/**
 * Queues the next chunk of an audit that is not done. Call it when an audit starts or resumes, and after
 * each chunk; further calls change nothing.
 *
 * Chunks of an audit run one at a time: parallel ones would not share what each learns about the API
 * key. It also keeps the queue short for a million codes, and lets audits take turns.
 * @param from the chunk to search from; wraps around after the last one
 */
export async function enqueueNext(
  db: Db,
  auditId: bigint,
  enqueueChunk: AuditDeps['enqueueChunk'],
  from = 0,
): Promise<void> {
  const [next] = await findNextChunks(db, auditId, from, 1);
  const [chunk] = next === undefined && from > 0 ? await findNextChunks(db, auditId, 0, 1) : [next];
  if (chunk !== undefined) return enqueueChunk(auditId, chunk);
  const audit = await getAudit(db, auditId);
  if (audit?.state === 'running' && audit.denied > 0) await enqueueChunk(auditId, SECOND_LOOK);
}

/**
 * Validates the open codes of a chunk and records the results as they come. Never throws: errors become
 * outcomes. Repeating the job is harmless: recorded codes are not validated again.
 */
export async function performAuditChunk(
  deps: AuditDeps,
  job: ChunkJob,
  signal: AbortSignal,
): Promise<JobOutcome> {
  const { auditId, chunk } = job;
  const { db } = deps;
  try {
    signal.throwIfAborted();
    return await withChunk(db, auditId, chunk, async (held) => {
      if (chunk === SECOND_LOOK) return takeSecondLook(deps, job, held, signal);
      const pending = await readPendingCodes(db, auditId, chunk, held.chunkSize);
      const result = await validateChunk(deps, held, pending, held.confirm, signal);
      return (await openCodesOutcome(deps, job, result)) ?? finishChunk(deps, job);
    });
  } catch (error) {
    if (error instanceof AuditNotRunningError) return endedOutcome(auditId, error.state ?? 'gone');
    if (error instanceof ChunkBusyError && !signal.aborted) {
      return { ...busyOutcome(error.message), isBusy: true };
    }
    return errorOutcome(error, signal);
  }
}

/**
 * Validates denied codes again until each was denied as often as needed, then settles all of them (see
 * `domain/codes/second-look.ts`).
 */
async function takeSecondLook(
  deps: AuditDeps,
  job: ChunkJob,
  held: LockedChunk,
  signal: AbortSignal,
): Promise<JobOutcome> {
  const { auditId } = job;
  const { db } = deps;
  for (;;) {
    const counts = await readDeniedCodes(db, auditId);
    // Codes that were never validated come first.
    if (counts === null || counts.open > 0 || counts.denied === 0) return finishChunk(deps, job);
    const plan = planSecondLook(counts);
    const codes =
      plan.kind === 'look' ? await findCodesToLookAt(db, auditId, plan, LOOK_CHUNK) : [];
    if (codes.length === 0) {
      const verdict = plan.kind === 'look' ? 'invalid' : 'unproven';
      const denied = await settleDenied(db, auditId, verdict);
      for (let i = 0; i < denied; i++) deps.onVerdict?.(verdict);
      await noteAuditProblem(db, auditId, plan.kind === 'look' ? null : CONTRADICTED);
      return finishChunk(deps, job);
    }
    const { lookAfterMs = SECOND_LOOK_DELAY_MS } = deps;
    const deniedAt = codes.map(({ lastDeniedAt }) => lastDeniedAt?.getTime() ?? 0);
    const delayMs = waitBeforeSecondLook(deniedAt, lookAfterMs, counts.overturned, Date.now());
    if (delayMs > 0) {
      await noteAuditProblem(db, auditId, waitText(codes.length, new Date(Date.now() + delayMs)));
      return { kind: 'later', reason: 'second look', delayMs };
    }
    await noteAuditProblem(db, auditId, null);
    const result = await validateChunk(deps, held, codes, 'all', signal);
    const outcome = await openCodesOutcome(deps, job, result);
    if (outcome !== null) return outcome;
  }
}

const CONTRADICTED =
  'the marketplace denied codes and later found them, so often that no denial of this audit is proof';

function waitText(codes: number, at: Date): string {
  return codes === 1
    ? `1 denied code is checked again at ${moment(at)}, before it is called invalid`
    : `${codes} denied codes are checked again at ${moment(at)}, before they are called invalid`;
}

async function finishChunk(deps: AuditDeps, { auditId, chunk }: ChunkJob): Promise<JobOutcome> {
  await enqueueNext(deps.db, auditId, deps.enqueueChunk, chunk + 1);
  const isFinished = (await getAudit(deps.db, auditId))?.state === 'finished';
  const alert = isFinished ? finishedAlert(auditId) : null;
  return { kind: 'done', result: { audit: String(auditId), chunk }, alert };
}

/** The outcome when codes are still open or the audit has ended; null: the chunk is done. */
async function openCodesOutcome(
  deps: AuditDeps,
  { auditId, chunk, isLastAttempt }: ChunkJob,
  result: ChunkResult,
): Promise<JobOutcome | null> {
  const { stop, state } = result;
  const { db } = deps;
  const next = nextStep(result, Date.now(), Math.random());
  if (next.kind !== 'hand-back') {
    await noteAuditProblem(db, auditId, next.kind === 'done' ? null : describeStop(stop));
  }
  if (state !== 'running') return endedOutcome(auditId, state);
  switch (next.kind) {
    case 'hand-back':
      return next;
    case 'done':
      return null;
    case 'later':
      // Only some codes of this chunk wait; the other chunks need not.
      if (stop === null && chunk !== SECOND_LOOK) {
        await enqueueNext(deps.db, auditId, deps.enqueueChunk, chunk + 1);
      }
      return { kind: 'later', reason: stop?.reason ?? 'some codes', delayMs: next.delayMs };
    case 'blocked': {
      // The marketplace's own words stay in the store.
      const problem = `audit ${auditId} can’t go on: ${stop?.reason}; see \`seller-mirror audits show ${auditId}\``;
      if (!isLastAttempt && !isKeyNeverGood(result)) {
        return { kind: 'retry', problem, notBefore: next.notBefore, alert: null };
      }
      await failAudit(db, auditId, describeStop(stop) ?? problem);
      return { kind: 'give-up', problem, alert: finishedAlert(auditId) };
    }
  }
}

/** Alerts again: the worker that finished the audit may have been killed first. Each alert is sent once. */
function endedOutcome(auditId: bigint, state: string): JobOutcome {
  const alert = state === 'finished' ? finishedAlert(auditId) : null;
  return { kind: 'done', result: { audit: String(auditId), state }, alert };
}

function finishedAlert(auditId: bigint): Alert {
  return { kind: 'audit-finished', auditId: String(auditId) };
}
