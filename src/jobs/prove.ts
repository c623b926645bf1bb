import type { Account } from '../domain/item.js';
import type { Sourced } from '../marketplace/types.js';
import { problemOf, RunProblem, type RunContext } from './run.js';

/** Account details answered with success: the key is good, and whose it is. */
export type Proof = Sourced<Account>;

/**
 * Proves the credential by account details, the only operation that tells a wrong key from an empty
 * answer (field notes: errors). The first proof binds the seller to the account; another account
 * under the same seller stops the run, since it would overwrite one account's copy with another's.
 * @throws {RunProblem} when the proof fails
 */
export async function proveCredential(run: RunContext): Promise<Proof> {
  const { deps, signal } = run;
  deps.onProgress?.({ phase: 'account' });
  const reply = await deps.marketplace.account({ signal });
  if (reply.kind !== 'answered') throw problemOf(reply);
  await checkBinding(run, reply.data.value.username);
  return reply.data;
}

async function checkBinding(run: RunContext, username: string): Promise<void> {
  const { store, sellerId, acceptAccount } = run.deps;
  const bound = await store.boundUsername(sellerId);
  if (bound !== null && bound.toLowerCase() === username.toLowerCase()) return;
  if (bound !== null && acceptAccount !== true) {
    throw new RunProblem(
      'account-changed',
      `the key of seller "${sellerId}" now opens the account "${username}"; its copy is of the account "${bound}"`,
      `give "${username}" a seller name of its own; if the account was only renamed, run \`seller-mirror sync account --seller ${sellerId} --accept-account\` once`,
      true,
    );
  }
  await store.bindUsername(sellerId, username);
}
