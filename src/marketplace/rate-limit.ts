import { retryAt, type HeaderMap } from './retry-after.js';
import { wholeNumber } from './server-facts.js';

/** How long everybody waits when the server says "no more" but not until when: its longest window. */
const WINDOW_MS = 60_000;

/**
 * Until when everybody is to wait after an answer (field notes: limits): after a 429, and when it says
 * that no requests remain, until the time given. Ordinary answers give none, and whoever asks evenly and
 * as fast as is allowed is told "none remain" by the last answer of each window, when the next request is
 * not due before the window ends: such a budget goes on. If others use up the limit too, a 429 will say
 * until when.
 * @param requestsPerMinute of the budget, evenly spaced; 0 or not set: requests may come all at once
 * @param now milliseconds since 1970
 * @returns milliseconds since 1970; null: nobody need wait
 */
export function resumeAt(
  { httpStatus, headers }: { readonly httpStatus: number; readonly headers: HeaderMap },
  requestsPerMinute: number | undefined,
  now: number,
): number | null {
  const isLimited = httpStatus === 429;
  if (!isLimited && headers['x-ratelimit-remaining']?.trim() !== '0') return null;
  const given = retryAt(headers, now);
  if (given !== null) return given;
  const limit = wholeNumber(headers['x-ratelimit-limit']) ?? 0;
  const isSpaced = !!requestsPerMinute && requestsPerMinute <= limit;
  return isSpaced && !isLimited ? null : now + WINDOW_MS;
}
