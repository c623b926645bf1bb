export interface CacheOptions {
  /** Longest wait of one caller, milliseconds. */
  readonly timeoutMs: number;
  /**
   * For how long an answer is given to others too, milliseconds.
   * @param tookMs how long it took to come
   */
  readonly freshMs: (tookMs: number) => number;
}

/** A call without an answer is made again after this time, milliseconds; until then nobody makes another. */
const ABANDONED_AFTER_MS = 30_000;
/** A failure is repeated to those who ask within this time, milliseconds. */
const FAILURE_FRESH_MS = 1_000;

/** There was no answer in time. */
export class CallTimeout extends Error {
  override readonly name = 'CallTimeout';

  constructor(timeoutMs: number) {
    super(`no answer within ${timeoutMs / 1000} s`);
  }
}

/** A call that was made; it counts until then. */
interface Call<T> {
  readonly answer: Promise<T>;
  until: number;
}

/**
 * Makes a costly call safe to be asked for by anybody at any rate: everybody who asks while its
 * answer is awaited, or is still fresh, gets that one, and nobody waits for long. So something that
 * never answers gathers no more than one call in half a minute.
 * @returns asks; rejects as `call` does, or with `CallTimeout`
 */
export function cachedCall<T>(call: () => Promise<T>, options: CacheOptions): () => Promise<T> {
  let last: Call<T> | null = null;
  return () => {
    if (last === null || performance.now() >= last.until) last = begin(call, options);
    return inTime(last.answer, options.timeoutMs);
  };
}

function begin<T>(call: () => Promise<T>, { freshMs }: CacheOptions): Call<T> {
  const at = performance.now();
  // Also when it throws at once.
  const answer = (async () => call())();
  const made: Call<T> = { answer, until: at + ABANDONED_AFTER_MS };
  void answer
    .then(() => freshMs(performance.now() - at))
    .catch(() => FAILURE_FRESH_MS)
    .then((fresh) => (made.until = performance.now() + fresh));
  return made;
}

async function inTime<T>(answer: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new CallTimeout(timeoutMs)), timeoutMs);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
