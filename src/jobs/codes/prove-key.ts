import { describeFailure } from '../../domain/reply.js';
import { maskCode } from '../../domain/secret.js';
import type { Marketplace } from '../../marketplace/types.js';
import { isOutage, remedyOf } from '../problem.js';

type ProvingMarketplace = Pick<Marketplace, 'account' | 'validate'>;

/** Why no code may be asked for, and what to do. */
export interface KeyFault {
  readonly message: string;
  readonly remedy: string;
  /** Neither the key nor the canary is to blame: the marketplace, or the way to it, is out of order. */
  readonly isOutage: boolean;
}

/**
 * Asks once for account details, and for the given canary, before any code. An audit with a bad key or
 * address would wait until a person corrects it.
 * @returns what is wrong when the API key opens no account, or the canary is denied; else null
 */
export async function proveKey(
  marketplace: ProvingMarketplace,
  canary: string | undefined,
  signal: AbortSignal,
): Promise<KeyFault | null> {
  const reply = await marketplace.account({ signal, priority: 'audit' });
  // Too many requests says nothing about the key; the audit waits as long as it must.
  if (reply.kind === 'limited') return null;
  if (reply.kind !== 'answered') {
    const message = `${describeFailure(reply)}; no code was asked for`;
    return { message, remedy: remedyOf(reply), isOutage: isOutage(reply) };
  }
  return canary === undefined ? null : proveCanary(marketplace, canary, signal);
}

/**
 * Asks once for the canary: with a denied one, no code could ever be proven invalid. Without an answer,
 * the audit asks again and reports a key that opens no account: such a key denies every code.
 * @returns what is wrong when it is denied to a key that opens the account; else null
 */
export async function proveCanary(
  marketplace: ProvingMarketplace,
  canary: string,
  signal: AbortSignal,
): Promise<KeyFault | null> {
  const call = { signal, priority: 'audit' } as const;
  if ((await marketplace.validate(canary, call)).kind !== 'denied') return null;
  if ((await marketplace.account(call)).kind !== 'answered') return null;
  return {
    message: `the marketplace denies the canary ${maskCode(canary)}: no code was asked for`,
    remedy: 'is it mistyped, or was it refunded? leave it out, or give another code',
    isOutage: false,
  };
}
