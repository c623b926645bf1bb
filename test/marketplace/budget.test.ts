import { setMaxListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BudgetPaused } from '../../src/domain/budget.js';
import { evenlySpacedBudget, unlimitedBudget } from '../../src/marketplace/budget.js';
import type { Priority } from '../../src/marketplace/types.js';

const never = new AbortController().signal;
setMaxListeners(0, never);

describe('a budget for one process', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: 1_700_000_000_000 });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** Asks `count` times at once; returns the moments of the grants, in order. */
  function askMany(budget: ReturnType<typeof evenlySpacedBudget>, count: number): number[] {
    const times: number[] = [];
    for (let n = 0; n < count; n++) {
      void budget.acquire('audit', never).then(() => times.push(performance.now()));
    }
    return times;
  }

  it.each([1, 7, 60, 600])('never lets more than %i requests leave in any 60 s', async (limit) => {
    const times = askMany(evenlySpacedBudget(limit), limit * 3);
    await vi.advanceTimersByTimeAsync(200_000);
    expect(times).toHaveLength(limit * 3);
    for (const [index, from] of times.entries()) {
      const within = times.slice(index).filter((time) => time - from <= 60_000);
      expect(within.length).toBeLessThanOrEqual(limit);
    }
  });

  it('uses nearly all of what is allowed', async () => {
    const times = askMany(evenlySpacedBudget(60), 200);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(times.length).toBeGreaterThanOrEqual(58);
  });

  it('does not save up requests for a burst', async () => {
    const budget = evenlySpacedBudget(60);
    await vi.advanceTimersByTimeAsync(600_000);
    const times = askMany(budget, 10);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(times).toHaveLength(1);
  });

  it('serves mirror requests before audits that asked earlier', async () => {
    const budget = evenlySpacedBudget(60);
    const order: string[] = [];
    const ask = (name: string, priority: Priority): void => {
      void budget.acquire(priority, never).then(() => order.push(name));
    };
    ask('first', 'audit');
    ask('audit 1', 'audit');
    ask('audit 2', 'audit');
    ask('mirror', 'mirror');
    await vi.advanceTimersByTimeAsync(10_000);
    expect(order).toEqual(['first', 'mirror', 'audit 1', 'audit 2']);
  });

  it('stops everybody until the time given, and an earlier time does not shorten that', async () => {
    const budget = evenlySpacedBudget(60);
    await budget.pauseUntil(Date.now() + 30_000);
    await budget.pauseUntil(Date.now() + 1_000);
    const times = askMany(budget, 2);
    await vi.advanceTimersByTimeAsync(29_999);
    expect(times).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(times).toHaveLength(1);
  });

  it('stops those too who wait already', async () => {
    const budget = evenlySpacedBudget(60);
    const times = askMany(budget, 2);
    await budget.pauseUntil(Date.now() + 30_000);
    await vi.advanceTimersByTimeAsync(29_999);
    expect(times).toHaveLength(1);
  });

  it('gives up with the reason of the signal, and the next in line moves up', async () => {
    const budget = evenlySpacedBudget(60);
    const abort = new AbortController();
    await budget.acquire('audit', never);
    const given = budget.acquire('audit', abort.signal);
    const times = askMany(budget, 1);
    abort.abort(new Error('enough'));
    await expect(given).rejects.toThrow('enough');
    await vi.advanceTimersByTimeAsync(1_010);
    expect(times).toHaveLength(1);
    await expect(budget.acquire('audit', abort.signal)).rejects.toThrow('enough');
  });

  it('refuses at once who can’t wait as long as the marketplace asks for, early and late comers alike', async () => {
    const budget = evenlySpacedBudget(60);
    await budget.acquire('mirror', never);
    const patient = budget.acquire('audit', never, 40_000);
    const waiting = budget.acquire('audit', never, 20_000);
    await budget.pauseUntil(Date.now() + 30_000);
    await expect(waiting).rejects.toThrow(BudgetPaused);
    await expect(budget.acquire('audit', never, 20_000)).rejects.toThrow(BudgetPaused);
    await vi.advanceTimersByTimeAsync(30_000);
    await expect(patient).resolves.toBeUndefined();
  });

  it.each([0, -1, Number.NaN])('can not be made for %d requests a minute', (limit) => {
    expect(() => evenlySpacedBudget(limit)).toThrow(RangeError);
  });
});

describe('a budget without bounds', () => {
  it('still heeds the signal', async () => {
    await expect(unlimitedBudget.acquire('audit', never)).resolves.toBeUndefined();
    await expect(
      unlimitedBudget.acquire('audit', AbortSignal.abort(new Error('no'))),
    ).rejects.toThrow('no');
  });
});
