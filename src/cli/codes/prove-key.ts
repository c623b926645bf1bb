import type { App } from '../../app.js';
import type { SellerConfig } from '../../config/index.js';
import { problemOf } from '../../jobs/problem.js';
import { CommandError } from '../errors.js';

/**
 * Asks for account details once, before a list is read: an audit with a bad key, or at an address
 * where nobody answers, would wait for a person to mend it.
 * @throws {CommandError} when the API key opens no account
 */
export async function proveKey(app: App, seller: SellerConfig, signal: AbortSignal): Promise<void> {
  const reply = await app.withJobs(seller, {}, ({ marketplace }) =>
    marketplace.account({ signal, priority: 'audit' }),
  );
  // Too many requests says nothing of the key; the audit waits for as long as it must.
  if (reply.kind === 'answered' || reply.kind === 'limited') return;
  const { problem } = problemOf(reply);
  throw new CommandError(`${problem.message}; no code was asked for`, problem.remedy);
}
