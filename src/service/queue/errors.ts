import { UserError } from '../../domain/user-error.js';
import type { Log } from '../../domain/log.js';
import { oneLine } from '../../domain/text.js';

/** Maximum characters of a problem in logs and failed jobs. */
const MAX_LINE_LENGTH = 500;

/** The message of an error on one line of at most 500 characters. */
export function errorText(error: unknown): string {
  // The driver tried several addresses; report the last one's error.
  if (error instanceof AggregateError && error.message === '') {
    return errorText(error.errors.at(-1));
  }
  const text = error instanceof Error ? error.message || error.name : String(error);
  return oneLine(text, MAX_LINE_LENGTH);
}

/** Shortest time between two warnings, even if a server comes and goes every second. */
const WARNING_INTERVAL_MS = 60_000;

interface OutageMessages {
  readonly lost: string;
  /** Null: log the loss only once. */
  readonly stillLost: string | null;
  readonly back: string;
}

/** Logs outages in few lines, however many callers report them. */
export class OutageLog {
  /** When the outage began, milliseconds since 1970; null if there is none. */
  #since: number | null = null;
  #warnedAt = -Infinity;
  /** True if the loss was logged. Then the return must be logged too. */
  #isLogged = false;

  constructor(
    private readonly log: Log,
    private readonly messages: OutageMessages,
  ) {}

  /** Reports a failure. Logs a warning when the outage begins, then at most one a minute. */
  failed(reason: string, now = Date.now()): void {
    this.#since ??= now;
    if (now - this.#warnedAt < WARNING_INTERVAL_MS) return;
    const { lost, stillLost } = this.messages;
    const seconds = Math.round((now - this.#since) / 1_000);
    if (!this.#isLogged) this.log.warn(lost, { reason });
    else if (stillLost !== null) this.log.warn(stillLost, { reason, seconds });
    this.#warnedAt = now;
    this.#isLogged = true;
  }

  /** Reports a success. Logs the end of the outage if its beginning was logged. */
  succeeded(now = Date.now()): void {
    const seconds = Math.round((now - (this.#since ?? now)) / 1_000);
    if (this.#isLogged) this.log.info(this.messages.back, { seconds });
    this.#since = null;
    this.#isLogged = false;
  }
}

/** Explains an error that is not about the connection. */
export function commandError(where: string, error: unknown): UserError {
  return new UserError(
    `${where}: ${errorText(error)}`,
    'Check the log of the queue’s server.',
    'QUEUE',
  );
}
