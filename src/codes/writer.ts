import { setTimeout as sleep } from 'node:timers/promises';
import type { CodeResult, Ledger } from './ledger.js';

/** The pause after a write is this many times as long as the write, so writing takes a tenth of the time. */
const PAUSE_FACTOR = 9;
const MAX_PAUSE_MS = 1_000;
/** This many buffered results are written without a pause. */
const FULL_WRITE = 400;
/** More buffered results than this make `add` wait for the write. */
const MAX_BUFFERED = 1_000;

/**
 * Records results while codes are swept. A result is written at once if no write is in progress. The faster results
 * come, the more of them share a write. A kill loses the results since the last write began.
 */
export class Writer {
  readonly #ledger: Pick<Ledger, 'record'>;
  readonly #most: number;
  #buffer: CodeResult[] = [];
  #writing: Promise<void> | null = null;
  #pause = new AbortController();
  #isFlushing = false;
  #failure: { readonly error: unknown } | null = null;

  /** @param most results to buffer */
  constructor(ledger: Pick<Ledger, 'record'>, most = MAX_BUFFERED) {
    this.#most = Math.min(most, MAX_BUFFERED);
    this.#ledger = ledger;
  }

  /** Buffers a result. Resolves when more may come. @throws the error of an earlier write */
  async add(result: CodeResult): Promise<void> {
    this.#buffer.push(result);
    if (this.#buffer.length > this.#most || this.#failure !== null) return this.flush();
    if (this.#buffer.length >= FULL_WRITE) this.#pause.abort();
    this.#writing ??= this.#write();
  }

  /** Writes everything. @throws the error of a write */
  async flush(): Promise<void> {
    this.#isFlushing = true;
    this.#pause.abort();
    await this.#writing;
    this.#isFlushing = false;
    if (this.#failure !== null) throw this.#failure.error;
    if (this.#buffer.length > 0) await this.#ledger.record(this.#buffer.splice(0));
  }

  /** Writes until the buffer is empty. The next `add` or `flush` throws a failure. */
  async #write(): Promise<void> {
    try {
      while (this.#buffer.length > 0) {
        const began = performance.now();
        await this.#ledger.record(this.#buffer.splice(0));
        const pauseMs = Math.min(PAUSE_FACTOR * (performance.now() - began), MAX_PAUSE_MS);
        if (this.#isFlushing || this.#buffer.length >= FULL_WRITE) continue;
        this.#pause = new AbortController();
        await sleep(pauseMs, undefined, { signal: this.#pause.signal }).catch(() => undefined);
      }
    } catch (error) {
      this.#failure = { error };
    }
    this.#writing = null;
  }
}
