/**
 * The queue can't be used just now, in one line with a remedy a person can follow. It never holds a
 * password: only words about host and reason go into it, never the error of a driver, which may
 * carry the command that logs in.
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

/** An error's own words on one bounded line; for logs and for what is kept with a failed job. */
export function wordsOf(error: unknown): string {
  // Several addresses were tried: what the last one said stands for all.
  if (error instanceof AggregateError && error.message === '') return wordsOf(error.errors.at(-1));
  const text = error instanceof Error ? error.message || error.name : String(error);
  return bounded(text);
}

/** Text on one line, with a length that is bounded. */
export function bounded(text: string): string {
  const line = text.replaceAll(/[\s\p{Cc}]+/gu, ' ').trim();
  return line.length <= LONGEST_TEXT ? line : `${line.slice(0, LONGEST_TEXT - 1)}…`;
}
