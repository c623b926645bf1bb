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

/** Logs the beginning and the end of an outage, however many callers report it. */
export class OutageLog {
  #warnedAt = -Infinity;
  #isLogged = false;

  constructor(
    private readonly log: Log,
    private readonly messages: { readonly lost: string; readonly back: string },
  ) {}

  /** Reports a failure. */
  failed(reason: string, now = performance.now()): void {
    if (this.#isLogged || now - this.#warnedAt < WARNING_INTERVAL_MS) return;
    this.log.warn(this.messages.lost, { reason });
    this.#warnedAt = now;
    this.#isLogged = true;
  }

  /** Reports a success. Logs the end of an outage whose beginning was logged. */
  succeeded(now = performance.now()): void {
    if (!this.#isLogged) return;
    const seconds = Math.round((now - this.#warnedAt) / 1_000);
    this.log.info(this.messages.back, { seconds });
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
