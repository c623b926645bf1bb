/** Calls under way that an unlimited budget is worth: marketplaces are far, and calls cost nothing. */
const MOST = 48;
/** With a budget fewer: where denials come in a row unexpectedly, the others are asked for again. */
const MOST_OF_BUDGET = 16;
/** How long a call may take before the budget is not used up, seconds. */
const SLOW_CALL = 2;

/**
 * How many calls of a chunk may be under way at the same time: as many as it takes to use up the
 * budget although each takes a while, and no more, since the others would only stand in line for it.
 * @param requestsPerMinute 0: unlimited
 */
export function concurrencyFor(requestsPerMinute: number): number {
  if (requestsPerMinute === 0) return MOST;
  return Math.min(MOST_OF_BUDGET, 1 + Math.ceil((requestsPerMinute / 60) * SLOW_CALL));
}

export interface Pace {
  /** Most validations under way at the same time. */
  readonly concurrency: number;
  /** Milliseconds that the budget puts between two requests; 0: unlimited. */
  readonly spacingMs: number;
}

/** How fast the codes of a chunk are asked for. @param requestsPerMinute 0: unlimited */
export function paceOf(requestsPerMinute: number): Pace {
  const spacingMs = requestsPerMinute === 0 ? 0 : 60_000 / requestsPerMinute;
  return { concurrency: concurrencyFor(requestsPerMinute), spacingMs };
}

/** Codes of a chunk that a budget spreads over minutes anyway. */
const CHUNK = 500;
/** Codes of a chunk where nothing but calls takes time: some seconds of work, as audits take turns. */
const UNLIMITED_CHUNK = 20_000;

/**
 * How many codes an audit asks for in one go. Between two chunks calls are not kept under way, which
 * matters only where no budget makes them wait.
 * @param requestsPerMinute 0: unlimited
 */
export function chunkSizeFor(requestsPerMinute: number): number {
  return requestsPerMinute === 0 ? UNLIMITED_CHUNK : CHUNK;
}

/** So many denials may be under way at the same time; the more codes are denied, the fewer calls that is. */
const DENIALS_UNDER_WAY = 4.5;
/** How much the last reply counts in the share of codes that are denied. */
const WEIGHT = 1 / 16;
/** Denials between checkpoints where the server's limit interrupts: those without one when a pause begins are asked again. */
const DENIALS_A_CHECKPOINT = 10;
/** Denials that counted without an interruption, after which none is expected any more. */
const UNINTERRUPTED = 100;

/** How many calls about codes may be under way, given how many are denied and how often a limit interrupts. */
export class Throttle {
  /** Of the last replies about codes, the share that were denials. */
  deniedShare = 0.5;
  /** Denials that counted. */
  #proven = 0;
  #concurrency: number;
  readonly #denialsPerCheckpoint: number;

  /** @param denialsPerCheckpoint as carried over; `Infinity` where no limit interrupts */
  constructor(concurrency: number, denialsPerCheckpoint: number) {
    this.#concurrency = concurrency;
    this.#denialsPerCheckpoint = denialsPerCheckpoint;
  }

  hear(isDenied: boolean): void {
    this.deniedShare += WEIGHT * (Number(isDenied) - this.deniedShare);
  }

  count(): void {
    this.#proven++;
  }

  /** Replies are so slow that checkpoints lie too far apart. */
  slowDown(): void {
    this.#concurrency = Math.max(1, this.#concurrency >> 1);
  }

  /** Denials between two checkpoints; `Infinity` where the server's limit does not interrupt. */
  get denialsPerCheckpoint(): number {
    return this.#proven < UNINTERRUPTED ? this.#denialsPerCheckpoint : Infinity;
  }

  /** Most codes under way. @param waiting denials whose next checkpoint is still to come */
  most(waiting: number): number {
    const most = Math.max(1, Math.floor(DENIALS_UNDER_WAY / this.deniedShare));
    return Math.min(this.#concurrency, most, this.denialsPerCheckpoint - waiting);
  }

  /**
   * Denials between two checkpoints from now on.
   * @param isPaused the server asked for a pause of minutes
   * @param lost denials that have no checkpoint after them
   */
  denialsAfter(isPaused: boolean, lost: number): number {
    const denials = this.denialsPerCheckpoint;
    if (!isPaused) return denials;
    if (denials > DENIALS_A_CHECKPOINT) return DENIALS_A_CHECKPOINT;
    // A server that allows very little interrupted before anything was proven.
    return this.#proven === 0 && lost > 0 ? Math.max(1, denials >> 1) : denials;
  }
}
