import { setTimeout as sleep } from 'node:timers/promises';

/** Calls `work` for each item, at most `limit` at a time. The first error rejects. */
export async function forEachConcurrently<T>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  // All loops share the iterator, so each item is taken once.
  const remaining = items.values();
  const loop = async (): Promise<void> => {
    for (const item of remaining) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, loop));
}

export class TimeoutError extends Error {
  override readonly name = 'TimeoutError';
}

/**
 * Waits for a promise for at most `ms`. Afterwards its result or error is ignored.
 * @throws {TimeoutError}
 */
export async function withTimeout<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`no answer within ${ms / 1_000} s`)), ms);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits for `ms`, or until the signal is aborted. Never rejects. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
