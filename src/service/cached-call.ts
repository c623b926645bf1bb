import { withTimeout } from './queue/concurrency.js';

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
