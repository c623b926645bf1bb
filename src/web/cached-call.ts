import { within } from '../queue/concurrency.js';

/** A call without an answer is made again after this time, milliseconds; until then nobody makes another. */
const ABANDONED_AFTER_MS = 30_000;
/** A failure is repeated to those who ask within this time, milliseconds. */
const FAILURE_FRESH_MS = 1_000;

/**
 * Makes a costly call safe to be asked for by anybody at any rate: everybody who asks while its
 * answer is awaited, or is still fresh, gets that one, and nobody waits for long. So something that
 * never answers gathers no more than one call in half a minute.
 * @param timeoutMs longest wait of one caller
 * @param freshMs for how long an answer is given to others too, given how long it took to come
 * @returns asks; rejects as `call` does, or with `NoAnswer`
 */
export function cachedCall<T>(
  call: () => Promise<T>,
  timeoutMs: number,
  freshMs: (tookMs: number) => number,
): () => Promise<T> {
  let last: { readonly answer: Promise<T>; until: number } | null = null;
  const begin = (): NonNullable<typeof last> => {
    const at = performance.now();
    // Also when it throws at once.
    const answer = (async () => call())();
    const made = { answer, until: at + ABANDONED_AFTER_MS };
    void answer
      .then(() => freshMs(performance.now() - at))
      .catch(() => FAILURE_FRESH_MS)
      .then((fresh) => (made.until = performance.now() + fresh));
    return made;
  };
  return () => {
    if (last === null || performance.now() >= last.until) last = begin();
    return within(timeoutMs, last.answer);
  };
}
