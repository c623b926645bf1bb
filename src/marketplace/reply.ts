/**
 * The result of one marketplace operation. The client never throws because of the server: every answer, and
 * every missing answer, is one of these six.
 */
export type Reply<T> = Answered<T> | Failure;

export type Failure = Denied | Refused | Limited | Unavailable | Unreadable;

export interface Answered<T> {
  readonly kind: 'answered';
  readonly httpStatus: number;
  readonly data: T;
}

/** An error envelope that answers the request: not found, invalid, no items (API 7). */
export interface Denied {
  readonly kind: 'denied';
  readonly httpStatus: number;
  /** The server's `msg`, redacted and shortened; it may be in any language. */
  readonly message: string;
}

/** The server did not accept the key, or did not find it in the request. */
export interface Refused {
  readonly kind: 'refused';
  readonly httpStatus: number;
  readonly message: string;
}

export interface Limited {
  readonly kind: 'limited';
  /** Null if nothing was sent, because an earlier reply requested a long pause. */
  readonly httpStatus: number | null;
  /** When the server takes requests again, milliseconds since 1970; null if it did not say. */
  readonly retryAt: number | null;
}

/** Why there is no answer from the API. */
export type UnavailableReason =
  | 'network' // refused, reset, DNS, TLS
  | 'plain-http' // https to a port without TLS
  | 'malformed' // the host answered, but not in valid HTTP
  | 'timeout'
  | 'server-error' // 5xx
  | 'maintenance' // 503
  | 'challenge' // bot protection
  | 'html' // a page instead of JSON
  | 'redirect' // to an address that must not get the key
  | 'switched-off' // 404 without the envelope
  | 'cut-off' // the body ended early
  | 'cache'; // a cache answered in place of the marketplace

/** The request was not answered. A later retry may help. Never a denial. */
export interface Unavailable {
  readonly kind: 'unavailable';
  readonly httpStatus: number | null;
  readonly reason: UnavailableReason;
  /** One sentence for a person, redacted. */
  readonly detail: string;
  readonly retryAt: number | null;
}

/** The answer can't be read. A retry will hardly help. */
export interface Unreadable {
  readonly kind: 'unreadable';
  readonly httpStatus: number;
  readonly detail: string;
  /** The beginning of the body, redacted, at most 300 characters; may be empty. */
  readonly excerpt: string;
  /** True if the answer is about another record than the requested one. */
  readonly isAboutAnother?: true;
  /** What a person can do something about: a body beyond the bound, or a list that says that it is not whole. */
  readonly flaw?: 'too-large' | 'part-of-list';
}

/** @param retryAt milliseconds since 1970; null if the server did not say */
export function unavailable(
  httpStatus: number | null,
  reason: UnavailableReason,
  detail: string,
  retryAt: number | null = null,
): Unavailable {
  return { kind: 'unavailable', httpStatus, reason, detail, retryAt };
}

/** Describes a failed reply in one sentence. Never contains the key. */
export function describeFailure(failure: Failure): string {
  switch (failure.kind) {
    case 'denied':
      return `the marketplace answered ${quote(failure)}`;
    case 'refused':
      return `the marketplace refused the API key: ${quote(failure)}`;
    case 'limited':
      return failure.retryAt === null
        ? 'the marketplace says there were too many requests'
        : `the marketplace says there were too many requests; it takes requests again at ${new Date(failure.retryAt).toISOString()}`;
    case 'unavailable':
      return failure.detail;
    case 'unreadable':
      if (failure.flaw !== undefined) return failure.detail;
      return failure.excerpt === ''
        ? `${failure.detail} (HTTP ${failure.httpStatus})`
        : `${failure.detail} (HTTP ${failure.httpStatus}); the answer begins: ${failure.excerpt}`;
  }
}

function quote({ message, httpStatus }: Denied | Refused): string {
  return message === '' ? `HTTP ${httpStatus}` : `"${message}" (HTTP ${httpStatus})`;
}

/** A sign that the API key or the address is bad, or that the server mixes up answers. */
export type DoubtReason =
  /** The marketplace refused the key. */
  | 'refused'
  /** A page, a redirect or nothing where the API should be. */
  | 'no-api'
  /** The key opens another account than the seller's. */
  | 'another-account'
  /** The answer is about another record. */
  | 'mixed-up';

/** Why a reply says nothing about the record, nor about the key. */
export type SilenceReason = 'limited' | 'unavailable' | 'unreadable';

/** What a reply says about the record that was asked for. */
export type Meaning =
  | { readonly kind: 'found' }
  /** A bad key gets the same answer, so it counts only in a proven window. */
  | { readonly kind: 'denied' }
  | { readonly kind: 'doubt'; readonly reason: DoubtReason }
  | { readonly kind: 'silent'; readonly reason: SilenceReason };

export function meaningOf(reply: Reply<unknown>): Meaning {
  return reply.kind === 'answered' ? { kind: 'found' } : meaningOfFailure(reply);
}

function meaningOfFailure(failure: Failure): Exclude<Meaning, { kind: 'found' }> {
  switch (failure.kind) {
    case 'denied':
      return { kind: 'denied' };
    case 'refused':
      return { kind: 'doubt', reason: 'refused' };
    case 'limited':
      return { kind: 'silent', reason: 'limited' };
    case 'unavailable': {
      const isPage = ['switched-off', 'redirect', 'html'].includes(failure.reason);
      return isPage
        ? { kind: 'doubt', reason: 'no-api' }
        : { kind: 'silent', reason: 'unavailable' };
    }
    case 'unreadable':
      return failure.isAboutAnother === true
        ? { kind: 'doubt', reason: 'mixed-up' }
        : { kind: 'silent', reason: 'unreadable' };
  }
}

/** When the server takes requests again, milliseconds since 1970; null if it did not say. */
export function retryTimeOf(reply: Reply<unknown>): number | null {
  return 'retryAt' in reply ? reply.retryAt : null;
}

/** The server's or the client's message about a failure, redacted; null for an answer with data. */
export function messageOf(reply: Reply<unknown>): string | null {
  if ('detail' in reply) return reply.detail;
  return 'message' in reply ? reply.message : null;
}

/** How to retry after transient failures. All four operations only read, so each may be repeated. */
export interface RetryPolicy {
  /** Total attempts, including the first; default 4. */
  readonly attempts: number;
  /** First pause, milliseconds; doubles after each attempt, with full jitter; default 500. */
  readonly baseMs: number;
  /** Longest pause, milliseconds; default 120,000. If the server asks for more, the call fails. */
  readonly maxMs: number;
}

export const DEFAULT_RETRY: RetryPolicy = { attempts: 4, baseMs: 500, maxMs: 120_000 };

/** Excludes `challenge`: retries make it worse (servers: outages). */
const OUTAGES: ReadonlySet<UnavailableReason> = new Set([
  'network',
  'timeout',
  'server-error',
  'maintenance',
  'cut-off',
]);

/** True if the marketplace or the network failed, not a setting. */
export function isOutage(failure: Failure): boolean {
  return failure.kind === 'unavailable' && OUTAGES.has(failure.reason);
}

export function isTransient(failure: Failure): boolean {
  return failure.kind === 'limited' || isOutage(failure);
}

/**
 * Pause before the next attempt (ms): exponential backoff with full jitter, or the server's own pause if longer.
 * @param attempt number of the attempt that got this reply, from 1 @param random in [0, 1)
 * @returns null if the reply is final, or if the server asks for a pause longer than `maxMs`
 */
export function pauseAfter(
  reply: Reply<unknown>,
  attempt: number,
  policy: RetryPolicy,
  now: number,
  random: number,
): number | null {
  if (reply.kind === 'answered' || attempt >= policy.attempts || !isTransient(reply)) return null;
  const backoff = random * Math.min(policy.maxMs, policy.baseMs * 2 ** (attempt - 1));
  const at = 'retryAt' in reply ? reply.retryAt : null;
  if (at === null) return backoff;
  return at - now > policy.maxMs ? null : Math.max(at - now, backoff);
}

/** Node fires timers longer than this (ms) immediately. */
export const MAX_TIMER_MS = 2_147_483_647;
