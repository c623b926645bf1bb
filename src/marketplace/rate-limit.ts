import type { ServerFacts } from './types.js';

/** Header names are in lower case; repeated headers are joined by commas. */
export type HeaderMap = Readonly<Record<string, string>>;

/** Status and headers of a response. */
export interface Head {
  readonly httpStatus: number;
  readonly headers: HeaderMap;
  /** From the request to these headers, milliseconds. */
  readonly tookMs: number;
}

/** Longer waits are cut to this. */
const MAX_WAIT_MS = 24 * 3_600_000;
/** Below this, `X-RateLimit-Reset` counts seconds from now; from here on, seconds since 1970 (this is 2001). */
const SMALLEST_EPOCH_SECONDS = 1_000_000_000;
/** From here on, it counts milliseconds since 1970. */
const SMALLEST_EPOCH_MS = 100_000_000_000;
/** No window of a limit was seen to be longer. A later time is believed only with a 429. */
const LONGEST_WINDOW_MS = 3_600_000;

/** Pause when the server names none: the longest rate-limit window seen. */
const WINDOW_MS = 60_000;

/**
 * Until when a response pauses the budget: after a 429, or when no requests remain (servers: limits).
 *
 * Most servers name no time. A budget evenly spaced at the server's limit reads "0 remaining" once a window,
 * just before the next window opens, so it continues. If other clients use up the limit too, a 429 follows.
 * @param requestsPerMinute rate of the evenly spaced budget; 0 or unset if requests may be sent in bursts
 * @returns milliseconds since 1970; null for no pause
 */
export function resumeAt(
  { httpStatus, headers }: Head,
  requestsPerMinute: number | undefined,
  now: number,
): number | null {
  const isLimited = httpStatus === 429;
  if (!isLimited && headers['x-ratelimit-remaining']?.trim() !== '0') return null;
  const requested = retryAt(headers, now);
  if (requested !== null && (isLimited || requested - now <= LONGEST_WINDOW_MS)) return requested;
  const limit = wholeNumber(headers['x-ratelimit-limit']) ?? 0;
  const isSpaced = !!requestsPerMinute && requestsPerMinute <= limit;
  return isSpaced && !isLimited ? null : now + WINDOW_MS;
}

/**
 * Reads `Retry-After` (seconds or an HTTP date), else `X-RateLimit-Reset` (servers: limits).
 * @returns milliseconds since 1970, from `now` to a day ahead; null when the server names no time
 */
export function retryAt(headers: HeaderMap, now: number): number | null {
  return retryAfter(headers, now) ?? rateLimitReset(headers, now);
}

/** Reads `Retry-After`. A date counts relative to the server's own clock if it sent one. */
function retryAfter(headers: HeaderMap, now: number): number | null {
  const text = headers['retry-after']?.trim();
  if (text === undefined) return null;
  if (/^\d+(?:\.\d+)?$/.test(text)) return bounded(now + Math.ceil(Number(text) * 1_000), now);
  const date = httpDate(text);
  return date === null ? null : onOurClock(date, headers, now);
}

/** `X-RateLimit-Reset`: seconds or milliseconds since 1970 on the server's clock, or seconds from now when small. */
function rateLimitReset(headers: HeaderMap, now: number): number | null {
  const text = headers['x-ratelimit-reset']?.trim();
  if (text === undefined || !/^\d+$/.test(text)) return null;
  const number = Number(text);
  if (number < SMALLEST_EPOCH_SECONDS) return bounded(now + number * 1_000, now);
  return onOurClock(number < SMALLEST_EPOCH_MS ? number * 1_000 : number, headers, now);
}

/** Converts a time on the server's clock, known from its `Date` header, to our clock. */
function onOurClock(at: number, headers: HeaderMap, now: number): number {
  const serverNow = httpDate(headers['date']?.trim() ?? '') ?? now;
  return bounded(now + (at - serverNow), now);
}

function bounded(at: number, now: number): number {
  return Math.min(Math.max(at, now), now + MAX_WAIT_MS);
}

/** Parses the three HTTP date formats. All are GMT, though one does not say so. */
function httpDate(text: string): number | null {
  if (!/^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text)) return null;
  const at = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(at) ? null : at;
}

export function serverFacts(origin: string, headers: HeaderMap): ServerFacts {
  return {
    origin,
    date: httpDate(headers['date']?.trim() ?? ''),
    limit: wholeNumber(headers['x-ratelimit-limit']),
    remaining: wholeNumber(headers['x-ratelimit-remaining']),
  };
}

/** Reads the first number of a header that may be repeated. */
function wholeNumber(text: string | undefined): number | null {
  const first = text?.split(',')[0]?.trim() ?? '';
  return /^\d{1,15}$/.test(first) ? Number(first) : null;
}
