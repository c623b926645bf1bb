import type { ServerFacts } from './types.js';

/** Header names in lower case; repeated headers joined by commas. */
export type HeaderMap = Readonly<Record<string, string>>;

/** The longest wait accepted; a server that names a longer one is asked again after a day. */
const LONGEST_WAIT_MS = 24 * 3_600_000;
/** Numbers below this are seconds from now, above it seconds since 1970 (year 2001). */
const SMALLEST_EPOCH_SECONDS = 1_000_000_000;

/** Pause when the server does not say for how long: the longest window seen, milliseconds. */
const WINDOW_MS = 60_000;

/**
 * Until when an answer pauses the budget (field notes: limits), after a 429 or when no requests remain. Most
 * answers give no time, and a budget evenly spaced at the server's limit meets "none remain" just when its
 * next request is due in the next window: it goes on. If others use up the limit too, a 429 follows.
 * @param requestsPerMinute of the budget, evenly spaced; 0 or not set: requests may be sent in a burst
 * @returns milliseconds since 1970; null for no pause
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

/**
 * `Retry-After` (seconds, or an HTTP date), else `X-RateLimit-Reset` (field notes: limits and weather).
 * @returns milliseconds since 1970, never before `now` and at most a day ahead; null without header
 */
export function retryAt(headers: HeaderMap, now: number): number | null {
  return retryAfter(headers, now) ?? rateLimitReset(headers, now);
}

/** The moment in `Retry-After`. A date is read against the server's own clock when it sent one. */
function retryAfter(headers: HeaderMap, now: number): number | null {
  const text = headers['retry-after']?.trim();
  if (text === undefined) return null;
  if (/^\d+$/.test(text)) return bounded(now + Number(text) * 1_000, now);
  const date = httpDate(text);
  return date === null ? null : onOurClock(date, headers, now);
}

/** `X-RateLimit-Reset`: seconds since 1970 on the server's clock, or seconds from now when small. */
function rateLimitReset(headers: HeaderMap, now: number): number | null {
  const text = headers['x-ratelimit-reset']?.trim();
  if (text === undefined || !/^\d+$/.test(text)) return null;
  const seconds = Number(text);
  return seconds < SMALLEST_EPOCH_SECONDS
    ? bounded(now + seconds * 1_000, now)
    : onOurClock(seconds * 1_000, headers, now);
}

/** Converts a time on the server's clock, which its `Date` header shows, to ours. */
function onOurClock(at: number, headers: HeaderMap, now: number): number {
  const serverNow = httpDate(headers['date']?.trim() ?? '') ?? now;
  return bounded(now + (at - serverNow), now);
}

function bounded(at: number, now: number): number {
  return Math.min(Math.max(at, now), now + LONGEST_WAIT_MS);
}

/** The last date read: all answers of a second have the same. */
let lastDate: { readonly text: string; readonly at: number | null } = { text: '', at: null };

function httpDate(text: string): number | null {
  if (text !== lastDate.text) lastDate = { text, at: readDate(text) };
  return lastDate.at;
}

/** Reads the three date formats of HTTP. All are in GMT, though one does not say so. */
function readDate(text: string): number | null {
  if (!/^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text)) return null;
  const at = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(at) ? null : at;
}

export function serverFacts(answer: {
  readonly origin: string;
  readonly headers: HeaderMap;
}): ServerFacts {
  const { origin, headers } = answer;
  return {
    origin,
    date: httpDate(headers['date']?.trim() ?? ''),
    limit: wholeNumber(headers['x-ratelimit-limit']),
    remaining: wholeNumber(headers['x-ratelimit-remaining']),
  };
}

/** The first number of a header; repeated ones are joined by commas. */
function wholeNumber(text: string | undefined): number | null {
  const first = text?.split(',')[0]?.trim() ?? '';
  return /^\d{1,15}$/.test(first) ? Number(first) : null;
}
