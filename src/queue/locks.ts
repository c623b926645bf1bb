import type { BullWorker } from './session.js';

/** Why a job's signal was aborted; handlers see it as `signal.reason`. */
export class JobInterrupted extends Error {
  override readonly name = 'JobInterrupted';

  constructor(readonly why: 'stopping' | 'lost') {
    super(why === 'stopping' ? 'the worker stops' : 'the job may belong to another worker by now');
  }
}

/** A job that this worker holds. */
export interface HeldJob {
  readonly id: string;
  readonly token: string;
  readonly signal: AbortSignal;
  /** Whether the server has said that it belongs to somebody else. */
  readonly gone: boolean;
  /** Ends the handler's work. */
  readonly interrupt: (why: 'stopping' | 'lost') => void;
}

interface Entry extends HeldJob {
  gone: boolean;
  deadline: NodeJS.Timeout;
}

/** Renewals within the life of a lock; two may fail before it is lost. */
const RENEWALS = 3;

/**
 * Renews the locks of the jobs at work. A job whose lock could not be renewed in time is interrupted
 * before anybody can take it over, whether or not the server could be asked.
 */
export class Locks {
  readonly #lockMs: number;
  readonly #extend: BullWorker['extendJobLocks'];
  readonly #failed: (error: unknown) => void;
  readonly #held = new Map<string, Entry>();
  #timer: NodeJS.Timeout | undefined;

  /** @param failed told when the server could not be asked */
  constructor(
    lockMs: number,
    extend: BullWorker['extendJobLocks'],
    failed: (error: unknown) => void,
  ) {
    this.#lockMs = lockMs;
    this.#extend = extend;
    this.#failed = failed;
  }

  /** @param ageMs how long ago, at most, the server gave the lock */
  hold(id: string, token: string, ageMs: number): HeldJob {
    const ending = new AbortController();
    const interrupt = (why: 'stopping' | 'lost'): void => ending.abort(new JobInterrupted(why));
    const deadline = this.#deadline(interrupt, ageMs);
    const entry = { id, token, signal: ending.signal, gone: false, interrupt, deadline };
    this.#held.set(token, entry);
    this.#timer ??= setTimeout(() => void this.#renew(), this.#lockMs / RENEWALS);
    return entry;
  }

  release({ token }: HeldJob): void {
    clearTimeout(this.#held.get(token)?.deadline);
    this.#held.delete(token);
    if (this.#held.size > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  interruptAll(): void {
    for (const entry of this.#held.values()) entry.interrupt('stopping');
  }

  /** Lets go of whatever is still held: nobody renews it any more. */
  releaseAll(): void {
    for (const entry of this.#held.values()) this.release(entry);
  }

  #deadline(interrupt: HeldJob['interrupt'], ageMs: number): NodeJS.Timeout {
    return setTimeout(() => interrupt('lost'), Math.max(0, this.#lockMs - ageMs));
  }

  async #renew(): Promise<void> {
    const entries = [...this.#held.values()].filter(({ gone }) => !gone);
    const askedAt = performance.now();
    try {
      const ids = entries.map(({ id }) => id);
      const tokens = entries.map(({ token }) => token);
      const lost = ids.length === 0 ? [] : await this.#extend(ids, tokens, this.#lockMs);
      for (const entry of entries) {
        if (lost.includes(entry.id)) {
          entry.gone = true;
          entry.interrupt('lost');
        } else if (this.#held.has(entry.token)) {
          clearTimeout(entry.deadline);
          entry.deadline = this.#deadline(entry.interrupt, performance.now() - askedAt);
        }
      }
    } catch (error) {
      this.#failed(error);
    }
    this.#timer =
      this.#held.size === 0
        ? undefined
        : setTimeout(() => void this.#renew(), this.#lockMs / RENEWALS);
  }
}
