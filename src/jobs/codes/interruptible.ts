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
