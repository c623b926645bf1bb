import type { Failure, Reply } from './reply.js';

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
