import { describeFailure, type Failure } from '../domain/reply.js';
import type { RunCounts, RunKind } from '../store/runs.js';
import type { RowStamp } from '../store/item-rows.js';
import type { SellerLock } from '../store/lock.js';
import type { JobDeps, Problem, ProblemCode, RunReport } from './types.js';

/** Ends a run as failed; thrown by the steps of a run and caught by `performRun`. */
export class RunProblem extends Error {
  override readonly name = 'RunProblem';
  readonly problem: Problem;

  constructor(code: ProblemCode, message: string, remedy: string, permanent = false) {
    super(message);
    this.problem = { code, message, remedy, permanent };
  }
}

const REMEDIES: Readonly<Record<Exclude<Failure['kind'], 'denied'>, string>> = {
  refused: 'check the API key in the workspace settings of the marketplace, and MARKETPLACE_URL',
  limited: 'wait, or lower REQUESTS_PER_MINUTE if others share this address',
  unavailable: 'try again later; the copy is as it was',
  unreadable:
    'run `seller-mirror doctor`, and check that MARKETPLACE_URL is the base address of the API',
};

/** The problem that a failed reply makes of a run. */
export function problemOf(failure: Failure): RunProblem {
  const code = failure.kind === 'denied' ? 'refused' : failure.kind;
  const permanent = code === 'refused' || code === 'unreadable';
  return new RunProblem(code, describeFailure(failure), REMEDIES[code], permanent);
}

/** A run at work: what its steps share. */
export interface RunContext {
  readonly deps: JobDeps;
  readonly lock: SellerLock;
  readonly stamp: RowStamp;
  readonly signal: AbortSignal;
  /** Figures so far; steps add to them. */
  readonly counts: { -readonly [K in keyof RunCounts]: RunCounts[K] };
  readonly tolerated: Map<string, number>;
  readonly warnings: string[];
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
  await deps.store.ensureSeller(deps.sellerId, deps.marketplace.host);
  const lock = await deps.store.lockSeller(deps.sellerId);
  try {
    const { runId, at } = await deps.store.startRun(lock, kind, deps.holder);
    const run = newContext(deps, lock, { sellerId: deps.sellerId, runId, at }, signal);
    const callsBefore = deps.callCount();
    const settle = async (
      state: 'succeeded' | 'held' | 'failed' | 'interrupted',
      problem: Problem | null,
    ): Promise<void> => {
      run.counts.apiCalls = deps.callCount() - callsBefore;
      run.counts.tolerated = Object.fromEntries(run.tolerated);
      const { apiCalls, tolerated, bytes } = run.counts;
      await deps.store.saveCounts(
        runId,
        state === 'failed' || state === 'interrupted' ? { apiCalls, tolerated, bytes } : run.counts,
      );
      await deps.store.finishRun(runId, {
        state,
        warnings: run.warnings,
        problemCode: problem?.code ?? null,
        problem: problem?.message ?? null,
      });
    };
    try {
      const state = await work(run);
      await settle(state, null);
      return report(run, kind, state, null);
    } catch (error) {
      if (error instanceof RunProblem) {
        await settle('failed', error.problem);
        return report(run, kind, 'failed', error.problem);
      }
      // Best effort: if the store itself is what failed, the next run marks this one.
      const problem = signal.aborted ? interrupted() : storeProblem(error);
      await settle(signal.aborted ? 'interrupted' : 'failed', problem).catch(() => undefined);
      throw error;
    }
  } finally {
    await lock.release();
  }
}

function newContext(
  deps: JobDeps,
  lock: SellerLock,
  stamp: RowStamp,
  signal: AbortSignal,
): RunContext {
  const counts: RunContext['counts'] = {
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
  return { deps, lock, stamp, signal, counts, tolerated: new Map(), warnings: [] };
}

function report(
  run: RunContext,
  kind: RunKind,
  state: RunReport['state'],
  problem: Problem | null,
): RunReport {
  const { runId, sellerId } = run.stamp;
  return { runId, sellerId, kind, state, counts: run.counts, warnings: run.warnings, problem };
}

function interrupted(): Problem {
  return { code: 'unavailable', message: 'interrupted', remedy: 'run it again', permanent: false };
}

function storeProblem(error: unknown): Problem {
  const message = error instanceof Error ? error.message : String(error);
  return { code: 'store', message, remedy: 'check the database', permanent: false };
}

/** Adds the quirks met in one record to the run's figures. */
export function noteTolerated(run: RunContext, names: readonly string[]): void {
  for (const name of names) run.tolerated.set(name, (run.tolerated.get(name) ?? 0) + 1);
}
