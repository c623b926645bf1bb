import type { RowStamp } from '../store/item-rows.js';
import type { SellerLock } from '../store/lock.js';
import type { RunCounts, RunKind } from '../store/runs.js';
import type { Binding } from '../store/sellers.js';
import { INTERRUPTED, RunProblem, storeProblem } from './problem.js';
import type { JobDeps, Problem, RunReport } from './types.js';

/** A run at work: what its steps share. */
export interface RunContext {
  readonly deps: JobDeps;
  readonly lock: SellerLock;
  /** Whose copy it is, as known before the run. */
  readonly binding: Binding;
  readonly stamp: RowStamp;
  readonly signal: AbortSignal;
  /** Figures so far; steps add to them. */
  readonly counts: { -readonly [K in keyof RunCounts]: RunCounts[K] };
  readonly tolerated: Map<string, number>;
  readonly warnings: string[];
  /** A part of the run is committed: whatever comes, it is no longer one that changed nothing. */
  committed: boolean;
}

/**
 * The frame of every run: takes the seller's lock, enters the run, lets `work` do it, and closes
 * the run with its figures whatever happens. Problems become the report; an abort, or a store that
 * fails, is thrown on.
 * @throws {SellerBusyError} when another run works for this seller
 */
export async function performRun(
  deps: JobDeps,
  kind: RunKind,
  signal: AbortSignal,
  work: (run: RunContext) => Promise<'succeeded' | 'held'>,
): Promise<RunReport> {
  signal.throwIfAborted();
  const binding = await deps.store.ensureSeller(deps.sellerId, deps.marketplace.host);
  const lock = await deps.store.lockSeller(deps.sellerId);
  try {
    const { runId, at } = await deps.store.startRun(lock, kind, deps.holder);
    const stamp = { sellerId: deps.sellerId, runId, at };
    const run: RunContext = {
      deps,
      lock,
      binding,
      stamp,
      signal,
      counts: noCounts(),
      tolerated: new Map(),
      warnings: [],
      committed: false,
    };
    return await finishWork(run, kind, work);
  } finally {
    await lock.release();
  }
}

async function finishWork(
  run: RunContext,
  kind: RunKind,
  work: (run: RunContext) => Promise<'succeeded' | 'held'>,
): Promise<RunReport> {
  const { deps, signal, counts, stamp, warnings } = run;
  const callsBefore = deps.callCount();
  const close = async (
    state: RunReport['state'] | 'interrupted',
    problem: Problem | null,
  ): Promise<void> => {
    counts.apiCalls = deps.callCount() - callsBefore;
    counts.tolerated = Object.fromEntries(run.tolerated);
    const [problemCode, message] = [problem?.code ?? null, problem?.message ?? null];
    const end = { state, warnings, problemCode, problem: message };
    await deps.store.finishRun(stamp.runId, end, counts);
  };
  const report = (state: RunReport['state'], problem: Problem | null): RunReport => {
    const { runId, sellerId } = stamp;
    return { runId, sellerId, kind, state, counts, warnings, problem };
  };
  try {
    const state = await work(run);
    await close(state, null);
    return report(state, null);
  } catch (error) {
    if (!run.committed) forgetChanges(run);
    if (error instanceof RunProblem) {
      await close('failed', error.problem);
      return report('failed', error.problem);
    }
    const problem = signal.aborted ? INTERRUPTED : storeProblem(error);
    const state = signal.aborted || run.committed ? 'interrupted' : 'failed';
    // Best effort: if the store itself is what failed, the next run marks this one.
    await close(state, problem).catch(() => undefined);
    throw error;
  }
}

function noCounts(): RunContext['counts'] {
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

/** Sets the figures of what was rolled back to zero; how much was received stays. */
export function forgetChanges(run: RunContext): void {
  const { bytes } = run.counts;
  Object.assign(run.counts, noCounts(), { bytes });
}

/** Adds the quirks met in one record to the run's figures. */
export function noteTolerated(run: RunContext, names: readonly string[]): void {
  for (const name of names) run.tolerated.set(name, (run.tolerated.get(name) ?? 0) + 1);
}
