import type { Log } from '../domain/log.js';

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

/** Milliseconds between two warnings, also when a server comes and goes every second. */
const PAUSE_MS = 60_000;

interface Lines {
  readonly lost: string;
  /** Null: the loss is logged once. */
  readonly stillLost: string | null;
  readonly back: string;
}

/** Logs outages in few lines, however many callers notice them. */
export class Outage {
  readonly #log: Log;
  readonly #lines: Lines;
  /** Milliseconds since 1970; null while all is well. */
  #since: number | null = null;
  #warnedAt = -Infinity;
  /** Whether the loss was logged: then the return must be, too. */
  #isKnown = false;

  constructor(log: Log, lines: Lines) {
    this.#log = log;
    this.#lines = lines;
  }

  /** Something failed: one line when the outage begins, then at most one a minute. */
  failed(reason: string, now = Date.now()): void {
    this.#since ??= now;
    if (now - this.#warnedAt < PAUSE_MS) return;
    const { lost, stillLost } = this.#lines;
    const seconds = Math.round((now - this.#since) / 1_000);
    if (!this.#isKnown) this.#log.warn(lost, { reason });
    else if (stillLost !== null) this.#log.warn(stillLost, { reason, seconds });
    this.#warnedAt = now;
    this.#isKnown = true;
  }

  /** Something succeeded: one line when the loss was logged. */
  worked(now = Date.now()): void {
    const seconds = Math.round((now - (this.#since ?? now)) / 1_000);
    if (this.#isKnown) this.#log.info(this.#lines.back, { seconds });
    this.#since = null;
    this.#isKnown = false;
  }
}
