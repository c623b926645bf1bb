import { describeFailure } from '../marketplace/reply.js';
import { maskCode } from '../domain/secret.js';
import { isOutage } from '../marketplace/retry.js';
import { failureRemedy } from '../catalogue/problem.js';
import type { CodeMarket } from './ask.js';

/** Why an audit must not start, and what to do. */
export interface KeyFault {
  readonly message: string;
  readonly remedy: string;
  /** The marketplace, or the network to it, failed: neither the key nor the canary is to blame. */
  readonly isOutage: boolean;
}

/**
 * Checks the key, and the canary if one is given, before an audit. With a bad key or address, the audit
 * would only wait for a person.
 * @returns the fault when the API key opens no account or the canary is denied; null: all is well
 */
export async function verifyKey(
  marketplace: CodeMarket,
  canary: string | undefined,
  signal: AbortSignal,
): Promise<KeyFault | null> {
  const reply = await marketplace.account({ signal, priority: 'audit' });
  // "Too many requests" says nothing about the key. The audit waits as long as it must.
  if (reply.kind === 'limited') return null;
  if (reply.kind !== 'answered') {
    const message = `${describeFailure(reply)}; no code was checked`;
    return { message, remedy: failureRemedy(reply), isOutage: isOutage(reply) };
  }
  return canary === undefined ? null : verifyKnownValid(marketplace, canary, signal);
}

/**
 * Validates the canary before an audit: with a denied one, no code could be proven invalid.
 * @returns the fault when a key that opens the account denies the canary; null in all other cases, which
 * the audit handles itself
 */
export async function verifyKnownValid(
  marketplace: CodeMarket,
  canary: string,
  signal: AbortSignal,
): Promise<KeyFault | null> {
  const call = { signal, priority: 'audit' } as const;
  if ((await marketplace.validate(canary, call)).kind !== 'denied') return null;
  if ((await marketplace.account(call)).kind !== 'answered') return null;
  return {
    message: `the marketplace denies ${maskCode(canary)}, the code that you know is valid: no code was checked`,
    remedy: 'is it mistyped, or no longer valid? leave it out, or give another code',
    isOutage: false,
  };
}
