import { setImmediate as nextTurn } from 'node:timers/promises';
import { firstPass, nextStep, resumed, secondCheck } from '../../../src/codes/plan.js';
import { FRESH_MEMORY, type Memory, type Situation } from '../../../src/codes/situation.js';
import type { Market as AskedMarket } from '../../../src/codes/market.js';
import type { ModelLedger } from './ledger.js';
import type { Call, Market, UnderWay } from './market.js';

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
  /** The clock is set back by an hour before this call, counted from 1. */
  readonly setBackAt?: number;
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
  /** Calls under way, each with what goes on when it is answered. */
  readonly #underWay: { readonly call: UnderWay; readonly answered: () => void }[] = [];

  constructor(options: SimulationOptions) {
    this.#options = options;
  }

  async run(): Promise<this> {
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
          memory = await this.#obey(firstPass(codes, situation, memory));
          break;
        }
        case 'second-check':
          this.#phase = 'secondCheck';
          memory = await this.#obey(secondCheck(step.codes, facts, situation, memory));
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
      market: this.#market(),
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

  /** Calls are answered in the order of time: one may end before an earlier one. */
  #market(): AskedMarket {
    const { concurrency, ledger, market } = this.#options;
    const ask = <T>(call: Call): Promise<T> => {
      const underWay = this.#send(call);
      return new Promise((resolve) => {
        const answered = (): void => resolve(market.end(underWay) as T);
        this.#underWay.push({ call: underWay, answered });
      });
    };
    return {
      concurrency,
      account: () => ask({ kind: 'account' }),
      code: (form, onNewConnection = false) => ask({ kind: 'validate', form, onNewConnection }),
      item: (id) => ask({ kind: 'item', id }),
      record: (results) => Promise.resolve(ledger.record(results)),
      proven: (found) => Promise.resolve(ledger.proven(found)),
    };
  }

  /** Lets time pass until the work is done: whenever all of it waits, the next call is answered. */
  async #obey<R>(work: Promise<R>): Promise<R> {
    let isOver = false;
    const ended = work.finally(() => (isOver = true));
    ended.catch(() => undefined);
    for (;;) {
      await nextTurn();
      if (isOver) return ended;
      const times = this.#underWay.map(({ call }) => call.at);
      const [next] = this.#underWay.splice(times.indexOf(Math.min(...times)), 1);
      if (next === undefined) throw new Error('the plan waits for nothing');
      this.now = Math.max(this.now, next.call.at);
      next.answered();
    }
  }

  #setBack(): void {
    this.now -= 3_600_000;
    this.#nextSlot = this.now;
  }

  #send(call: Call): UnderWay {
    if (this.sent.length + 1 === this.#options.setBackAt) this.#setBack();
    const { market, spacingMs, dice, callMs = 20 + Math.floor(dice() * 300) } = this.#options;
    const sentAt = Math.max(this.now, this.#nextSlot);
    this.#nextSlot = sentAt + spacingMs;
    const what = 'form' in call ? call.form : 'id' in call ? `item ${call.id}` : 'account';
    this.sent.push({ what, at: sentAt, phase: this.#phase });
    return market.send(call, sentAt, sentAt + callMs);
  }
}
