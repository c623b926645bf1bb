import type { RowStamp } from '../store/item-rows.js';
import type { SellerLock } from '../store/locks.js';
import type { RunCounts, RunKind, RunProgress } from '../store/runs.js';
import type { Binding } from '../store/sellers.js';
import type { HeldItems } from '../store/decisions.js';
import type { ItemSession } from '../store/session.js';
import type { Store } from '../store/store.js';
import { INTERRUPTED, RunProblem, storeProblem } from './problem.js';
import type { JobDeps, Problem, Progress, RunEvent, RunReport } from './types.js';

export interface RunContext {
  readonly deps: JobDeps;
  readonly lock: SellerLock;
  /** Whose copy it is, as known before the run. */
  readonly binding: Binding;
  readonly stamp: RowStamp;
  readonly signal: AbortSignal;
  readonly counts: { -readonly [K in keyof RunCounts]: RunCounts[K] };
  readonly tolerated: Map<string, number>;
  readonly warnings: string[];
  /** What the removal guard held back; null when it did not. */
  held: HeldItems | null;
  /** A part of the run is committed: whatever comes, it is no longer one that changed nothing. */
  committed: boolean;
}

/** What the run is to do was done by another one that began no earlier than `coveredSince`. */
export class CoveredError extends Error {
  override readonly name = 'CoveredError';

  constructor(
    readonly runId: bigint,
    readonly state: 'succeeded' | 'held',
  ) {
    super(`run ${runId} did it already`);
  }
}

type Work = (run: RunContext) => Promise<'succeeded' | 'held'>;

/**
 * The frame of every run: takes the lock, enters the run, lets `work` do it, and closes it with its figures.
 * Problems become the report; an abort, or a store that fails, is thrown on.
 * @throws {SellerBusyError} when another run works for this seller
 * @throws {CoveredError} when another run did it already
 */
export async function performRun(
  deps: JobDeps,
  kind: RunKind,
  signal: AbortSignal,
  work: Work,
): Promise<RunReport> {
  signal.throwIfAborted();
  const binding = await deps.store.sellers.ensure(deps.sellerId, deps.marketplace.host);
  const lock = await deps.store.sellers.lock(deps.sellerId);
  try {
    const { coveredSince: since = null, jobId = null } = deps;
    // Asked while the lock is held, so that of two that are to do the same only one does it.
    const covering =
      since === null ? null : await deps.store.runs.findFinished(lock, { kind, since, jobId });
    if (covering !== null) throw new CoveredError(covering.runId, covering.state);
    const { runId, at } = await deps.store.runs.start(lock, kind, deps.holder, jobId);
    const run: RunContext = {
      deps,
      lock,
      binding,
      stamp: { sellerId: deps.sellerId, runId, at },
      signal,
      counts: noCounts(),
      tolerated: new Map(),
      warnings: [],
      held: null,
      committed: false,
    };
    return await finishWork(run, kind, work);
  } finally {
    await lock.release();
  }
}

interface Ending<State = RunReport['state'] | 'interrupted'> {
  readonly state: State;
  readonly problem: Problem | null;
}

async function finishWork(run: RunContext, kind: RunKind, work: Work): Promise<RunReport> {
  const { deps, counts, stamp, warnings, signal } = run;
  const { runId, sellerId } = stamp;
  const [callsBefore, begun] = [deps.callCount(), performance.now()];
  const close = async ({ state, problem }: Ending): Promise<void> => {
    counts.apiCalls = deps.callCount() - callsBefore;
    counts.tolerated = Object.fromEntries(run.tolerated);
    const [problemCode, message] = [problem?.code ?? null, problem?.message ?? null];
    await deps.store.runs.finish(runId, { state, warnings, problemCode, problem: message }, counts);
  };
  const tell = (ending: Ending): void => {
    const durationMs = performance.now() - begun;
    announce(deps, { phase: 'finished', runId, kind, counts, durationMs, ...ending });
  };
  announce(deps, { phase: 'started', runId, kind });
  try {
    const ending = await endingOf(run, work);
    await close(ending);
    tell(ending);
    return { runId, sellerId, kind, counts, warnings, held: run.held, ...ending };
  } catch (error) {
    const ending: Ending = signal.aborted
      ? { state: 'interrupted', problem: INTERRUPTED }
      : { state: run.committed ? 'interrupted' : 'failed', problem: storeProblem(error) };
    // Best effort: if the store itself is what failed, the next run marks this one.
    await close(ending).catch(() => undefined);
    tell(ending);
    throw error;
  }
}

async function endingOf(run: RunContext, work: Work): Promise<Ending<RunReport['state']>> {
  try {
    return { state: await work(run), problem: null };
  } catch (error) {
    if (!run.committed) forgetChanges(run);
    if (!(error instanceof RunProblem)) throw error;
    return { state: 'failed', problem: error.problem };
  }
}

/** Whoever listens must not harm the run. */
function announce(deps: JobDeps, event: RunEvent): void {
  try {
    deps.onRun?.(event);
  } catch {
    // Logs and metrics are worth less than the run.
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

/** Does some work in one transaction, which fails as a whole. */
export async function inSession<T>(
  run: RunContext,
  work: (session: ItemSession) => Promise<T>,
): Promise<T> {
  const session = await run.deps.store.items.begin(run.lock, run.stamp);
  try {
    const result = await work(session);
    await session.commit();
    return result;
  } catch (error) {
    await session.rollback();
    throw error;
  }
}

/** Sets the figures of what was rolled back to zero; how much was received stays. */
export function forgetChanges(run: RunContext): void {
  const { bytes } = run.counts;
  Object.assign(run.counts, noCounts(), { bytes });
}

export function noteTolerated(run: RunContext, names: readonly string[]): void {
  for (const name of names) run.tolerated.set(name, (run.tolerated.get(name) ?? 0) + 1);
}

/** Shortest time between two writes of a run's progress (ms). */
const WRITE_EVERY_MS = 1_000;

/**
 * Writes the progress of the runs of one piece of work into the store, for those who watch from
 * elsewhere. Never throws and never waits: a run does not depend on being watched.
 */
export function progressWriter({
  runs,
}: Pick<Store, 'runs'>): Required<Pick<JobDeps, 'onRun' | 'onProgress'>> {
  let runId: bigint | null = null;
  let wroteAt = 0;
  let isWriting = false;
  return {
    onRun(event) {
      runId = event.phase === 'started' ? event.runId : null;
      wroteAt = 0;
    },
    onProgress(progress) {
      if (runId === null || isWriting || Date.now() - wroteAt < WRITE_EVERY_MS) return;
      wroteAt = Date.now();
      isWriting = true;
      void runs
        .progress(runId, stepOf(progress))
        .catch(() => undefined)
        .finally(() => (isWriting = false));
    },
  };
}

function stepOf(progress: Progress): RunProgress {
  const { phase } = progress;
  if (phase === 'list') {
    const { records, expected } = progress;
    return { phase, done: records, total: expected === null ? null : Math.max(records, expected) };
  }
  if (phase === 'look-up') return { phase, done: progress.done, total: progress.total };
  return { phase, done: 0, total: null };
}
