import type { Log } from '../domain/log.js';

/** An outage, and what was logged of it. */
export interface OutageState {
  /** Since when the queue can't be used, milliseconds since 1970; null when it can. */
  readonly since: number | null;
  /** When the last line about it was written; null before the first. */
  readonly saidAt: number | null;
  /** Whether the loss was logged: then the return must be, too. */
  readonly told: boolean;
}

export const NO_OUTAGE: OutageState = { since: null, saidAt: null, told: false };

/** Milliseconds between two warnings, also when the queue comes and goes every second. */
const PAUSE_MS = 60_000;

export interface OutageStep {
  readonly state: OutageState;
  readonly say: 'lost' | 'still-lost' | 'back' | null;
}

/** After a failure: one line when the queue is lost, then at most one a minute. */
export function afterFailure(state: OutageState, now: number): OutageStep {
  const since = state.since ?? now;
  if (state.saidAt !== null && now - state.saidAt < PAUSE_MS) {
    return { state: { ...state, since }, say: null };
  }
  const say = state.told ? 'still-lost' : 'lost';
  return { state: { since, saidAt: now, told: true }, say };
}

/** After a success: one line when the loss was logged. */
export function afterSuccess(state: OutageState): OutageStep {
  if (state.since === null) return { state, say: null };
  return { state: { ...state, since: null, told: false }, say: state.told ? 'back' : null };
}

/** Logs outages in few lines, however many callers notice them. */
export class Outage {
  readonly #log: Log;
  #state = NO_OUTAGE;

  constructor(log: Log) {
    this.#log = log;
  }

  /** A command or a connection failed. */
  failed(reason: string): void {
    const { state, say } = afterFailure(this.#state, Date.now());
    this.#state = state;
    if (say === 'lost') this.#log.warn('the queue can not be used', { reason });
    if (say === 'still-lost') {
      const seconds = Math.round((Date.now() - (state.since ?? 0)) / 1_000);
      this.#log.warn('the queue can still not be used', { reason, seconds });
    }
  }

  /** A command succeeded. */
  worked(): void {
    const before = this.#state;
    const { state, say } = afterSuccess(before);
    this.#state = state;
    if (say !== 'back') return;
    const seconds = Math.round((Date.now() - (before.since ?? 0)) / 1_000);
    this.#log.info('the queue can be used again', { seconds });
  }
}
