/**
 * The result of one marketplace operation. The server never makes the client throw: whatever it
 * sends, or fails to send, is one of these six, and the rules in `domain/` decide what follows.
 */
export type Reply<T> = Answered<T> | Failure;

export type Failure = Denied | Refused | Limited | Unavailable | Unreadable;

export interface Answered<T> {
  readonly kind: 'answered';
  readonly httpStatus: number;
  readonly data: T;
}

/** An error envelope that answers the question: not found, invalid, no items (spec 7). */
export interface Denied {
  readonly kind: 'denied';
  readonly httpStatus: number;
  /** The server's `msg`, redacted and shortened; it may be in any language. */
  readonly message: string;
}

/** The key was not accepted, or did not arrive where the server looks for it. */
export interface Refused {
  readonly kind: 'refused';
  readonly httpStatus: number;
  readonly message: string;
}

export interface Limited {
  readonly kind: 'limited';
  /** Null when nothing was sent, because an earlier reply asked for a long pause. */
  readonly httpStatus: number | null;
  /** When the server takes requests again, milliseconds since 1970; null when it did not say. */
  readonly retryAt: number | null;
}

/** Why no answer of this API came. */
export type UnavailableReason =
  | 'network' // refused, reset, DNS, TLS
  | 'plain-http' // asked by https, at a port without TLS
  | 'timeout'
  | 'server-error' // 5xx
  | 'maintenance' // 503
  | 'challenge' // bot protection
  | 'html' // a page instead of JSON
  | 'redirect' // to an address that may not get the key
  | 'switched-off' // 404 without the envelope
  | 'cut-off'; // the body ended early

/** The question was not answered; asking again later may help. Never a denial. */
export interface Unavailable {
  readonly kind: 'unavailable';
  readonly httpStatus: number | null;
  readonly reason: UnavailableReason;
  /** One sentence for a person, redacted. */
  readonly detail: string;
  readonly retryAt: number | null;
}

/** An answer came that can't be read; asking again will hardly help. */
export interface Unreadable {
  readonly kind: 'unreadable';
  readonly httpStatus: number;
  readonly detail: string;
  /** The beginning of the body, at most 300 characters, redacted; empty when nothing can be shown. */
  readonly excerpt: string;
  /** True when it is about another record than the one asked for: answers get mixed up. */
  readonly isAboutAnother?: true;
}

/** @param retryAt milliseconds since 1970; null when the server did not say */
export function unavailable(
  httpStatus: number | null,
  reason: UnavailableReason,
  detail: string,
  retryAt: number | null = null,
): Unavailable {
  return { kind: 'unavailable', httpStatus, reason, detail, retryAt };
}

/** A failed reply in one sentence for a person. Never contains the key. */
export function describeFailure(failure: Failure): string {
  switch (failure.kind) {
    case 'denied':
      return `the marketplace answered ${said(failure)}`;
    case 'refused':
      return `the marketplace refused the API key: ${said(failure)}`;
    case 'limited':
      return failure.retryAt === null
        ? 'the marketplace says there were too many requests'
        : `the marketplace says there were too many requests; it may be asked again at ${new Date(failure.retryAt).toISOString()}`;
    case 'unavailable':
      return failure.detail;
    case 'unreadable':
      return failure.excerpt === ''
        ? `${failure.detail} (HTTP ${failure.httpStatus})`
        : `${failure.detail} (HTTP ${failure.httpStatus}); the answer begins: ${failure.excerpt}`;
  }
}

function said({ message, httpStatus }: Denied | Refused): string {
  return message === '' ? `HTTP ${httpStatus}` : `"${message}" (HTTP ${httpStatus})`;
}
