import { SellerBusyError } from '../db/locks.js';
import { busyOutcome, errorOutcome, problemAction } from './problem.js';
import { syncAccount, type AccountDetails } from './account.js';
import { AlreadyDoneError } from './run.js';
import { syncItem } from './sync-item.js';
import { syncItems } from './sync-items.js';
import { readParking, parkSeller } from './sellers-store.js';
import { getRun } from './runs-store.js';
import type { Alert, RunDeps, JobOutcome, Problem, RunReport } from './types.js';

/** Asks for a run; `sync` asks for two: of the account, then of the items. */
export type MirrorRequest = {
  /** When it was made. Runs that started later count as done for it. */
  readonly askedAt: Date;
  /** A person requested it, who may have fixed what the seller was parked for. */
  readonly byHand: boolean;
} & (
  | { readonly kind: 'sync' | 'account' | 'items' }
  | { readonly kind: 'item'; readonly itemId: number }
);

/**
 * Performs the runs of a request that nobody has performed since it was made. Never throws: errors become
 * outcomes. Repeating it is harmless.
 */
export async function performMirrorTask(
  deps: RunDeps,
  request: MirrorRequest,
  signal: AbortSignal,
): Promise<JobOutcome> {
  /** The last run, unless it succeeded or was held. */
  let unfinished: bigint | null = null;
  const watched: RunDeps = {
    ...deps,
    skipIfDoneSince: request.askedAt,
    onRun(event) {
      const over = event.phase === 'finished' && event.problem === null;
      unfinished = over ? null : event.runId;
      deps.onRun?.(event);
    },
  };
  try {
    return await perform(watched, request, signal);
  } catch (error) {
    if (error instanceof SellerBusyError && !signal.aborted) {
      return busyOutcome(`${error.message}; it is not started twice`);
    }
    const outcome = errorOutcome(error, signal);
    const alert = unfinished === null ? null : runAlert('run-failed', unfinished);
    return outcome.kind === 'retry' ? { ...outcome, alert } : outcome;
  }
}

async function perform(
  deps: RunDeps,
  request: MirrorRequest,
  signal: AbortSignal,
): Promise<JobOutcome> {
  signal.throwIfAborted();
  const parked = request.byHand ? null : await readParking(deps.db, deps.sellerId);
  if (parked !== null) {
    const { code, since, runId } = parked;
    const result = { parked: { code, since: since.toISOString(), run: runId && String(runId) } };
    if (runId === null) return { kind: 'done', result, alert: null };
    // If this job parked the seller, its first attempt may have been killed before it sent the alert.
    const parker = (await getRun(deps.db, runId))?.run.jobId ?? null;
    const isOwn = parker !== null && parker === deps.jobId;
    return { kind: 'done', result, alert: isOwn ? parkedAlert(deps, runId) : null };
  }
  const result: Record<string, unknown> = {};
  let account: AccountDetails | null = null;
  let alert: Alert | null = null;
  for (const step of request.kind === 'sync' ? (['account', 'items'] as const) : [request.kind]) {
    let held: bigint | null = null;
    try {
      let report: RunReport;
      if (step === 'account') ({ report, account } = await syncAccount(deps, signal));
      else if (request.kind === 'item') report = await syncItem(deps, request.itemId, signal);
      else report = await syncItems(deps, signal, account);
      const { runId, state, problem } = report;
      if (problem !== null) return await afterFailure(deps, runId, problem, signal);
      result[step] = { run: String(runId), state };
      if (state === 'held') held = runId;
    } catch (error) {
      if (!(error instanceof AlreadyDoneError)) throw error;
      result[step] = { coveredBy: String(error.runId), state: error.state };
      // The job of the held run may have been killed before it sent the alert. Each alert is sent once.
      if (error.state === 'held') held = error.runId;
    }
    if (held !== null) alert = runAlert('run-held', held);
  }
  return { kind: 'done', result, alert };
}

function runAlert(kind: 'run-failed' | 'run-held', runId: bigint): Alert {
  return { kind, runId: String(runId) };
}

function parkedAlert({ sellerId: seller }: RunDeps, runId: bigint): Alert {
  return { kind: 'seller-parked', seller, runId: String(runId) };
}

async function afterFailure(
  deps: RunDeps,
  runId: bigint,
  { code, message, notBefore }: Problem,
  signal: AbortSignal,
): Promise<JobOutcome> {
  // The run's own message stays in the store: it may quote the marketplace.
  const problem = `run ${runId} failed: ${code}; see \`seller-mirror runs ${runId}\``;
  const alert = runAlert('run-failed', runId);
  switch (problemAction(code)) {
    case 'retry':
      // A job that was told to stop uses up no attempt.
      if (signal.aborted || code === 'interrupted') return { kind: 'hand-back' };
      return { kind: 'retry', problem, notBefore, alert };
    case 'give-up':
      // A mistyped item id is no incident.
      return { kind: 'give-up', problem, alert: code === 'not-found' ? null : alert };
    case 'park': {
      const isFirst = await parkSeller(deps.db, deps.sellerId, {
        code,
        reason: message,
        runId,
      });
      return { kind: 'give-up', problem, alert: isFirst ? parkedAlert(deps, runId) : alert };
    }
  }
}
