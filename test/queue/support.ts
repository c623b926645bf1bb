import { setTimeout as sleep } from 'node:timers/promises';
import type { Log, LogFields } from '../../src/domain/log.js';
import type { MirrorTask } from '../../src/queue/tasks.js';
import type { Tuning } from '../../src/queue/tuning.js';
import type { JobContext, JobHandler, JobOutcome } from '../../src/queue/worker.js';

/** Times that make tests short; none of them is asserted. */
export const SHORT: Partial<Tuning> = {
  lockMs: 1_500,
  stalledMs: 400,
  blockMs: 500,
  connectMs: 1_000,
  commandMs: 1_000,
  answerMs: 4_000,
  retryMs: 300,
  graceMs: 1_000,
  backoff: () => 20,
};

export interface Line {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly fields: LogFields;
}

/** A log that keeps its lines. */
export function listeningLog(): { readonly log: Log; readonly lines: Line[] } {
  const lines: Line[] = [];
  const make = (facts: LogFields): Log => {
    const at =
      (level: Line['level']) =>
      (message: string, fields: LogFields = {}): void => {
        lines.push({ level, message, fields: { ...facts, ...fields } });
      };
    return {
      debug: at('debug'),
      info: at('info'),
      warn: at('warn'),
      error: at('error'),
      child: (more) => make({ ...facts, ...more }),
    };
  };
  return { log: make({}), lines };
}

export function sync(seller: string, tick: string | null = null): MirrorTask {
  return { kind: 'sync', seller, tick, askedAt: '2026-11-21T02:00:00.000Z' };
}

/** Waits until something is so; a test that waits in vain ends by the runner's time limit. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(20);
}

export const DONE: JobOutcome = { kind: 'done', result: {} };

/** A handler that notes what it was given, and ends jobs as `end` says; well, without it. */
export function noting(
  end: (context: JobContext, task: MirrorTask) => JobOutcome | Promise<JobOutcome> = () => DONE,
): {
  readonly handler: JobHandler<MirrorTask>;
  readonly seen: { readonly task: MirrorTask; readonly context: JobContext }[];
} {
  const seen: { task: MirrorTask; context: JobContext }[] = [];
  return {
    seen,
    handler: async (task, context) => {
      seen.push({ task, context });
      return end(context, task);
    },
  };
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
