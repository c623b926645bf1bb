import { describe, expect, it } from 'vitest';
import { NoAnswer, sparingly } from '../../src/web/sparingly.js';

const HOUR = 3_600_000;

describe('a question that costs something', () => {
  it('is asked once for all who ask while its answer is awaited or good', async () => {
    let asked = 0;
    const ask = sparingly(() => Promise.resolve(++asked), {
      patienceMs: HOUR,
      goodForMs: () => HOUR,
    });
    expect(await Promise.all(Array.from({ length: 1_000 }, ask))).toEqual(Array(1_000).fill(1));
    expect(await ask()).toBe(1);
  });

  it('is asked again when its answer is no longer good', async () => {
    let asked = 0;
    const ask = sparingly(() => Promise.resolve(++asked), { patienceMs: HOUR, goodForMs: () => 0 });
    expect([await ask(), await ask()]).toEqual([1, 2]);
  });

  it('keeps nobody waiting, and is not asked again while it hangs', async () => {
    let asked = 0;
    let answer: (text: string) => void = () => undefined;
    const ask = sparingly(
      () => {
        asked++;
        return new Promise<string>((resolve) => (answer = resolve));
      },
      { patienceMs: 10, goodForMs: () => HOUR },
    );
    const first = await Promise.allSettled(Array.from({ length: 100 }, ask));
    expect(first.every(({ status }) => status === 'rejected')).toBe(true);
    await expect(ask()).rejects.toThrow(NoAnswer);
    expect(asked).toBe(1);
    answer('at last');
    expect(await ask()).toBe('at last');
    expect(asked).toBe(1);
  });

  it('fails for all who ask together, without being asked by each, even if it throws at once', async () => {
    let asked = 0;
    const ask = sparingly<never>(
      () => {
        asked++;
        throw new Error('gone');
      },
      { patienceMs: HOUR, goodForMs: () => HOUR },
    );
    const all = await Promise.allSettled(Array.from({ length: 100 }, ask));
    expect(all.every(({ status }) => status === 'rejected')).toBe(true);
    expect(asked).toBe(1);
  });

  it('is told how long it took, so that a dear answer can be good for longer', async () => {
    const took: number[] = [];
    const ask = sparingly(() => Promise.resolve(), {
      patienceMs: HOUR,
      goodForMs: (ms) => {
        took.push(ms);
        return 0;
      },
    });
    await ask();
    expect(took).toEqual([expect.any(Number)]);
  });
});
