import { SellerBusyError } from '../store/locks.js';
import { busyOutcome, errorOutcome, problemAction } from './problem.js';
import { syncAccount, type Proof } from './account.js';
import { CoveredError } from './run.js';
import { syncCatalogue } from './sync-catalogue.js';
import { syncItem } from './sync-item.js';
import type { Alert, JobDeps, JobOutcome, Problem, RunReport } from './types.js';

export type MirrorJob = {
  /** When it was asked for: what a run that began later has done is not done again. */
  readonly askedAt: Date;
  /** A person asked, who may know that what a seller was parked for is mended. */
  readonly byHand: boolean;
} & (
  | { readonly kind: 'sync' | 'account' | 'items' }
  | { readonly kind: 'item'; readonly itemId: number }
);

/**
 * Does a mirror job: those of its runs that nobody has done since it was asked for. Never throws:
 * whatever happens is told as an outcome, and repeating the job is harmless.
 */
export async function performMirrorTask(
  deps: JobDeps,
  job: MirrorJob,
  signal: AbortSignal,
): Promise<JobOutcome> {
  let unfinished: bigint | null = null;
  const watched: JobDeps = {
    ...deps,
    coveredSince: job.askedAt,
    onRun(event) {
      const over = event.phase === 'finished' && event.problem === null;
      unfinished = over ? null : event.runId;
      deps.onRun?.(event);
    },
  };
  try {
    return await perform(watched, job, signal);
  } catch (error) {
    if (error instanceof SellerBusyError && !signal.aborted) {
      return busyOutcome(`${error.message}; it is not started twice`);
    }
    const outcome = errorOutcome(error, signal);
    const alert = unfinished === null ? null : runAlert('run-failed', unfinished);
    return outcome.kind === 'retry' ? { ...outcome, alert } : outcome;
  }
}

async function perform(deps: JobDeps, job: MirrorJob, signal: AbortSignal): Promise<JobOutcome> {
  signal.throwIfAborted();
  const parked = job.byHand ? null : await deps.store.sellers.parkingOf(deps.sellerId);
  if (parked !== null) {
    const { code, since, runId } = parked;
    const result = { parked: { code, since: since.toISOString(), run: runId && String(runId) } };
    if (runId === null) return { kind: 'done', result, alert: null };
    // The attempt that parked it may have been killed before it could tell.
    const parker = (await deps.store.runs.get(runId))?.run.jobId ?? null;
    const isOwn = parker !== null && parker === deps.jobId;
    return { kind: 'done', result, alert: isOwn ? parkedAlert(deps, runId) : null };
  }
  const result: Record<string, unknown> = {};
  let proof: Proof | null = null;
  let alert: Alert | null = null;
  for (const step of job.kind === 'sync' ? (['account', 'items'] as const) : [job.kind]) {
    let held: bigint | null = null;
    try {
      const { report, proof: made } = await doStep(deps, job, step, proof, signal);
      const { runId, state, problem } = report;
      if (problem !== null) return await afterFailure(deps, runId, problem, signal);
      result[step] = { run: String(runId), state };
      proof = made;
      if (state === 'held') held = runId;
    } catch (error) {
      if (!(error instanceof CoveredError)) throw error;
      result[step] = { coveredBy: String(error.runId), state: error.state };
      // The one that held it may have been killed before it could tell; an alert is sent once.
      if (error.state === 'held') held = error.runId;
    }
    if (held !== null) alert = runAlert('run-held', held);
  }
  return { kind: 'done', result, alert };
}

async function doStep(
  deps: JobDeps,
  job: MirrorJob,
  step: 'account' | 'items' | 'item',
  proof: Proof | null,
  signal: AbortSignal,
): Promise<{ readonly report: RunReport; readonly proof: Proof | null }> {
  if (step === 'account') return syncAccount(deps, signal);
  const report =
    job.kind === 'item' ? syncItem(deps, job.itemId, signal) : syncCatalogue(deps, signal, proof);
  return { report: await report, proof: null };
}

function runAlert(kind: 'run-failed' | 'run-held', runId: bigint): Alert {
  return { kind, runId: String(runId) };
}

function parkedAlert({ sellerId: seller }: JobDeps, runId: bigint): Alert {
  return { kind: 'seller-parked', seller, runId: String(runId) };
}

async function afterFailure(
  deps: JobDeps,
  runId: bigint,
  { code, message, notBefore }: Problem,
  signal: AbortSignal,
): Promise<JobOutcome> {
  // The run's own words stay in the store: they may quote what the marketplace said.
  const problem = `run ${runId} failed: ${code}; \`seller-mirror runs ${runId}\` tells more`;
  const alert = runAlert('run-failed', runId);
  switch (problemAction(code)) {
    case 'retry':
      // What may pass is no failure of a job that was told to stop.
      if (signal.aborted || code === 'interrupted') return { kind: 'hand-back' };
      return { kind: 'retry', problem, notBefore, alert };
    case 'give-up':
      // A mistyped id is an answer for who asked, not an incident.
      return { kind: 'give-up', problem, alert: code === 'not-found' ? null : alert };
    case 'park': {
      const isFirst = await deps.store.sellers.park(deps.sellerId, {
        code,
        reason: message,
        runId,
      });
      return { kind: 'give-up', problem, alert: isFirst ? parkedAlert(deps, runId) : alert };
    }
  }
}
