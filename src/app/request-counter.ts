import type { Store } from '../store/store.js';

/** Longest time that requests stay uncounted in the store (ms). */
const WRITE_EVERY_MS = 5_000;

/**
 * Counts a seller's requests in the store, for those who watch how much of the budget is used. Work
 * does not depend on it and never waits for it: what the store does not take is left out.
 */
export function requestCounter(
  { requests }: Pick<Store, 'requests'>,
  sellerId: string,
): { add(count: number): void; close(): void } {
  let waiting = 0;
  let timer: NodeJS.Timeout | null = null;
  const write = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const count = waiting;
    waiting = 0;
    if (count > 0) void requests.add(sellerId, count).catch(() => undefined);
  };
  return {
    add(count) {
      waiting += count;
      timer ??= setTimeout(write, WRITE_EVERY_MS).unref();
    },
    close: write,
  };
}
