import type { Log } from '../domain/log.js';

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
