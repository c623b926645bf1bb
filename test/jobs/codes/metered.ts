import { setImmediate as turn } from 'node:timers/promises';
import type { Account, Purchase } from '../../../src/domain/item.js';
import type { Limited, Reply } from '../../../src/domain/reply.js';
import { askCodes, type CodeMarketplace } from '../../../src/jobs/codes/ask-codes.js';
import type { AskReport, Carried, SettledCode } from '../../../src/jobs/codes/types.js';
import type { Sourced } from '../../../src/marketplace/types.js';
import { never } from '../../support/mirror.js';

/** How a metered marketplace is asked, and how much it allows. */
export interface Meter {
  readonly perWindow: number;
  readonly windowMs: number;
  /** Longest pause that the client waits out by itself, milliseconds. */
  readonly patienceMs: number;
  readonly concurrency: number;
  /** What the client's budget puts between two requests, milliseconds. */
  readonly spacingMs: number;
}

const CANARY = 'sold-canary';
const LATENCY_MS = 50;
const HTTP_OK = { kind: 'answered', httpStatus: 200 } as const;

/**
 * A marketplace with its client, both in a time of their own, so that limits of an hour take no time.
 * It answers so many requests a window and no more; codes that begin with `sold` are valid.
 */
export class Metered implements CodeMarketplace {
  now = Date.UTC(2026, 0, 1);
  requests = 0;
  /** Requests that were not turned away. */
  answered = 0;
  readonly #meter: Meter;
  #allowed: number;
  #turns: readonly number[] = [];
  #windows = 0;
  #then: { readonly requests: number; readonly act: () => void } | null = null;
  /** How many calls were under way when each request was sent. */
  readonly #underWay: number[] = [];
  #calls = 0;
  readonly #due: { readonly at: number; readonly deliver: () => void }[] = [];
  #windowEnd = 0;
  #used = 0;
  #nextAt = 0;

  constructor(meter: Meter) {
    this.#meter = meter;
    this.#allowed = meter.perWindow;
  }

  /** Changes how many requests a window allows. */
  allow(perWindow: number): void {
    this.#allowed = perWindow;
  }

  /** What each window allows, again and again. */
  allowInTurn(perWindow: readonly number[]): void {
    this.#turns = perWindow;
  }

  afterRequests(requests: number, act: () => void): void {
    this.#then = { requests, act };
  }

  /** Most calls under way at once since so many requests. */
  mostUnderWay(since: number): number {
    return Math.max(...this.#underWay.slice(since));
  }

  account(): Promise<Reply<Sourced<Account>>> {
    const value = { username: 'ada' } as Account;
    return this.#reply(() => ({ ...HTTP_OK, data: sourced(value) }));
  }

  validate(code: string): Promise<Reply<Sourced<Purchase>>> {
    const value = { purchaseCode: code, licenseType: 'regular' } as Purchase;
    return this.#reply(() =>
      code.startsWith('sold')
        ? { ...HTTP_OK, data: sourced({ ...NO_FACTS, ...value }) }
        : { kind: 'denied', httpStatus: 404, message: 'Invalid purchase code' },
    );
  }

  /** Asks for codes until all are settled, coming back when the server says so. */
  async settle(
    codes: readonly string[],
    mostRounds: number,
  ): Promise<{ readonly verdicts: Record<string, string>; readonly rounds: number }> {
    const verdicts: Record<string, string> = {};
    let carried: Carried | null = null;
    for (let rounds = 1; ; rounds++) {
      const open = codes.filter((code) => verdicts[code] === undefined);
      const settled: SettledCode[] = [];
      const report: AskReport = await this.#pass(this.#ask(open, carried, settled));
      carried = report.carried;
      for (const { code, kind } of settled) verdicts[code] = kind === 'found' ? 'valid' : 'invalid';
      if (Object.keys(verdicts).length === codes.length || rounds === mostRounds) {
        return { verdicts, rounds };
      }
      this.now = Math.max(this.now + 1_000, report.stop?.notBefore ?? 0);
    }
  }

  #ask(
    codes: readonly string[],
    carried: Carried | null,
    settled: SettledCode[],
  ): Promise<AskReport> {
    const { concurrency, spacingMs } = this.#meter;
    return askCodes(this, {
      ...{ account: 'ada', canaries: [CANARY], codes, concurrency, spacingMs, carried },
      ...{ now: () => this.now, signal: never },
      onSettled: (news) => void settled.push(...news),
    });
  }

  /** Lets time pass until the promise is settled. */
  async #pass<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    void promise.finally(() => (isSettled = true)).catch(() => undefined);
    for (;;) {
      for (let i = 0; i < 4; i++) await turn();
      if (isSettled) return promise;
      this.#due.sort((a, b) => a.at - b.at);
      const next = this.#due.shift();
      if (next === undefined) throw new Error('nothing is under way, and asking goes on');
      this.now = Math.max(this.now, next.at);
      next.deliver();
    }
  }

  /** The reply to a request that leaves as soon as the budget lets it. */
  #reply<T>(answer: () => Reply<T>): Promise<Reply<T>> {
    this.#calls++;
    return new Promise((resolve) =>
      this.#send((limited) => {
        this.#calls--;
        resolve(limited ?? answer());
      }),
    );
  }

  #send(deliver: (limited: Limited | null) => void): void {
    const at = Math.max(this.now, this.#nextAt);
    this.#nextAt = at + this.#meter.spacingMs;
    this.#due.push({ at, deliver: () => this.#arrive(deliver) });
  }

  #arrive(deliver: (limited: Limited | null) => void): void {
    const { windowMs, patienceMs } = this.#meter;
    if (this.now >= this.#windowEnd) {
      this.#windowEnd = this.now + windowMs;
      this.#used = 0;
      this.#allowed = this.#turns[this.#windows++ % this.#turns.length] ?? this.#allowed;
    }
    this.requests++;
    this.#underWay.push(this.#calls);
    if (this.requests === this.#then?.requests) this.#then.act();
    if (this.#used++ < this.#allowed) {
      this.answered++;
      this.#due.push({ at: this.now + LATENCY_MS, deliver: () => deliver(null) });
      return;
    }
    const retryAt = this.#windowEnd;
    this.#nextAt = Math.max(this.#nextAt, retryAt);
    if (retryAt - this.now <= patienceMs) this.#send(deliver);
    else deliver({ kind: 'limited', httpStatus: 429, retryAt });
  }
}

const NO_FACTS: Purchase = {
  ...{ purchaseCode: null, licenseType: null, price: null, currency: null, item: null },
  ...{ supportedUntil: null, downloaded: null, purchasedAt: null },
};

function sourced<T>(value: T): Sourced<T> {
  return { value, extra: {}, tolerated: [], raw: {}, text: '{}' };
}
