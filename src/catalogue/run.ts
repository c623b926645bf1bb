import type { RowStamp } from './prepare-item.js';
import { type SellerLock, withSellerLock } from '../db/locks.js';
import { type RunCounts, type RunKind, findAnswer, startRun, finishRun } from './runs-store.js';
import { type Binding, ensureSeller } from './sellers-store.js';
import type { HeldItems } from './held-store.js';
import { INTERRUPTED_PROBLEM, problemAction, RunProblem, storeProblem } from './problem.js';
import type { RunDeps, Problem, RunEvent, RunReport } from './types.js';

export interface RunContext {
  readonly deps: RunDeps;
  readonly lock: SellerLock;
  /** The account and marketplace that the seller was bound to before the run. */
  readonly binding: Binding;
  readonly stamp: RowStamp;
  readonly signal: AbortSignal;
  readonly counts: { -readonly [K in keyof RunCounts]: RunCounts[K] };
  readonly tolerated: Map<string, number>;
  readonly warnings: string[];
  /** Fields of the records to store that no column holds. */
  readonly extraFields: Set<string>;
  /** Items that the removal guard held back; null: none. */
  held: HeldItems | null;
  /** True once the run is committed: a later failure must keep its counts. */
  committed: boolean;
}

/** Another run has already answered the request. */
export class AlreadyDoneError extends Error {
  override readonly name = 'AlreadyDoneError';

  constructor(
    readonly runId: bigint,
    readonly state: 'succeeded' | 'held' | 'failed',
  ) {
    super(`run ${runId} has already answered this`);
  }
}

type Work = (run: RunContext) => Promise<'succeeded' | 'held'>;

/**
 * Performs a run: takes the seller's lock, records the start, calls `work` and records the result.
 * A `RunProblem` becomes part of the report. An abort and errors of the store are thrown.
 * @throws {UserError} `BUSY` while another run of this seller is in progress
 * @throws {AlreadyDoneError} when another run has already answered the request
 */
export async function performRun(
  deps: RunDeps,
  kind: RunKind,
  signal: AbortSignal,
  work: Work,
): Promise<RunReport> {
  signal.throwIfAborted();
  const binding = await ensureSeller(deps.db, deps.sellerId, deps.marketplace.host);
  return withSellerLock(deps.db, deps.sellerId, async (lock) => {
    const { request = null, jobId = null } = deps;
    // Checked under the lock, so that only one of two equal jobs does the work.
    const done = request === null ? null : await findAnswer(lock, kind, request);
    if (done !== null) throw new AlreadyDoneError(done.runId, done.state);
    const { runId, at } = await startRun(lock, kind, deps.holder, jobId, null, request);
    const run: RunContext = {
      deps,
      lock,
      binding,
      stamp: { sellerId: deps.sellerId, runId, at },
      signal,
      counts: noCounts(),
      tolerated: new Map(),
      warnings: [],
      extraFields: new Set(),
      held: null,
      committed: false,
    };
    return workAndRecord(run, kind, work);
  });
}

interface Ending<State = RunReport['state'] | 'interrupted'> {
  readonly state: State;
  readonly problem: Problem | null;
}

async function workAndRecord(run: RunContext, kind: RunKind, work: Work): Promise<RunReport> {
  const { deps, counts, stamp, warnings, signal } = run;
  const { runId, sellerId } = stamp;
  const [callsBefore, startedAt] = [deps.callCount(), performance.now()];
  const recordEnd = async ({ state, problem }: Ending): Promise<void> => {
    counts.apiCalls = deps.callCount() - callsBefore;
    counts.tolerated = Object.fromEntries(run.tolerated);
    const [problemCode, message] = [problem?.code ?? null, problem?.message ?? null];
    const { request = null } = deps;
    const failure = state === 'failed' && request !== null ? problem : null;
    const retryAt = failure && (request?.retryAt(failure) ?? null);
    // A command that somebody waits for parks nobody.
    const parks = failure !== null && problemAction(failure.code) === 'park';
    await finishRun(
      deps.db.pool,
      runId,
      { state, warnings, problemCode, problem: message, retryAt, parks },
      counts,
    );
  };
  const emitEnd = (ending: Ending): void => {
    const durationMs = performance.now() - startedAt;
    emit(deps, { phase: 'finished', runId, kind, counts, durationMs, ...ending });
  };
  emit(deps, { phase: 'started', runId, kind });
  try {
    const ending = await workToEnd(run, work);
    await recordEnd(ending);
    emitEnd(ending);
    return { runId, sellerId, kind, counts, warnings, held: run.held, ...ending };
  } catch (error) {
    const ending: Ending = signal.aborted
      ? { state: 'interrupted', problem: INTERRUPTED_PROBLEM }
      : { state: run.committed ? 'interrupted' : 'failed', problem: storeProblem(error) };
    // Best effort. If the store fails here, the next run marks this one.
    await recordEnd(ending).catch(() => undefined);
    emitEnd(ending);
    throw error;
  }
}

async function workToEnd(run: RunContext, work: Work): Promise<Ending<RunReport['state']>> {
  try {
    return { state: await work(run), problem: null };
  } catch (error) {
    if (!run.committed) resetCounts(run);
    if (!(error instanceof RunProblem)) throw error;
    return { state: 'failed', problem: error.problem };
  }
}

/** Ignores errors of listeners. */
function emit(deps: RunDeps, event: RunEvent): void {
  try {
    deps.onRun?.(event);
  } catch {
    // A failing log or metric must not fail the run.
  }
}

/** The counts of a run that has found nothing yet. */
export function noCounts(): RunContext['counts'] {
  return {
    listed: 0,
    added: 0,
    changed: 0,
    extraChanged: 0,
    unchanged: 0,
    restored: 0,
    missing: 0,
    removed: 0,
    quarantined: 0,
    duplicates: 0,
    apiCalls: 0,
    bytes: 0,
    tolerated: {},
  };
}

/** Resets the counts after a rollback, except the bytes received. */
export function resetCounts(run: RunContext): void {
  const { bytes } = run.counts;
  Object.assign(run.counts, noCounts(), { bytes });
}

export function noteTolerated(run: RunContext, names: readonly string[]): void {
  for (const name of names) run.tolerated.set(name, (run.tolerated.get(name) ?? 0) + 1);
}
