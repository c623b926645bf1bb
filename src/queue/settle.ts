import { UnrecoverableError } from 'bullmq';
import { bounded } from './errors.js';
import { TryAgain, type QueueJob } from './session.js';
import type { Tuning } from './tuning.js';
import type { JobOutcome } from './worker.js';

/** What is written down about an outcome: decided once, written as often as it takes. */
export type Verdict =
  | { readonly kind: 'done'; readonly result: unknown }
  | { readonly kind: 'retry'; readonly problem: string; readonly delayMs: number }
  | { readonly kind: 'later'; readonly until: number }
  | { readonly kind: 'give-up'; readonly problem: string }
  | { readonly kind: 'hand-back' };

/** The last attempt of a job that fails is the end of it, whatever the pause would have been. */
export function verdictOf(
  outcome: JobOutcome,
  attempt: number,
  attempts: number,
  now: number,
  random: number,
  backoff: Tuning['backoff'],
): Verdict {
  switch (outcome.kind) {
    case 'done':
      return { kind: 'done', result: smallResult(outcome.result) };
    case 'retry': {
      const problem = bounded(outcome.problem);
      if (attempt >= attempts) return { kind: 'give-up', problem };
      const delayMs = Math.max(1, backoff(attempt, outcome.notBefore, now, random));
      return { kind: 'retry', problem, delayMs };
    }
    case 'later':
      return { kind: 'later', until: now + Math.max(1, outcome.delayMs) };
    case 'give-up':
      return { kind: 'give-up', problem: bounded(outcome.problem) };
    case 'hand-back':
      return { kind: 'hand-back' };
  }
}

const LARGEST_RESULT = 2_048;

/** A result as JSON can hold it; one that is too large is left out, since it is kept for days. */
function smallResult(result: Readonly<Record<string, unknown>>): unknown {
  const text = JSON.stringify(result, (_key, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  );
  return text.length <= LARGEST_RESULT ? (JSON.parse(text) as unknown) : { tooLarge: true };
}

/**
 * Writes down what became of a job. Done here and not by returning or throwing to BullMQ, whose loop
 * gives the lock up before it records, and records a failure when the recording fails.
 * @returns false when the job is no longer ours to decide on
 */
export async function record(job: QueueJob, token: string, verdict: Verdict): Promise<boolean> {
  try {
    await move(job, token, verdict);
    return true;
  } catch (error) {
    if (isNotOurs(error)) return false;
    throw error;
  }
}

async function move(job: QueueJob, token: string, verdict: Verdict): Promise<unknown> {
  switch (verdict.kind) {
    case 'done':
      return job.moveToCompleted(verdict.result, token, false);
    case 'retry':
      return job.moveToFailed(new TryAgain(verdict.problem, verdict.delayMs), token, false);
    case 'later':
      return job.moveToDelayed(verdict.until, token);
    case 'give-up':
      return job.moveToFailed(new UnrecoverableError(verdict.problem), token, false);
    case 'hand-back':
      return job.moveToWait(token);
  }
}

/** Gone, not at work, or locked by another worker: these errors of BullMQ's have a negative code. */
function isNotOurs(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error)) return false;
  return typeof error.code === 'number' && error.code < 0;
}
