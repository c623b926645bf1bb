import { setTimeout as sleep } from 'node:timers/promises';

/** Calls `work` for each of many, so many at a time; the first error ends it. */
export async function eachOf<T>(
  many: readonly T[],
  atATime: number,
  work: (one: T) => Promise<void>,
): Promise<void> {
  const rest = many.values();
  const worker = async (): Promise<void> => {
    // Workers share the iterator, so each takes what none has taken.
    for (const one of rest) await work(one);
  };
  await Promise.all(Array.from({ length: Math.min(atATime, many.length) }, worker));
}

/** There was no answer in time. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

/**
 * Waits for a promise, but not longer than `ms`. A late promise goes on; how it ends is ignored.
 * @throws {NoAnswer} when the time is over
 */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new NoAnswer(`no answer within ${ms / 1_000} s`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits `ms`, or until the signal is aborted. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
