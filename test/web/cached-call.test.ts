import { describe, expect, it } from 'vitest';
import { cachedCall, CallTimeout } from '../../src/web/cached-call.js';

const HOUR = 3_600_000;

describe('a question that costs something', () => {
  it('is asked once for all who ask while its answer is awaited or good', async () => {
    let asked = 0;
    const ask = cachedCall(() => Promise.resolve(++asked), {
      timeoutMs: HOUR,
      freshMs: () => HOUR,
    });
    expect(await Promise.all(Array.from({ length: 1_000 }, ask))).toEqual(Array(1_000).fill(1));
    expect(await ask()).toBe(1);
  });

  it('is asked again when its answer is no longer good', async () => {
    let asked = 0;
    const ask = cachedCall(() => Promise.resolve(++asked), { timeoutMs: HOUR, freshMs: () => 0 });
    expect([await ask(), await ask()]).toEqual([1, 2]);
  });

  it('keeps nobody waiting, and is not asked again while it hangs', async () => {
    let asked = 0;
    let answer: (text: string) => void = () => undefined;
    const ask = cachedCall(
      () => {
        asked++;
        return new Promise<string>((resolve) => (answer = resolve));
      },
      { timeoutMs: 10, freshMs: () => HOUR },
    );
    const first = await Promise.allSettled(Array.from({ length: 100 }, ask));
    expect(first.every(({ status }) => status === 'rejected')).toBe(true);
    await expect(ask()).rejects.toThrow(CallTimeout);
    expect(asked).toBe(1);
    answer('at last');
    expect(await ask()).toBe('at last');
    expect(asked).toBe(1);
  });

  it('fails for all who ask together, without being asked by each, even if it throws at once', async () => {
    let asked = 0;
    const ask = cachedCall<never>(
      () => {
        asked++;
        throw new Error('gone');
      },
      { timeoutMs: HOUR, freshMs: () => HOUR },
    );
    const all = await Promise.allSettled(Array.from({ length: 100 }, ask));
    expect(all.every(({ status }) => status === 'rejected')).toBe(true);
    expect(asked).toBe(1);
  });

  it('is told how long it took, so that a dear answer can be good for longer', async () => {
    const took: number[] = [];
    const ask = cachedCall(() => Promise.resolve(), {
      timeoutMs: HOUR,
      freshMs: (ms) => {
        took.push(ms);
        return 0;
      },
    });
    await ask();
    expect(took).toEqual([expect.any(Number)]);
  });
});
