/**
 * The queue can't be used now: one line, and a remedy a person can follow. It names host and reason
 * only and never holds an error of a driver, which may carry a password.
 */
export class QueueError extends Error {
  override readonly name = 'QueueError';
  /** Stable name for scripts. */
  readonly code = 'QUEUE';
  /** One sentence: what to do about it. */
  readonly remedy: string;

  constructor(message: string, remedy: string) {
    super(message);
    this.remedy = remedy;
  }
}

const LONGEST_TEXT = 500;

/** The message of an error on one line of bounded length, for logs and failed jobs. */
export function wordsOf(error: unknown): string {
  // Several addresses were tried: the last error stands for all.
  if (error instanceof AggregateError && error.message === '') return wordsOf(error.errors.at(-1));
  const text = error instanceof Error ? error.message || error.name : String(error);
  return bounded(text);
}

/** Text on one line of bounded length. */
export function bounded(text: string): string {
  const line = text.replaceAll(/[\s\p{Cc}]+/gu, ' ').trim();
  return line.length <= LONGEST_TEXT ? line : `${line.slice(0, LONGEST_TEXT - 1)}…`;
}
