/** Calls in flight without a budget: marketplaces are far away, and calls cost nothing. */
const MAX_UNLIMITED = 48;
/** Calls in flight with a budget. Fewer: a sudden row of denials forces retries of the calls beside it. */
const MAX_BUDGETED = 16;
/** A call may take this many seconds and the budget is still used up. */
const SLOW_CALL_S = 2;

export interface Pace {
  /** Most validations in flight. */
  readonly concurrency: number;
  /** Milliseconds that the budget puts between two requests; 0: unlimited. */
  readonly spacingMs: number;
}

/**
 * Returns how fast a chunk may send requests. The calls in flight are enough to use up the budget although
 * each takes a while, and no more: the others would only queue for it.
 * @param requestsPerMinute 0: unlimited
 */
export function paceOf(requestsPerMinute: number): Pace {
  if (requestsPerMinute === 0) return { concurrency: MAX_UNLIMITED, spacingMs: 0 };
  const enough = 1 + Math.ceil((requestsPerMinute / 60) * SLOW_CALL_S);
  return { concurrency: Math.min(MAX_BUDGETED, enough), spacingMs: 60_000 / requestsPerMinute };
}

/** Codes of a chunk that a budget spreads over minutes. */
const CHUNK = 500;
/** Codes of a chunk without a budget: some seconds of work, so that audits take turns. */
const UNLIMITED_CHUNK = 20_000;

/**
 * Returns how many codes a chunk of an audit has. No calls are in flight between two chunks, which
 * costs time only without a budget.
 * @param requestsPerMinute 0: unlimited
 */
export function chunkSizeFor(requestsPerMinute: number): number {
  return requestsPerMinute === 0 ? UNLIMITED_CHUNK : CHUNK;
}

/** Denials expected among the calls in flight: the more codes are denied, the fewer calls that allows. */
const MAX_EXPECTED_DENIALS = 4.5;
/** Weight of the last reply in the moving average of denials. */
const WEIGHT = 1 / 16;
/**
 * Denials per checkpoint once the server has asked for a long pause. A pause loses the denials that
 * have no checkpoint after them yet, so this bounds the loss.
 */
const CAREFUL_DENIALS_PER_CHECKPOINT = 10;
/** Proven denials without a long pause before the bound is lifted again. */
const PROVEN_TO_RELAX = 100;

/** Limits the codes in flight by the share of denials and by how often the server asks for a pause. */
export class Throttle {
  /** Moving average: the share of replies that were denials. */
  deniedShare = 0.5;
  #provenDenials = 0;
  #concurrency: number;
  readonly #denialsPerCheckpoint: number;

  /** @param denialsPerCheckpoint from the batch before; `Infinity`: the server asks for no long pauses */
  constructor(concurrency: number, denialsPerCheckpoint = Infinity) {
    this.#concurrency = concurrency;
    this.#denialsPerCheckpoint = denialsPerCheckpoint;
  }

  recordReply(isDenied: boolean): void {
    this.deniedShare += WEIGHT * (Number(isDenied) - this.deniedShare);
  }

  countProvenDenial(): void {
    this.#provenDenials++;
  }

  /** Halves the concurrency: replies were so slow that checkpoints lay too far apart. */
  slowDown(): void {
    this.#concurrency = Math.max(1, this.#concurrency >> 1);
  }

  /** Most denials between two checkpoints; `Infinity`: no bound. */
  get denialsPerCheckpoint(): number {
    return this.#provenDenials < PROVEN_TO_RELAX ? this.#denialsPerCheckpoint : Infinity;
  }

  /** Most codes in flight. @param pendingDenials denials that still need a checkpoint after them */
  maxInFlight(pendingDenials: number): number {
    const most = Math.max(1, Math.floor(MAX_EXPECTED_DENIALS / this.deniedShare));
    return Math.min(this.#concurrency, most, this.denialsPerCheckpoint - pendingDenials);
  }

  /**
   * Returns the denials per checkpoint for the next batch.
   * @param isPaused the server asked for a pause of minutes
   * @param lost denials that the pause left without a checkpoint after them
   */
  denialsAfter(isPaused: boolean, lost: number): number {
    const denials = this.denialsPerCheckpoint;
    if (!isPaused) return denials;
    if (denials > CAREFUL_DENIALS_PER_CHECKPOINT) return CAREFUL_DENIALS_PER_CHECKPOINT;
    // The server allows so few requests that the pause came before anything was proven.
    return this.#provenDenials === 0 && lost > 0 ? Math.max(1, denials >> 1) : denials;
  }
}
