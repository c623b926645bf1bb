import type { App } from '../../app.js';
import type { SellerConfig } from '../../config/index.js';
import { maskCode } from '../../domain/secret.js';
import { describeFailure } from '../../domain/reply.js';
import { remedyOf } from '../../jobs/problem.js';
import { CommandError } from '../errors.js';

/**
 * Asks once for account details, and for the given canary, before any code. An audit with a bad key or
 * address would wait until a person corrects it.
 * @throws {CommandError} when the API key opens no account, or the canary is denied
 */
export async function proveKey(
  app: App,
  seller: SellerConfig,
  canary: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const reply = await app.withJobs(seller, {}, ({ marketplace }) =>
    marketplace.account({ signal, priority: 'audit' }),
  );
  // Too many requests says nothing about the key; the audit waits as long as it must.
  if (reply.kind === 'limited') return;
  if (reply.kind !== 'answered') {
    throw new CommandError(`${describeFailure(reply)}; no code was asked for`, remedyOf(reply));
  }
  if (canary !== undefined) await proveCanary(app, seller, canary, signal);
}

/**
 * Asks once for the canary: with a denied one, no code could ever be proven invalid. Without an answer,
 * the audit asks again and reports a key that opens no account: such a key denies every code.
 * @throws {CommandError} when it is denied to a key that opens the account
 */
export async function proveCanary(
  app: App,
  seller: SellerConfig,
  canary: string,
  signal: AbortSignal,
): Promise<void> {
  const isDenied = await app.withJobs(seller, {}, async ({ marketplace }) => {
    const call = { signal, priority: 'audit' } as const;
    if ((await marketplace.validate(canary, call)).kind !== 'denied') return false;
    return (await marketplace.account(call)).kind === 'answered';
  });
  if (!isDenied) return;
  throw new CommandError(
    `the marketplace denies the canary ${maskCode(canary)}: no code was asked for`,
    'is it mistyped, or was it refunded? leave --canary out, or give another code',
  );
}
