/**
 * The values of a source, of which none is waited for once the signal is aborted: a source may have
 * nothing to give for hours.
 * @throws the signal's reason; what the source throws
 */
export async function* interruptible<T>(
  source: Iterable<T> | AsyncIterable<T>,
  signal: AbortSignal,
): AsyncGenerator<T, void, undefined> {
  if (!(Symbol.asyncIterator in source)) {
    yield* source;
    return;
  }
  const values = source[Symbol.asyncIterator]();
  let isLeft = true;
  try {
    for (;;) {
      isLeft = false;
      const next = await nextOf(values, signal);
      if (next.done === true) return;
      isLeft = true;
      yield next.value;
    }
  } finally {
    // One that is waited for still closes when it comes to that, if ever.
    if (signal.aborted) void values.return?.().catch(() => undefined);
    else if (isLeft) await values.return?.();
  }
}

function nextOf<T>(values: AsyncIterator<T>, signal: AbortSignal): Promise<IteratorResult<T>> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
    const forget = (): void => signal.removeEventListener('abort', onAbort);
    values.next().then(resolve, reject).finally(forget);
  });
}

/** Values that may wait for their reader before the writer is asked to wait. */
const ROOM = 256;

/** Hands values from one who writes them to one who reads them, in order and in bounded memory. */
export class Relay<T> {
  #waiting: T[] = [];
  #isClosed = false;
  #onValues: (() => void) | null = null;
  #onRoom: (() => void) | null = null;

  /** Hands over values; the promise is fulfilled when there is room for more. */
  async put(values: readonly T[]): Promise<void> {
    this.#waiting.push(...values);
    this.#onValues?.();
    if (this.#waiting.length > ROOM && !this.#isClosed) {
      await new Promise<void>((resolve) => {
        this.#onRoom = resolve;
      });
    }
  }

  /** Nothing more will come, or be read. */
  close(): void {
    this.#isClosed = true;
    this.#onValues?.();
    this.#onRoom?.();
  }

  /** All values until it is closed. */
  async *read(): AsyncGenerator<T, void, undefined> {
    for (;;) {
      const values = this.#waiting;
      this.#waiting = [];
      this.#onRoom?.();
      yield* values;
      if (this.#waiting.length > 0) continue;
      if (this.#isClosed) return;
      await new Promise<void>((resolve) => {
        this.#onValues = resolve;
      });
    }
  }
}
