import { firstPass, nextStep, resumed, secondCheck } from '../../../src/codes/plan.js';
import { FRESH_MEMORY, type Memory, type Situation } from '../../../src/codes/situation.js';
import type { Call, Request, Requests } from '../../../src/codes/requests.js';
import type { ModelLedger } from './ledger.js';
import type { Market, UnderWay } from './market.js';

/** More steps mean that the check does not end. */
const MOST_STEPS = 3_000;
/** A person ends a pause so often; then the check is given up. */
const RESUMES = 3;
export const BEGAN_AT = 1_700_000_000_000;

export interface SimulationOptions {
  readonly market: Market;
  readonly ledger: ModelLedger;
  readonly concurrency: number;
  /** Milliseconds between two calls. */
  readonly spacingMs: number;
  readonly waitMs?: number;
  /** How long a call takes, milliseconds; default 20 to 320. */
  readonly callMs?: number;
  readonly items?: readonly number[];
  readonly dice: () => number;
}

/** Runs a whole check over a simulated marketplace and clock. */
export class Simulation {
  now = BEGAN_AT;
  end: 'finished' | 'given-up' | null = null;
  /** Every call, in order. */
  readonly sent: { readonly what: string; readonly at: number; readonly phase: string }[] = [];
  /** Why the check paused for a person. */
  readonly pauses: string[] = [];
  readonly #options: SimulationOptions;
  #nextSlot = 0;
  #phase: 'firstPass' | 'secondCheck' = 'firstPass';

  constructor(options: SimulationOptions) {
    this.#options = options;
  }

  run(): this {
    const { market, ledger } = this.#options;
    let memory: Memory = FRESH_MEMORY;
    let resumes = 0;
    for (let steps = 0; steps < MOST_STEPS; steps++) {
      const facts = ledger.facts();
      const situation = this.#situation();
      const step = nextStep(facts, memory, situation);
      switch (step.kind) {
        case 'first-pass': {
          this.#phase = 'firstPass';
          const codes = ledger.open(step.after, step.limit);
          memory = this.#obey(firstPass(codes, situation, memory));
          break;
        }
        case 'second-check':
          this.#phase = 'secondCheck';
          memory = this.#obey(secondCheck(step.codes, facts, situation, memory));
          break;
        case 'settle':
          ledger.record(step.results);
          break;
        case 'give-up':
          ledger.giveUp(step.reason);
          break;
        case 'wait':
          if (!(step.until > this.now)) throw new Error('a wait that is over');
          this.now = step.until;
          market.pass();
          break;
        case 'pause':
          this.pauses.push(step.stop.reason);
          if (++resumes > RESUMES) {
            this.end = 'given-up';
            return this;
          }
          this.now += 600_000;
          market.pass();
          memory = resumed(memory);
          break;
        case 'finished':
          this.end = 'finished';
          return this;
      }
      // As after a job that another process takes: memory is JSON.
      memory = JSON.parse(JSON.stringify(memory)) as Memory;
    }
    throw new Error('the check does not end');
  }

  #situation(): Situation {
    const { ledger, spacingMs, waitMs = 60_000, items = [], dice } = this.#options;
    return {
      account: 'ada',
      waitMs,
      gatherMs: Infinity,
      vouchMs: 0,
      heldUntil: 0,
      spacingMs,
      codes: ledger.rows.filter(({ position }) => position >= 0).length,
      knownValid: ledger.knownValid(),
      liveItems: items,
      hadItem: (id) => items.length === 0 || items.includes(id),
      now: () => this.now,
      dice,
      isClosing: () => false,
    };
  }

  #obey<R>(requests: Requests<R>): R {
    let step = requests.next();
    while (step.done !== true) {
      const request = step.value;
      if (request.kind === 'together') this.#together(request.all);
      else if (this.#recorded(request)) {
        const underWay = this.#send(request);
        this.now = underWay.at;
        step = requests.next(this.#options.market.end(underWay));
        continue;
      }
      step = requests.next();
    }
    return step.value;
  }

  /** Requests that overlap: a call of one may end before an earlier one of another. */
  #together(all: Iterable<Requests<void>>): void {
    const { concurrency, market } = this.#options;
    const waiting = all[Symbol.iterator]();
    const lanes: { requests: Requests<void>; underWay: UnderWay }[] = [];
    const proceed = (requests: Requests<void>, step: IteratorResult<Request, void>): void => {
      let next = step;
      while (next.done !== true) {
        const request = next.value;
        if (request.kind === 'together') throw new Error('nested');
        if (this.#recorded(request)) {
          lanes.push({ requests, underWay: this.#send(request) });
          return;
        }
        next = requests.next();
      }
    };
    for (;;) {
      while (lanes.length < concurrency) {
        const next = waiting.next();
        if (next.done === true) break;
        proceed(next.value, next.value.next());
      }
      const first = lanes.reduce<number>(
        (best, { underWay }, n) =>
          underWay.at < (lanes[best]?.underWay.at ?? Infinity) ? n : best,
        0,
      );
      const [lane] = lanes.splice(first, 1);
      if (lane === undefined) return;
      this.now = Math.max(this.now, lane.underWay.at);
      proceed(lane.requests, lane.requests.next(market.end(lane.underWay)));
    }
  }

  /** @returns true for a call */
  #recorded(request: Exclude<Request, { kind: 'together' }>): request is Call {
    const { ledger } = this.#options;
    if (request.kind === 'record') ledger.record(request.results);
    else if (request.kind === 'proven') ledger.proven(request.found);
    else return true;
    return false;
  }

  #send(call: Call): UnderWay {
    const { market, spacingMs, dice, callMs = 20 + Math.floor(dice() * 300) } = this.#options;
    const sentAt = Math.max(this.now, this.#nextSlot);
    this.#nextSlot = sentAt + spacingMs;
    const what = 'form' in call ? call.form : 'id' in call ? `item ${call.id}` : 'account';
    this.sent.push({ what, at: sentAt, phase: this.#phase });
    return market.send(call, sentAt, sentAt + callMs);
  }
}
