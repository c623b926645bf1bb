import type { Log } from '../domain/log.js';
import type { Progress, RunEvent } from '../jobs/types.js';

/** While look-ups go on, a line comes as often as this, milliseconds. */
const LOOKUP_LINE_MS = 60_000;

/** Writes what happens to runs as lines that carry the run's id beside what `log` carries already. */
export class RunLog {
  readonly #log: Log;
  #ofRun: Log;
  /** When the last line about look-ups was written; null before the run's first. */
  #lookupLineAt: number | null = null;

  constructor(log: Log) {
    this.#log = log;
    this.#ofRun = log;
  }

  run(event: RunEvent): void {
    const { runId, kind } = event;
    this.#ofRun = this.#log.child({ run: runId, kind });
    this.#lookupLineAt = null;
    if (event.phase === 'started') this.#ofRun.info('run started');
    else logEnd(this.#ofRun, event);
  }

  /** Look-ups are the one step of a run that may take long, an hour for 1,800 items. */
  progress(progress: Progress): void {
    if (progress.phase !== 'look-up') return;
    const now = performance.now();
    if (this.#lookupLineAt !== null && now - this.#lookupLineAt < LOOKUP_LINE_MS) return;
    this.#lookupLineAt = now;
    const { total: items, done: checked, leastMs } = progress;
    const atLeast = leastMs === null ? {} : { atLeastSeconds: Math.round(leastMs / 1000) };
    this.#ofRun.info('checking missing items', { items, checked, ...atLeast });
  }
}

function logEnd(line: Log, event: Extract<RunEvent, { phase: 'finished' }>): void {
  const { state, counts, problem, durationMs } = event;
  const facts = { state, durationMs: Math.round(durationMs), ...figures(counts) };
  switch (state) {
    case 'succeeded':
      line.info('run succeeded', facts);
      break;
    case 'held':
      line.warn('run held: more items would go than the removal guard allows', facts);
      break;
    case 'interrupted':
      line.warn('run interrupted: nothing is half done', facts);
      break;
    case 'failed':
      line.error('run failed', {
        ...facts,
        problem: problem?.code,
        reason: problem?.message,
        remedy: problem?.remedy,
      });
  }
}

/** The figures that are not zero. */
function figures(counts: Extract<RunEvent, { phase: 'finished' }>['counts']): object {
  return Object.fromEntries(
    Object.entries(counts).filter(([, value]) => typeof value === 'number' && value > 0),
  );
}
