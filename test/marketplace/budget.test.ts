import { setMaxListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BudgetPaused } from '../../src/domain/budget.js';
import { evenlySpacedBudget, unlimitedBudget } from '../../src/marketplace/budget.js';
import type { Priority } from '../../src/marketplace/types.js';

const never = new AbortController().signal;
setMaxListeners(0, never);

describe('the evenly spaced budget', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: 1_700_000_000_000 });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** Makes `count` requests at once. Returns the times at which they are granted. */
  function acquireMany(budget: ReturnType<typeof evenlySpacedBudget>, count: number): number[] {
    const times: number[] = [];
    for (let n = 0; n < count; n++) {
      void budget.acquire('audit', never).then(() => times.push(performance.now()));
    }
    return times;
  }

  it.each([1, 60])('never grants more than %i requests in any 60 s', async (limit) => {
    const times = acquireMany(evenlySpacedBudget(limit), limit * 3);
    await vi.advanceTimersByTimeAsync(200_000);
    expect(times).toHaveLength(limit * 3);
    for (const [index, from] of times.entries()) {
      const within = times.slice(index).filter((time) => time - from <= 60_000);
      expect(within.length).toBeLessThanOrEqual(limit);
    }
  });

  it('allows no burst after an idle time', async () => {
    const budget = evenlySpacedBudget(60);
    await vi.advanceTimersByTimeAsync(600_000);
    const times = acquireMany(budget, 10);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(times).toHaveLength(1);
  });

  it('grants mirror requests before earlier audit requests', async () => {
    const budget = evenlySpacedBudget(60);
    const order: string[] = [];
    const acquire = (name: string, priority: Priority): void => {
      void budget.acquire(priority, never).then(() => order.push(name));
    };
    acquire('first', 'audit');
    acquire('audit 1', 'audit');
    acquire('audit 2', 'audit');
    acquire('mirror', 'mirror');
    await vi.advanceTimersByTimeAsync(10_000);
    expect(order).toEqual(['first', 'mirror', 'audit 1', 'audit 2']);
  });

  it('grants nothing during a pause, and a shorter pause does not end it', async () => {
    const budget = evenlySpacedBudget(60);
    await budget.pauseUntil(Date.now() + 30_000);
    await budget.pauseUntil(Date.now() + 1_000);
    const times = acquireMany(budget, 2);
    await vi.advanceTimersByTimeAsync(29_999);
    expect(times).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(times).toHaveLength(1);
  });

  it('rejects an aborted request with the reason of the signal, and grants the next one', async () => {
    const budget = evenlySpacedBudget(60);
    const abort = new AbortController();
    await budget.acquire('audit', never);
    const aborted = budget.acquire('audit', abort.signal);
    const times = acquireMany(budget, 1);
    abort.abort(new Error('enough'));
    await expect(aborted).rejects.toThrow('enough');
    await vi.advanceTimersByTimeAsync(1_010);
    expect(times).toHaveLength(1);
    await expect(budget.acquire('audit', abort.signal)).rejects.toThrow('enough');
  });

  it('rejects waiting and new requests at once if the pause exceeds their patience', async () => {
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

  it.each([0, Number.NaN])('can’t be created with %d requests a minute', (limit) => {
    expect(() => evenlySpacedBudget(limit)).toThrow(RangeError);
  });
});

describe('the unlimited budget', () => {
  it('still obeys the signal', async () => {
    await expect(unlimitedBudget.acquire('audit', never)).resolves.toBeUndefined();
    await expect(
      unlimitedBudget.acquire('audit', AbortSignal.abort(new Error('no'))),
    ).rejects.toThrow('no');
  });
});
