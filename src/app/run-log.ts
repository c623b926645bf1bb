import type { Log } from '../domain/log.js';
import type { RunEvent } from '../jobs/types.js';

/** Writes what happens to runs as lines that carry the run's id beside what `log` carries already. */
export function logRun(log: Log, event: RunEvent): void {
  const { runId, kind } = event;
  const line = log.child({ run: runId, kind });
  if (event.phase === 'started') {
    line.info('run started');
    return;
  }
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
