import type { AuditStore } from '../../store/audits/audit-store.js';
import type { AuditState, CodeResult } from '../../store/audits/types.js';

/** Writing may take a tenth of the time: the pause after a write is so many times as long as it took. */
const PAUSE_SHARE = 9;
/** Longest pause between two writes. */
const LONGEST_PAUSE_MS = 1_000;
/** So many results are written without a pause, while the next are asked for: their number makes up for it. */
const WORTH_A_WRITE = 100;
/** Results that may wait for a write before asking waits too. */
const MOST_WAITING = 1_000;

/** Where results go to, and who counts the calls that were made for them. */
export interface Recording {
  readonly audits: Pick<AuditStore, 'record'>;
  readonly auditId: bigint;
  /** Requests made so far. */
  readonly callCount: () => number;
  /** Told of the audit's state after each write. */
  readonly onState: (state: AuditState) => void;
}

/**
 * Writes results into the store while codes are asked for. A result is written at once when the last
 * write is past; the faster they come, the more of them go into one write, so that an audit without
 * a budget is not held up by writing. A kill loses what came since the last write began.
 */
export class Recorder {
  readonly #recording: Recording;
  #waiting: CodeResult[] = [];
  #countedCalls: number;
  #writing: Promise<void> | null = null;
  #timer: NodeJS.Timeout | null = null;
  #nextAt = -Infinity;
  #failure: { readonly error: unknown } | null = null;

  constructor(recording: Recording) {
    this.#recording = recording;
    this.#countedCalls = recording.callCount();
  }

  /**
   * Takes results; the promise is fulfilled when more may come.
   * @throws what an earlier write threw
   */
  async add(results: readonly CodeResult[]): Promise<void> {
    if (this.#failure !== null) throw this.#failure.error;
    this.#waiting.push(...results);
    if (this.#waiting.length > MOST_WAITING) await this.flush();
    else this.#plan();
  }

  /** Returns when everything is written, the calls made too. @throws what a write threw */
  async flush(): Promise<void> {
    do {
      if (this.#timer !== null) clearTimeout(this.#timer);
      this.#timer = null;
      await this.#write();
    } while (this.#failure === null && this.#hasMore);
    if (this.#failure !== null) throw this.#failure.error;
  }

  get #hasMore(): boolean {
    return this.#waiting.length > 0 || this.#recording.callCount() > this.#countedCalls;
  }

  #plan(): void {
    if (this.#writing !== null) return;
    if (this.#waiting.length >= WORTH_A_WRITE) {
      if (this.#timer !== null) clearTimeout(this.#timer);
      this.#timer = null;
      void this.#write();
      return;
    }
    if (this.#timer !== null) return;
    const waitMs = Math.max(0, this.#nextAt - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = null;
      void this.#write();
    }, waitMs);
  }

  #write(): Promise<void> {
    this.#writing ??= this.#writeWaiting().finally(() => {
      this.#writing = null;
      if (this.#waiting.length > 0 && this.#failure === null) this.#plan();
    });
    return this.#writing;
  }

  async #writeWaiting(): Promise<void> {
    if (this.#failure !== null || !this.#hasMore) return;
    const { audits, auditId, callCount, onState } = this.#recording;
    const calls = callCount();
    const newCalls = calls - this.#countedCalls;
    const began = performance.now();
    const results = this.#waiting;
    this.#waiting = [];
    try {
      const { state } = await audits.record(auditId, results, newCalls);
      this.#countedCalls = calls;
      onState(state);
    } catch (error) {
      this.#failure = { error };
    }
    const ended = performance.now();
    this.#nextAt = ended + Math.min(PAUSE_SHARE * (ended - began), LONGEST_PAUSE_MS);
  }
}
