import { httpDate, type HeaderMap } from './retry-after.js';
import type { ServerFacts } from './types.js';

/** Reads what the head of an answer tells of the server: its address, clock and limit. */
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

/** Repeated headers are joined by commas; the first is taken. */
export function wholeNumber(text: string | undefined): number | null {
  const first = text?.split(',')[0]?.trim() ?? '';
  return /^\d{1,15}$/.test(first) ? Number(first) : null;
}
