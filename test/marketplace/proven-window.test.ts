import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Failure, Reply } from '../../src/marketplace/reply.js';
import type { GoodProof, KeyHolder, KeyMarket, Witness } from '../../src/marketplace/prove-key.js';
import { proveKey } from '../../src/marketplace/prove-key.js';
import {
  checksPerWindow,
  MAX_WINDOW_CHECKS,
  provenWindow,
  type WindowOptions,
} from '../../src/marketplace/proven-window.js';

type State = 'good' | 'dead' | 'another-account' | 'sells-nothing' | 'page' | 'limited' | 'down';

const DENIED: Failure = { kind: 'denied', httpStatus: 404, message: 'Invalid purchase code' };
const REFUSED: Failure = { kind: 'refused', httpStatus: 401, message: 'Invalid request' };
const PAGE: Failure = failed('html', null);
const DOWN: Failure = failed('server-error', null);
const LIMITED: Failure = { kind: 'limited', httpStatus: 429, retryAt: 5_000_000 };

function failed(reason: 'html' | 'server-error', retryAt: number | null): Failure {
  return { kind: 'unavailable', httpStatus: 500, reason, detail: 'failed', retryAt };
}

/** A market whose key is in one state for a number of calls, then in the next; the last one stays. */
class Market implements KeyMarket {
  calls = 0;
  /** The state of the key at each call. */
  readonly states: State[] = [];

  constructor(private readonly stateAt: (call: number) => State) {}

  account(): Promise<Reply<{ readonly value: { readonly username: string } }>> {
    const state = this.next();
    const name = state === 'another-account' ? 'eve' : 'ada';
    if (state === 'dead') return Promise.resolve(REFUSED);
    return Promise.resolve(failureIn(state) ?? answer({ value: { username: name } }));
  }

  readonly find = (exists: boolean): Promise<Reply<string>> => {
    const state = this.next();
    const failure = failureIn(state);
    if (failure !== null) return Promise.resolve(failure);
    return Promise.resolve(state === 'good' && exists ? answer('found') : DENIED);
  };

  private next(): State {
    const state = this.stateAt(this.calls++);
    this.states.push(state);
    return state;
  }
}

function answer<T>(data: T): Reply<T> {
  return { kind: 'answered', httpStatus: 200, data };
}

function failureIn(state: State): Failure | null {
  if (state === 'page') return PAGE;
  if (state === 'limited') return LIMITED;
  return state === 'down' ? DOWN : null;
}

/** Asks for records that exist, as many as `known`, then says that none is known. */
function holder(market: Market, known = Infinity): KeyHolder {
  const witness: Witness = { ask: () => market.find(true) };
  return { account: 'ada', nextWitness: () => (known > 0 ? witness : null) };
}

function checks(market: Market, exist: readonly boolean[]) {
  return exist.map((exists) => ({ exists, ask: () => market.find(exists) }));
}

const always = (state: State) => new Market(() => state);
/** In this state from one call on. */
const from = (first: number, state: State) => new Market((call) => (call < first ? 'good' : state));

describe('proveKey', () => {
  it('is good when the key opens the account and finds a record that exists', async () => {
    const market = always('good');
    expect(await proveKey(market, holder(market))).toMatchObject({ isGood: true, by: 'witness' });
    expect(market.calls).toBe(2);
  });

  it('rests on account details alone while no record is known to exist', async () => {
    const market = always('good');
    const proof = await proveKey(market, holder(market, 0));
    expect(proof).toMatchObject({ isGood: true, by: 'account', account: 'ada' });
    expect(market.calls).toBe(1);
  });

  it.each([
    ['dead', 'refused'],
    ['another-account', 'another-account'],
    ['sells-nothing', 'witness-denied'],
    ['page', 'no-api'],
    ['limited', 'limited'],
    ['down', 'unavailable'],
  ] as const)('is bad when the key is %s: %s', async (state, reason) => {
    const market = always(state);
    expect(await proveKey(market, holder(market))).toMatchObject({ isGood: false, reason });
  });

  it('asks for another witness when one is denied, because a purchase can be refunded', async () => {
    const market = always('good');
    const told: string[] = [];
    const replies = [false, true];
    const proof = await proveKey(market, {
      account: 'ada',
      nextWitness: () => ({ ask: () => market.find(replies.shift() ?? false) }),
      onWitness: (_, reply) => void told.push(reply.kind),
    });
    expect(proof).toMatchObject({ isGood: true });
    expect(told).toEqual(['denied', 'answered']);
  });

  it('is bad when the only known witness is denied: account details alone no longer do', async () => {
    const market = always('sells-nothing');
    const proof = await proveKey(market, holder(market, 1));
    expect(proof).toMatchObject({ isGood: false, reason: 'witness-denied' });
  });
});

describe('a proven window', () => {
  it('counts denials between two good proofs', async () => {
    const market = always('good');
    const window = await provenWindow(market, checks(market, [true, false]), holder(market));
    expect(window).toMatchObject({
      fault: null,
      before: { isGood: true },
      after: { isGood: true },
    });
    expect(window.answers.map(({ reply }) => reply.kind)).toEqual(['answered', 'denied']);
    expect(market.calls).toBe(6);
  });

  it('saves the second proof when nothing was denied', async () => {
    const market = always('good');
    const window = await provenWindow(market, checks(market, [true, true]), holder(market));
    expect(window.fault).toBeNull();
    expect(market.calls).toBe(4);
  });

  it('asks nothing when the first proof is bad', async () => {
    const market = always('dead');
    const window = await provenWindow(market, checks(market, [false]), holder(market));
    expect(window).toMatchObject({ answers: [], fault: { kind: 'proof' } });
    expect(market.calls).toBe(1);
  });

  it.each(['dead', 'sells-nothing', 'another-account'] as const)(
    'counts no denial when the second proof is bad: the key is %s',
    async (state) => {
      const market = from(3, state);
      const window = await provenWindow(market, checks(market, [true, true]), holder(market));
      expect(window.fault).toMatchObject({ kind: 'proof' });
    },
  );

  it('ends at once when an answer casts doubt on the key, although the key is good again later', async () => {
    const market = new Market((call) => (call === 3 ? 'page' : 'good'));
    const window = await provenWindow(
      market,
      checks(market, [false, false, false]),
      holder(market),
    );
    expect(window.fault).toEqual({ kind: 'doubt', reason: 'no-api' });
    expect(window.answers).toHaveLength(2);
  });

  it('ends at once when the server asks for a pause', async () => {
    const market = from(3, 'limited');
    const window = await provenWindow(
      market,
      checks(market, [false, false, false]),
      holder(market),
    );
    expect(window.fault).toEqual({ kind: 'pause', retryAt: 5_000_000 });
  });

  it('keeps the other denials when one question is not answered', async () => {
    const market = new Market((call) => (call === 2 ? 'down' : 'good'));
    const window = await provenWindow(market, checks(market, [false, false]), holder(market));
    expect(window.fault).toBeNull();
    expect(window.answers.map(({ reply }) => reply.kind)).toEqual(['unavailable', 'denied']);
  });

  it('begins with the second proof of the window before, so that a proof costs 2 calls in 25', async () => {
    const market = always('good');
    const first = await provenWindow(market, checks(market, [false]), holder(market));
    const opening = first.after;
    await provenWindow(market, checks(market, [false]), holder(market), { opening });
    expect(market.calls).toBe(2 + 1 + 2 + 1 + 2);
  });

  it('holds at most 25 checks: a longer row of false denials must meet a proof', async () => {
    const market = always('good');
    const many = checks(market, Array<boolean>(MAX_WINDOW_CHECKS + 1).fill(false));
    await expect(provenWindow(market, many, holder(market))).rejects.toThrow(RangeError);
  });

  it('has fewer checks with a small budget, so that it ends within two minutes', () => {
    expect(checksPerWindow(0)).toBe(25);
    expect(checksPerWindow(1_000)).toBe(25);
    expect(checksPerWindow(6_000)).toBe(16);
    expect(checksPerWindow(60_000)).toBe(6);
  });

  it('never counts a denial that a key gave after it went bad, at whatever call that was', async () => {
    const bad = fc.constantFrom<State>('dead', 'sells-nothing', 'another-account', 'page', 'down');
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.boolean(), { minLength: 1, maxLength: MAX_WINDOW_CHECKS }),
        fc.nat(40),
        bad,
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 1, max: 5 }),
        async (exist, first, state, concurrency, windows) => {
          const market = from(first, state);
          let opening: GoodProof | null = null;
          for (let n = 0; n < windows; n++) {
            const asked = checks(market, exist);
            const options: WindowOptions = { concurrency, opening };
            const window = await provenWindow(market, asked, holder(market), options);
            opening = window.after;
            if (window.fault !== null) continue;
            const wrong = window.answers.filter(
              ({ check, reply }) => check.exists && reply.kind === 'denied',
            );
            expect(wrong).toEqual([]);
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe('a window that takes long', () => {
  afterEach(() => void vi.useRealTimers());

  it.each([
    { callMs: 20_000, spacingMs: 0, fault: null },
    { callMs: 30_000, spacingMs: 0, fault: { kind: 'slow' } },
    { callMs: 30_000, spacingMs: 20_000, fault: null },
    { callMs: 41_000, spacingMs: 20_000, fault: { kind: 'slow' } },
  ])(
    'counts no denial after two minutes, or ten calls of a small budget: the key may have failed in between: %j',
    async ({ callMs, spacingMs, fault }) => {
      vi.useFakeTimers({ toFake: ['performance'] });
      const market = new Market(() => {
        vi.advanceTimersByTime(callMs);
        return 'good';
      });
      const window = await provenWindow(market, checks(market, [false]), holder(market), {
        spacingMs,
      });
      expect(market.calls).toBe(5);
      expect(window.fault).toEqual(fault);
    },
  );
});
