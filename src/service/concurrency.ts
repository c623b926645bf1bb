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

/** A call that has not answered is repeated after this time (ms), by the next caller. */
const ABANDONED_AFTER_MS = 30_000;
/** Callers within this time (ms) after a failure get the same failure. */
const FAILURE_FRESH_MS = 1_000;

/**
 * Shares a costly call between callers, so that anybody may call at any rate. Callers share the pending
 * call, or its result while it is fresh. A call that hangs is repeated at most every 30 s.
 * @param timeoutMs longest wait of one caller
 * @param freshMs time for which a result is reused, given how long the call took
 * @returns rejects as `call` does, or with `TimeoutError` after the timeout
 */
export function cachedCall<T>(
  call: () => Promise<T>,
  timeoutMs: number,
  freshMs: (tookMs: number) => number,
): () => Promise<T> {
  let last: { readonly result: Promise<T>; until: number } | null = null;
  const start = (): NonNullable<typeof last> => {
    const at = performance.now();
    // Async, so that a synchronous throw becomes a rejection.
    const result = (async () => call())();
    const started = { result, until: at + ABANDONED_AFTER_MS };
    void result
      .then(() => freshMs(performance.now() - at))
      .catch(() => FAILURE_FRESH_MS)
      .then((fresh) => (started.until = performance.now() + fresh));
    return started;
  };
  return () => {
    if (last === null || performance.now() >= last.until) last = start();
    return withTimeout(timeoutMs, last.result);
  };
}
