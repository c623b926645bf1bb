/** Does something for each of many, so many at a time; the first error ends it. */
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

/**
 * What a promise resolves to, if it does in time. What it stands for goes on.
 * @throws {Error} when it does not
 */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms / 1_000} seconds`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
