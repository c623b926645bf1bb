import { isUserError } from '../domain/user-error.js';
import { busyOutcome, errorOutcome, problemAction, INTERRUPTED_PROBLEM } from './problem.js';
import { syncAccount, type AccountDetails } from './account.js';
import type { Wanted } from './requests.js';
import { dropAsked, readRequest } from './requests-store.js';
import { AlreadyDoneError } from './run.js';
import { syncItem } from './sync-item.js';
import { syncItems } from './sync-items.js';
import { readParking } from './sellers-store.js';
import type { RunDeps, JobOutcome, Problem, RunReport, RunRequest } from './types.js';

/** A time of a schedule, or what a person asked for; `sync` means two runs: of the account, then of the items. */
export type MirrorRequest = Wanted & {
  /** The time of the schedule, or when the person asked. */
  readonly dueAt: Date;
  /** A person asked, who may have fixed what the seller was stopped for. */
  readonly byHand: boolean;
  /** When a run that failed is tried again; absent or null: never. @param attempt from 1 */
  readonly retryAt?: (attempt: number, notBefore: number | null) => Date | null;
};

/**
 * Performs the runs of a request that no run has answered. Never throws: errors become outcomes. Repeating it is
 * harmless, at the same time too.
 */
export async function performMirrorTask(
  deps: RunDeps,
  request: MirrorRequest,
  signal: AbortSignal,
): Promise<JobOutcome> {
  try {
    return await perform(deps, request, signal);
  } catch (error) {
    if (isUserError(error, 'BUSY') && !signal.aborted) {
      return busyOutcome(`${error.message}; it is not started twice`);
    }
    return errorOutcome(error, signal);
  }
}

async function perform(
  deps: RunDeps,
  request: MirrorRequest,
  signal: AbortSignal,
): Promise<JobOutcome> {
  signal.throwIfAborted();
  const { db, sellerId } = deps;
  const { kind, dueAt, byHand } = request;
  const parked = byHand ? null : await readParking(db, sellerId);
  if (parked !== null) {
    const { code, since, runId } = parked;
    const result = { code, since: since.toISOString(), run: runId && String(runId) };
    return { kind: 'done', result: { parked: result } };
  }
  const { askedBy, attempts } = await readRequest(db, sellerId, dueAt);
  /** What the last run that failed recorded. */
  const again: { at: Date | null } = { at: null };
  const own: RunRequest = {
    dueAt,
    askedBy: byHand ? (askedBy ?? 'a person') : null,
    itemId: request.kind === 'item' ? request.itemId : null,
    retryAt({ code, notBefore }) {
      const mayHelp = problemAction(code) === 'retry';
      again.at = mayHelp ? (request.retryAt?.(attempts + 1, notBefore) ?? null) : null;
      return again.at;
    },
  };
  const watched = { ...deps, request: own };
  const result: Record<string, unknown> = {};
  let account: AccountDetails | null = null;
  for (const step of kind === 'sync' ? (['account', 'items'] as const) : [kind]) {
    try {
      let report: RunReport;
      if (step === 'account') ({ report, account } = await syncAccount(watched, signal));
      else if (request.kind === 'item') report = await syncItem(watched, request.itemId, signal);
      else report = await syncItems(watched, signal, account);
      const { runId, state, problem } = report;
      if (problem !== null)
        return await afterFailure(deps, request, { runId, problem, retryAt: again.at }, signal);
      result[step] = { run: String(runId), state };
    } catch (error) {
      if (error instanceof AlreadyDoneError) {
        result[step] = { coveredBy: String(error.runId), state: error.state };
        if (error.state !== 'failed') continue;
        await dropAsked(db, sellerId, dueAt);
        break;
      }
      // The run says when it is tried again, also one that the store failed.
      if (again.at === null || signal.aborted) throw error;
      return later(db, errorOutcome(error, signal), again.at);
    }
  }
  return { kind: 'done', result };
}

interface FailedRun {
  readonly runId: bigint;
  readonly problem: Problem;
  readonly retryAt: Date | null;
}

async function afterFailure(
  { db, sellerId }: RunDeps,
  { dueAt }: MirrorRequest,
  { runId, problem: { code }, retryAt }: FailedRun,
  signal: AbortSignal,
): Promise<JobOutcome> {
  // The run's own message stays in the store: it may quote the marketplace.
  const problem = `run ${runId} failed: ${code}; see \`seller-mirror runs show ${runId}\``;
  if (signal.aborted || code === INTERRUPTED_PROBLEM.code) return { kind: 'hand-back' };
  if (retryAt !== null) return later(db, { kind: 'give-up', problem }, retryAt);
  await dropAsked(db, sellerId, dueAt);
  return { kind: 'give-up', problem };
}

/** The database counts the attempts, so the queue need not. */
function later({ clock }: RunDeps['db'], outcome: JobOutcome, retryAt: Date): JobOutcome {
  const reason = 'problem' in outcome ? outcome.problem : 'the run failed';
  return { kind: 'later', reason, delayMs: Math.max(0, retryAt.getTime() - clock.now()) };
}
