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
  | 'cut-off'; // the body ended early

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
      return failure.excerpt === ''
        ? `${failure.detail} (HTTP ${failure.httpStatus})`
        : `${failure.detail} (HTTP ${failure.httpStatus}); the answer begins: ${failure.excerpt}`;
  }
}

function quote({ message, httpStatus }: Denied | Refused): string {
  return message === '' ? `HTTP ${httpStatus}` : `"${message}" (HTTP ${httpStatus})`;
}
