import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Account, Purchase } from '../../../src/domain/item.js';
import type { Limited, Reply } from '../../../src/domain/reply.js';
import { BatchValidator } from '../../../src/jobs/codes/batch-validator.js';
import { paceOf } from '../../../src/jobs/codes/pace.js';
import { enqueueNext, performAuditChunk } from '../../../src/jobs/codes/perform-chunk.js';
import type {
  BatchReport,
  BatchState,
  CodeMarketplace,
  CountedCode,
} from '../../../src/jobs/codes/types.js';
import type { Sourced } from '../../../src/marketplace/types.js';
import { never, useMirror } from '../../support/mirror.js';
import { storedBudget } from '../../../src/store/budget.js';
import {
  validateBatch,
  auditDeps,
  auditVerdicts,
  ChunkQueue,
  enter,
  listOf,
  openShop,
  progress,
  truthOf,
} from './support.js';

const MINUTE = { windowMs: 60_000, patienceMs: 120_000 };
const HOUR = { ...MINUTE, windowMs: 3_600_000 };
const UNLIMITED = { concurrency: 16, spacingMs: 0 };
const SIXTY = { concurrency: 3, spacingMs: 1_000 };

/** A list in which every `nth` code is invalid, and its true verdicts. */
function meteredList(nth: number): { codes: string[]; truth: Record<string, string> } {
  const codes = Array.from({ length: 600 }, (_, i) => `${i % nth === 0 ? 'no' : 'sold'}-${i}`);
  const truth = codes.map((code) => [code, code.startsWith('no') ? 'invalid' : 'valid']);
  return { codes, truth: Object.fromEntries(truth) };
}

describe('a limit below the budget', () => {
  it.each([
    ['20 a minute, no budget', { ...MINUTE, ...UNLIMITED, perWindow: 20 }, 1.75],
    ['20 a minute, budget 60 a minute', { ...MINUTE, ...SIXTY, perWindow: 20 }, 1.5],
    ['55 an hour, no budget', { ...HOUR, ...UNLIMITED, perWindow: 55 }, 1.5],
    ['100 an hour, budget 60 a minute', { ...HOUR, ...SIXTY, perWindow: 100 }, 1.5],
    ['55 an hour, budget 60 a minute', { ...HOUR, ...SIXTY, perWindow: 55 }, 1.5],
    ['20 an hour, budget 60 a minute', { ...HOUR, ...SIXTY, perWindow: 20 }, 2.5],
    ['10 an hour, no budget', { ...HOUR, ...UNLIMITED, perWindow: 10 }, 4],
  ])('costs few extra calls: %s', async (_, meter, callsACode) => {
    for (const nth of [1, 2, 10]) {
      const { codes, truth } = meteredList(nth);
      const market = new Metered(meter);
      const { verdicts } = await market.settle(codes, 400);
      expect(verdicts).toEqual(truth);
      expect(market.answered / codes.length).toBeLessThan(callsACode);
    }
  });

  it.each([
    ['a little', [30, 29], 2],
    ['much', [20, 50], 2],
    ['less and less', [60, 55, 50, 45, 40, 35, 30, 25, 20, 15], 3],
  ])('that other clients share costs few extra calls: %s', async (_, allowances, most) => {
    for (const pace of [UNLIMITED, SIXTY]) {
      const { codes, truth } = meteredList(2);
      const market = new Metered({ ...HOUR, ...pace, perWindow: allowances[0] ?? 0 });
      market.allowInTurn(allowances);
      expect((await market.settle(codes, 100)).verdicts).toEqual(truth);
      expect(market.answered).toBeLessThan(most * codes.length);
    }
  });

  it('no longer slows the calls down once it is lifted', async () => {
    const { codes, truth } = meteredList(2);
    const market = new Metered({ ...MINUTE, ...UNLIMITED, perWindow: 40 });
    market.afterRequests(60, () => market.allow(Infinity));
    const { verdicts } = await market.settle(codes, 2);
    expect(verdicts).toEqual(truth);
    expect(market.requests).toBeLessThan(1.3 * codes.length);
    expect(market.mostInFlight(150)).toBeGreaterThanOrEqual(8);
  });
});

const mirror = useMirror();

/** A hundred requests a second, so that the test ends soon. */
const PER_MINUTE = 6_000;

describe('the budget', () => {
  it('is shared by parallel chunks, never exceeded, and spent almost only on codes', async () => {
    // Leaves room for a machine that pauses for a third of a second and then sends what was due.
    const shop = await openShop({ requestsPerMinute: 330, limit: { windowMs: 3_000 } });
    const codes = listOf(shop, 450);
    const auditId = await enter(mirror(), shop.marketplace.host, codes, { chunkSize: 225 });
    const queue = new ChunkQueue();
    await enqueueNext(mirror().db, auditId, queue.add);
    const worker = async (): Promise<void> => {
      const budget = storedBudget(mirror().db, shop.marketplace.host, PER_MINUTE);
      const deps = auditDeps(mirror(), shop.client({ budget }), {
        ...paceOf(PER_MINUTE),
        enqueueChunk: queue.add,
      });
      for (let next = queue.take(); next !== undefined; next = queue.take()) {
        // The faster worker may find the chunk locked by the other, and skips it.
        await performAuditChunk(deps, { ...next, isLastAttempt: false }, never);
      }
    };
    await Promise.all([worker(), worker()]);
    expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop, codes));
    const denied = codes.filter((code) => shop.truth(code) === 'invalid');
    // These few get a second look.
    expect(shop.sim.requestCount).toBeLessThanOrEqual(1.03 * codes.length + denied.length);
    expect(shop.sim.log.filter(({ status }) => status === 429)).toEqual([]);
    expect((await progress(mirror(), auditId)).state).toBe('finished');
  });

  it('serves mirror runs first: calls of an audit have lower priority', async () => {
    const shop = await openShop();
    const priorities: (string | undefined)[] = [];
    const budget = {
      acquire: (priority: string) => {
        priorities.push(priority);
        return Promise.resolve();
      },
      pauseUntil: () => Promise.resolve(),
    };
    await validateBatch(
      { ...shop, marketplace: shop.client({ budget }) },
      { codes: listOf(shop, 30, 3) },
    );
    expect(priorities.length).toBeGreaterThan(30);
    expect(new Set(priorities)).toEqual(new Set(['audit']));
  });

  it.each([
    [1, 2],
    [60, 3],
    [240, 9],
    [600, 16],
    [6_000, 16],
    [0, 48],
  ])('of %i requests a minute allows %i calls in flight', (perMinute, calls) => {
    expect(paceOf(perMinute).concurrency).toBe(calls);
  });
});

/** The limit of a marketplace and the settings of its client. */
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
 * A marketplace and its client on a simulated clock, so that limits by the hour take no time. It answers
 * `perWindow` requests a window. Codes that begin with `sold` are valid.
 */
export class Metered implements CodeMarketplace {
  now = Date.UTC(2026, 0, 1);
  requests = 0;
  /** Requests that were not rejected. */
  answered = 0;
  readonly #meter: Meter;
  #allowed: number;
  #turns: readonly number[] = [];
  #windows = 0;
  #then: { readonly requests: number; readonly act: () => void } | null = null;
  /** Calls in flight when each request was sent. */
  readonly #inFlight: number[] = [];
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

  /** Sets what the windows allow in turn. */
  allowInTurn(perWindow: readonly number[]): void {
    this.#turns = perWindow;
  }

  afterRequests(requests: number, act: () => void): void {
    this.#then = { requests, act };
  }

  /** Most calls in flight since this many requests. */
  mostInFlight(since: number): number {
    return Math.max(...this.#inFlight.slice(since));
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

  /** Validates codes until all are counted, and retries when the server allows it. */
  async settle(
    codes: readonly string[],
    mostRounds: number,
  ): Promise<{ readonly verdicts: Record<string, string>; readonly rounds: number }> {
    const verdicts: Record<string, string> = {};
    let startState: BatchState | null = null;
    for (let rounds = 1; ; rounds++) {
      const open = codes.filter((code) => verdicts[code] === undefined);
      const counted: CountedCode[] = [];
      const report: BatchReport = await this.#runClock(this.#validate(open, startState, counted));
      startState = report.endState;
      for (const { code, kind } of counted) verdicts[code] = kind === 'found' ? 'valid' : 'invalid';
      if (Object.keys(verdicts).length === codes.length || rounds === mostRounds) {
        return { verdicts, rounds };
      }
      this.now = Math.max(this.now + 1_000, report.stop?.notBefore ?? 0);
    }
  }

  async #validate(
    codes: readonly string[],
    startState: BatchState | null,
    counted: CountedCode[],
  ): Promise<BatchReport> {
    const { concurrency, spacingMs } = this.#meter;
    const validator = new BatchValidator(this, {
      account: 'ada',
      canaries: [CANARY],
      codes,
      concurrency,
      spacingMs,
      startState,
      now: () => this.now,
      signal: never,
    });
    for await (const batch of validator) counted.push(...batch);
    return validator.report;
  }

  /** Advances the clock until the promise is settled. */
  async #runClock<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    void promise.finally(() => (isSettled = true)).catch(() => undefined);
    for (;;) {
      for (let i = 0; i < 4; i++) await turn();
      if (isSettled) return promise;
      this.#due.sort((a, b) => a.at - b.at);
      const next = this.#due.shift();
      if (next === undefined) throw new Error('no call is in flight, but the batch has not ended');
      this.now = Math.max(this.now, next.at);
      next.deliver();
    }
  }

  /** Sends a request as soon as the budget allows. */
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
    this.#inFlight.push(this.#calls);
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
  purchaseCode: null,
  licenseType: null,
  price: null,
  currency: null,
  item: null,
  supportedUntil: null,
  downloaded: null,
  purchasedAt: null,
};

function sourced<T>(value: T): Sourced<T> {
  return { value, extra: {}, tolerated: [], raw: {}, text: '{}' };
}
