import type { Store } from '../store/store.js';
import type { JobDeps, Progress } from './types.js';
import type { RunProgress } from '../store/runs.js';

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
