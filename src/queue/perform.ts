import type { Log } from '../domain/log.js';
import { pause } from './concurrency.js';
import { wordsOf } from './errors.js';
import type { HeldJob } from './locks.js';
import type { QueueJob } from './session.js';
import { record, verdictOf, type Verdict } from './settle.js';
import { readPayload, type QueueName, type TaskOf } from './tasks.js';
import type { Tuning } from './tuning.js';
import type { JobHandler, JobOutcome } from './worker.js';

/** What a worker performs its jobs with. */
export interface Desk<N extends QueueName> {
  readonly queue: N;
  readonly handler: JobHandler<TaskOf<N>>;
  readonly tuning: Tuning;
  readonly log: Log;
  /** Asks the server, and tells of it when it can't. */
  readonly ask: <T>(question: () => Promise<T>) => Promise<T>;
  /** Aborted when the worker begins to stop. */
  readonly ending: AbortSignal;
  /** Aborted when nothing may be waited for any more. */
  readonly over: AbortSignal;
}

/** Pause before a server that failed is asked again, the first time. */
export const FIRST_PAUSE_MS = 250;

/**
 * Works on a job and writes down what became of it. Null when that could not be written down: then
 * the job is repeated. Never throws: a job that ends in an unforeseen way must not end the worker.
 */
export async function perform<N extends QueueName>(
  desk: Desk<N>,
  job: QueueJob,
  held: HeldJob,
): Promise<JobOutcome['kind'] | null> {
  const read = readPayload(desk.queue, job.data);
  const log = desk.log.child({ queue: desk.queue, job: held.id, ...sellerIn(read) });
  try {
    const attempt = job.attemptsMade + 1;
    const attempts = job.opts.attempts ?? 1;
    const outcome = await outcomeOf(desk, job, read, held, { attempt, attempts, log });
    const { backoff } = desk.tuning;
    const verdict = verdictOf(outcome, attempt, attempts, Date.now(), Math.random(), backoff);
    if (!(await recordSurely(desk, job, held, verdict))) {
      log.warn('what became of a job could not be written down; it is repeated', {
        outcome: verdict.kind,
      });
      return null;
    }
    logOutcome(log, outcome, verdict, attempt, attempts);
    return outcome.kind;
  } catch (error) {
    log.error('a job ended in a way it should not', { problem: wordsOf(error) });
    return null;
  }
}

type ReadPayload<N extends QueueName> = ReturnType<typeof readPayload<N>>;

/** Whom a job is about, for each of its lines. */
function sellerIn<N extends QueueName>(read: ReadPayload<N>): { readonly seller?: string } {
  return 'task' in read && 'seller' in read.task ? { seller: read.task.seller } : {};
}

async function outcomeOf<N extends QueueName>(
  { handler, tuning, ending }: Desk<N>,
  job: QueueJob,
  read: ReadPayload<N>,
  { id, signal }: HeldJob,
  facts: { readonly attempt: number; readonly attempts: number; readonly log: Log },
): Promise<JobOutcome> {
  // BullMQ leaves the last word on a job that killed its workers again and again to the next one.
  if (job.deferredFailure) {
    return { kind: 'give-up', problem: `it lost its worker more than ${tuning.maxStalled} times` };
  }
  if ('fault' in read) {
    return { kind: 'give-up', problem: `the job is not understood: ${read.fault}` };
  }
  if (ending.aborted) return { kind: 'hand-back' };
  try {
    return await handler(read.task, { jobId: id, signal, closing: ending, ...facts });
  } catch (error) {
    if (signal.aborted) return { kind: 'hand-back' };
    return { kind: 'retry', problem: wordsOf(error), notBefore: null };
  }
}

/**
 * Writes a verdict down, through outages too; its lock is renewed meanwhile. False when the job
 * turned out to be another worker's, or the worker has ended before.
 */
async function recordSurely<N extends QueueName>(
  { ask, tuning, over }: Desk<N>,
  job: QueueJob,
  held: HeldJob,
  verdict: Verdict,
): Promise<boolean> {
  let pauseMs = FIRST_PAUSE_MS;
  let doubtful = false;
  while (!held.gone && !over.aborted) {
    try {
      // Not ours any more: after a try whose answer was lost, this is what a record that was made
      // looks like.
      return (await ask(() => record(job, held.token, verdict))) || doubtful;
    } catch {
      doubtful = true;
      await pause(pauseMs, over);
      pauseMs = Math.min(2 * pauseMs, tuning.retryMs);
    }
  }
  return false;
}

function logOutcome(
  log: Log,
  outcome: JobOutcome,
  verdict: Verdict,
  attempt: number,
  attempts: number,
): void {
  switch (verdict.kind) {
    case 'done':
      return;
    case 'retry': {
      const { problem, delayMs } = verdict;
      const again = new Date(Date.now() + delayMs).toISOString();
      log.warn('job failed, it is tried again', { problem, attempt, attempts, again });
      return;
    }
    case 'give-up':
      log.error('job failed for good', { problem: verdict.problem, attempt, attempts });
      return;
    case 'later': {
      const reason = outcome.kind === 'later' ? outcome.reason : '';
      log.info('job put off', { reason, again: new Date(verdict.until).toISOString() });
      return;
    }
    case 'hand-back':
      log.info('job handed back to the queue');
  }
}
