import { describe, expect, it } from 'vitest';
import { TimeoutError, cachedCall } from '../../src/service/concurrency.js';

const HOUR = 3_600_000;

describe('a cached call', () => {
  const forAnHour = (): number => HOUR;

  it('is made once for all callers while it is pending or its result is fresh', async () => {
    let calls = 0;
    const call = cachedCall(() => Promise.resolve(++calls), HOUR, forAnHour);
    expect(await Promise.all(Array.from({ length: 1_000 }, call))).toEqual(Array(1_000).fill(1));
    expect(await call()).toBe(1);
  });

  it('is made again when its result is no longer fresh', async () => {
    let calls = 0;
    const ages: number[] = [];
    const call = cachedCall(
      () => Promise.resolve(++calls),
      HOUR,
      (tookMs) => {
        ages.push(tookMs);
        return 0;
      },
    );
    expect([await call(), await call()]).toEqual([1, 2]);
    expect(ages).toEqual([expect.any(Number), expect.any(Number)]);
  });

  it('times out for each caller, and is not made again while it hangs', async () => {
    let calls = 0;
    let answer: (text: string) => void = () => undefined;
    const call = cachedCall(
      () => {
        calls++;
        return new Promise<string>((resolve) => (answer = resolve));
      },
      10,
      forAnHour,
    );
    const first = await Promise.allSettled(Array.from({ length: 100 }, call));
    expect(first.every(({ status }) => status === 'rejected')).toBe(true);
    await expect(call()).rejects.toThrow(TimeoutError);
    answer('late');
    expect(await call()).toBe('late');
    expect(calls).toBe(1);
  });

  it('fails once for all callers, also if it throws synchronously', async () => {
    let calls = 0;
    const call = cachedCall<never>(
      () => {
        calls++;
        throw new Error('gone');
      },
      HOUR,
      forAnHour,
    );
    const all = await Promise.allSettled(Array.from({ length: 100 }, call));
    expect(all.every(({ status }) => status === 'rejected')).toBe(true);
    expect(calls).toBe(1);
  });
});
