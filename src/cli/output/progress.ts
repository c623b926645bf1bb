import { processEnvironment } from '../../config/index.js';
import { Rate } from '../../domain/rate.js';
import { count, duration } from '../../domain/text.js';
import { cut, safeLine, type Output } from './text.js';

interface ProgressOptions {
  /** Default: stderr, so that results can be piped. */
  readonly output?: Output;
  readonly total?: number | null;
  /** What was done before the start, which does not count for the rate. Default 0. */
  readonly from?: number;
}

/** With --quiet: neither progress nor notes. */
let quiet = false;
export const isQuiet = (): boolean => quiet;
export const setQuiet = (value: boolean): void => void (quiet = value);

const REDRAW_MS = 100;
const LOG_MS = 10_000;
const BAR_COLUMNS = 20;
const CLEAR_LINE = '\r\u001B[2K';

/**
 * Shows the progress of long work. On a terminal: one line, redrawn at most ten times a second and cleared at
 * the end. Elsewhere, and with TERM=dumb: a line every ten seconds. Short work shows nothing.
 */
export class Progress {
  readonly #label: string;
  readonly #output: Output;
  readonly #rate: Rate;
  readonly #timer: NodeJS.Timeout;
  /** False for pipes, files, and terminals that can't clear a line. */
  readonly #redraws: boolean;
  #total: number | null;
  #done: number;
  #detail = '';
  #paused = false;
  #leftMs: number | null = null;
  #waiting: string | null = null;
  #drawn = false;

  constructor(
    label: string,
    { output = process.stderr, total = null, from = 0 }: ProgressOptions = {},
  ) {
    this.#label = label;
    this.#output = output;
    this.#total = total;
    this.#done = from;
    this.#rate = new Rate(from, performance.now());
    this.#redraws = output.isTTY === true && processEnvironment()['TERM'] !== 'dumb';
    const everyMs = this.#redraws ? REDRAW_MS : LOG_MS;
    this.#timer = setInterval(() => this.#show(), everyMs).unref();
  }

  /** Cheap enough to be called for every item. */
  update(
    done: number,
    more: {
      readonly total?: number | null;
      readonly detail?: string;
      /** Hides rate and time left, which mean nothing during a pause. */
      readonly paused?: boolean;
      /** Time left, milliseconds, if something better than the rate tells it. */
      readonly leftMs?: number | null;
    } = {},
  ): void {
    this.#done = done;
    if (more.total !== undefined) this.#total = more.total;
    this.#detail = more.detail ?? this.#detail;
    this.#paused = more.paused ?? false;
    this.#leftMs = more.leftMs ?? null;
  }

  /** Says that a request waits for the budget. @param ms left; null: it is over */
  wait(ms: number | null): void {
    const isNew = this.#waiting === null;
    this.#waiting = ms === null ? null : waitingText(ms);
    // A script that reads lines learns it at once, and then as often as of the progress.
    if (isNew || this.#redraws) this.#show();
  }

  /** Writes a separate line, such as a warning, above the bar. */
  note(line: string): void {
    if (quiet) return;
    this.#clear();
    this.#output.write(`${safeLine(line)}\n`);
    if (this.#redraws) this.#show();
  }

  /** Clears the line. May be called twice. */
  finish(): void {
    clearInterval(this.#timer);
    this.#clear();
  }

  #show(): void {
    if (quiet) return;
    const output = this.#output;
    if (!this.#redraws) {
      output.write(`${this.#text('')}\n`);
      return;
    }
    const columns = (output.columns || 80) - 1;
    output.write(`${CLEAR_LINE}${cut(this.#text(this.#bar()), columns)}`);
    this.#drawn = true;
  }

  #clear(): void {
    if (this.#drawn) this.#output.write(CLEAR_LINE);
    this.#drawn = false;
  }

  #bar(): string {
    if (this.#total === null || this.#total <= 0) return '';
    const full = Math.round(Math.min(1, this.#done / this.#total) * BAR_COLUMNS);
    return `${'█'.repeat(full)}${'░'.repeat(BAR_COLUMNS - full)} `;
  }

  /** 0 during a pause, or while the rate is unknown. */
  #perSecond(): number {
    const now = performance.now();
    this.#rate.note(this.#done, now);
    if (this.#paused) this.#rate.pause(now);
    return this.#paused ? 0 : this.#rate.perMs(now) * 1000;
  }

  #text(bar: string): string {
    const [total, done] = [this.#total, this.#done];
    const rate = this.#perSecond();
    const parts = [total === null ? count(done) : `${count(done)} of ${count(total)}`];
    if (rate > 0) {
      parts.push(
        rate >= 2 ? `${count(Math.round(rate))}/s` : `${count(Math.round(rate * 60))}/min`,
      );
      if (total !== null && total > done && this.#leftMs === null) {
        parts.push(`${duration(((total - done) / rate) * 1000)} left`);
      }
    }
    if (this.#leftMs !== null && !this.#paused) parts.push(`${duration(this.#leftMs)} left`);
    if (this.#detail !== '') parts.push(safeLine(this.#detail));
    if (this.#waiting !== null) parts.push(this.#waiting);
    return `${safeLine(this.#label)} ${bar}${parts.join(' · ')}`;
  }
}

/** What is waited for, as people read it. @param ms left */
export function waitingText(ms: number): string {
  return `waiting for the request budget, ${duration(ms)}`;
}

/** Shows progress while work goes on, and clears it also after an error. */
export async function withProgress<T>(
  label: string,
  work: (progress: Progress) => Promise<T>,
  options?: ProgressOptions,
): Promise<T> {
  const progress = new Progress(label, options);
  try {
    return await work(progress);
  } finally {
    progress.finish();
  }
}
