import { SellerBusyError } from '../store/lock.js';
import type { Parking } from '../store/sellers.js';
import type { Alert } from './alerts.js';
import { afterProblem, type MirrorOutcome } from './mirror-outcome.js';
import { wordsOf } from './problem.js';
import type { Proof } from './prove.js';
import { CoveredError } from './run.js';
import { syncAccount } from './sync-account.js';
import { syncCatalogue } from './sync-catalogue.js';
import { syncItem } from './sync-item.js';
import type { JobDeps, Problem, RunReport } from './types.js';

/** What a mirror job is to do. */
export type MirrorJob = {
  /** When it was asked for: what a run that began later has done is not done again. */
  readonly askedAt: Date;
  /** A person asked, who may know that what a seller was parked for is mended. */
  readonly byHand: boolean;
} & (
  | { readonly kind: 'sync' | 'account' | 'items' }
  | { readonly kind: 'item'; readonly itemId: number }
);

type Step = 'account' | 'items' | 'item';

/** How one step went. */
type Done =
  | { readonly report: RunReport; readonly proof: Proof | null }
  | { readonly coveredBy: bigint; readonly state: 'succeeded' | 'held' };

/** A seller whose lock is taken is looked at again after this, and up to as much again. */
const BUSY_MS = 30_000;

/**
 * Does a mirror job: those of its runs that nobody has done since it was asked for. Never throws:
 * whatever happens is told as an outcome, and repeating the job is harmless.
 */
export async function performMirrorTask(
  deps: JobDeps,
  job: MirrorJob,
  signal: AbortSignal,
): Promise<MirrorOutcome> {
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
    return afterError(error, unfinished, signal);
  }
}

async function perform(deps: JobDeps, job: MirrorJob, signal: AbortSignal): Promise<MirrorOutcome> {
  signal.throwIfAborted();
  const parked = job.byHand ? null : await deps.store.sellers.parkingOf(deps.sellerId);
  if (parked !== null) return leftAlone(deps, parked);
  const result: Record<string, unknown> = {};
  let [proof, alert]: [Proof | null, Alert | null] = [null, null];
  for (const step of job.kind === 'sync' ? (['account', 'items'] as const) : [job.kind]) {
    const done = await doUnlessCovered(deps, job, step, proof, signal);
    if ('coveredBy' in done) {
      result[step] = { coveredBy: String(done.coveredBy), state: done.state };
      // The one that held it may have been killed before it could tell; an alert is sent once.
      if (done.state === 'held') alert = { kind: 'run-held', runId: String(done.coveredBy) };
      continue;
    }
    const { runId, state, problem } = done.report;
    if (problem !== null) return await afterFailure(deps, runId, problem, signal);
    if (state === 'held') alert = { kind: 'run-held', runId: String(runId) };
    result[step] = { run: String(runId), state };
    proof = done.proof;
  }
  return { kind: 'done', result, alert };
}

async function leftAlone(deps: JobDeps, parking: Parking): Promise<MirrorOutcome> {
  const { code, since, runId } = parking;
  const result = { parked: { code, since: since.toISOString(), run: String(runId) } };
  // The attempt that parked it may have been killed before it could tell.
  const parker = (await deps.store.runs.get(runId))?.run.jobId ?? null;
  const isOwn = parker !== null && parker === deps.jobId;
  return { kind: 'done', result, alert: isOwn ? parkedAlert(deps, runId) : null };
}

function parkedAlert({ sellerId: seller }: JobDeps, runId: bigint): Alert {
  return { kind: 'seller-parked', seller, runId: String(runId) };
}

async function doUnlessCovered(
  deps: JobDeps,
  job: MirrorJob,
  step: Step,
  proof: Proof | null,
  signal: AbortSignal,
): Promise<Done> {
  try {
    if (step === 'account') return await syncAccount(deps, signal);
    const report =
      job.kind === 'item'
        ? await syncItem(deps, job.itemId, signal)
        : await syncCatalogue(deps, signal, proof);
    return { report, proof: null };
  } catch (error) {
    if (error instanceof CoveredError) return { coveredBy: error.runId, state: error.state };
    throw error;
  }
}

async function afterFailure(
  deps: JobDeps,
  runId: bigint,
  problem: Problem,
  signal: AbortSignal,
): Promise<MirrorOutcome> {
  const { code, notBefore } = problem;
  // The run's own words stay in the store: they may quote what the marketplace said.
  const shown = `run ${runId} failed: ${code}; \`seller-mirror runs ${runId}\` tells more`;
  const failed: Alert = { kind: 'run-failed', runId: String(runId) };
  switch (afterProblem(problem, signal.aborted)) {
    case 'hand-back':
      return { kind: 'hand-back' };
    case 'retry':
      return { kind: 'retry', problem: shown, notBefore, alert: failed };
    case 'give-up':
      // A mistyped id is an answer for who asked, not an incident.
      return { kind: 'give-up', problem: shown, alert: code === 'not-found' ? null : failed };
    case 'park': {
      const parking = { code, reason: problem.message, runId };
      const first = await deps.store.sellers.park(deps.sellerId, parking);
      return { kind: 'give-up', problem: shown, alert: first ? parkedAlert(deps, runId) : failed };
    }
  }
}

function afterError(error: unknown, unfinished: bigint | null, signal: AbortSignal): MirrorOutcome {
  // Whatever came of being told to stop, another worker takes it from here.
  if (signal.aborted) return { kind: 'hand-back' };
  if (error instanceof SellerBusyError) {
    const reason = `${error.message}; it is not started twice`;
    return { kind: 'later', reason, delayMs: Math.round(BUSY_MS * (1 + Math.random())) };
  }
  const alert: Alert | null =
    unfinished === null ? null : { kind: 'run-failed', runId: String(unfinished) };
  return { kind: 'retry', problem: wordsOf(error), notBefore: null, alert };
}
