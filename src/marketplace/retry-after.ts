/** Header names in lower case; repeated headers joined by commas. */
export type HeaderMap = Readonly<Record<string, string>>;

/** The longest wait believed; a server that asks for more is asked again after a day. */
const LONGEST_WAIT_MS = 24 * 3_600_000;
/** Numbers below this are seconds from now, above it seconds since 1970 (year 2001). */
const SMALLEST_EPOCH_SECONDS = 1_000_000_000;

/**
 * When the server says to come back: `Retry-After` (seconds, or an HTTP date), else
 * `X-RateLimit-Reset` (field notes: limits and weather).
 * @param now milliseconds since 1970
 * @returns milliseconds since 1970, never before `now` and at most a day ahead; null when not said
 */
export function retryAt(headers: HeaderMap, now: number): number | null {
  return retryAfter(headers, now) ?? rateLimitReset(headers, now);
}

/** The moment in `Retry-After`. A date is read against the server's own clock when it sent one. */
export function retryAfter(headers: HeaderMap, now: number): number | null {
  const text = headers['retry-after']?.trim();
  if (text === undefined) return null;
  if (/^\d+$/.test(text)) return bounded(now + Number(text) * 1_000, now);
  const date = httpDate(text);
  return date === null ? null : onOurClock(date, headers, now);
}

/**
 * The moment in `X-RateLimit-Reset`: seconds since 1970 on the server's clock, or seconds from now
 * when small.
 */
export function rateLimitReset(headers: HeaderMap, now: number): number | null {
  const text = headers['x-ratelimit-reset']?.trim();
  if (text === undefined || !/^\d+$/.test(text)) return null;
  const seconds = Number(text);
  return seconds < SMALLEST_EPOCH_SECONDS
    ? bounded(now + seconds * 1_000, now)
    : onOurClock(seconds * 1_000, headers, now);
}

/** A moment by the server's clock, which its `Date` header shows, by ours. */
function onOurClock(at: number, headers: HeaderMap, now: number): number {
  const serverNow = httpDate(headers['date']?.trim() ?? '') ?? now;
  return bounded(now + (at - serverNow), now);
}

function bounded(at: number, now: number): number {
  return Math.min(Math.max(at, now), now + LONGEST_WAIT_MS);
}

/** The three date formats of HTTP; all are in GMT, though one of them does not say so. */
export function httpDate(text: string): number | null {
  if (!/^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text)) return null;
  const at = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(at) ? null : at;
}
