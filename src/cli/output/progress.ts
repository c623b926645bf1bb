import { count, bytes, duration } from './text.js';
import { cut, safeLine } from './text.js';
import type { Output } from './text.js';

export interface ProgressOptions {
  /** Where to show it: stderr, so that results can be piped. */
  readonly output: Output;
  /** The work, such as `main: items`. */
  readonly label: string;
  /** Unit of the numbers; default `count`. */
  readonly unit?: 'count' | 'bytes';
  /** Total; null or absent when unknown. */
  readonly total?: number | null;
  /** Done before the start, so not counted for the rate. Default 0. */
  readonly from?: number;
}

const REDRAW_MS = 100;
const LOG_MS = 10_000;
const BAR_COLUMNS = 20;
const CLEAR_LINE = '\r\u001B[2K';

/**
 * Shows the progress of long work. On a terminal one line, redrawn at most ten times a second and
 * cleared at the end; elsewhere a line every ten seconds. Shorter work shows nothing.
 */
export class Progress {
  readonly #output: Output;
  readonly #label: string;
  readonly #format: (number: number) => string;
  readonly #terminal: boolean;
  readonly #startedAt = performance.now();
  readonly #timer: NodeJS.Timeout;
  readonly #from: number;
  #total: number | null;
  #done: number;
  #detail = '';
  #paused = false;
  #drawn = false;

  constructor(options: ProgressOptions) {
    this.#output = options.output;
    this.#label = options.label;
    this.#format = options.unit === 'bytes' ? bytes : count;
    this.#total = options.total ?? null;
    this.#from = options.from ?? 0;
    this.#done = this.#from;
    this.#terminal = options.output.isTTY === true;
    this.#timer = setInterval(() => this.#show(), this.#terminal ? REDRAW_MS : LOG_MS);
    this.#timer.unref();
  }

  /** Cheap: may be called for every item. */
  update(
    done: number,
    more: {
      readonly total?: number | null;
      readonly detail?: string;
      /** Nothing can be done for now: rate and time left would tell nothing. */
      readonly paused?: boolean;
    } = {},
  ): void {
    this.#done = done;
    if (more.total !== undefined) this.#total = more.total;
    if (more.detail !== undefined) this.#detail = more.detail;
    this.#paused = more.paused ?? false;
  }

  /** Writes a line of its own, such as a warning, without mixing it with the bar. */
  note(line: string): void {
    this.#clear();
    this.#output.write(`${safeLine(line)}\n`);
    if (this.#terminal) this.#show();
  }

  /** Ends it and clears the line. May be called twice. */
  finish(): void {
    clearInterval(this.#timer);
    this.#clear();
  }

  #show(): void {
    if (!this.#terminal) {
      this.#output.write(`${this.#text('')}\n`);
      return;
    }
    const columns = (this.#output.columns || 80) - 1;
    this.#output.write(`${CLEAR_LINE}${cut(this.#text(this.#bar()), columns)}`);
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

  #text(bar: string): string {
    const seconds = (performance.now() - this.#startedAt) / 1000;
    const perSecond = seconds > 0 && !this.#paused ? (this.#done - this.#from) / seconds : 0;
    const parts = [
      this.#total === null
        ? this.#format(this.#done)
        : `${this.#format(this.#done)} of ${this.#format(this.#total)}`,
    ];
    if (perSecond > 0) parts.push(this.#rate(perSecond));
    if (perSecond > 0 && this.#total !== null && this.#total > this.#done) {
      parts.push(`${duration(((this.#total - this.#done) / perSecond) * 1000)} left`);
    }
    if (this.#detail !== '') parts.push(safeLine(this.#detail));
    return `${safeLine(this.#label)} ${bar}${parts.join(' · ')}`;
  }

  /** The rate; by the minute when it is below two a second. */
  #rate(perSecond: number): string {
    return perSecond >= 2
      ? `${this.#format(Math.round(perSecond))}/s`
      : `${this.#format(Math.round(perSecond * 60))}/min`;
  }
}
