import { sameHost } from '../domain/address.js';
import type { Account } from '../domain/item.js';
import type { Sourced } from '../marketplace/types.js';
import { problemOf, RunProblem } from './problem.js';
import type { RunContext } from './run.js';

/** Account details answered with success: the key is good, and whose it is. */
export type Proof = Sourced<Account>;

/**
 * Proves the credential by account details, the only operation that tells a wrong key from an empty
 * answer (field notes: errors). The first proof binds the seller to the account and its
 * marketplace; another one under the same seller stops the run, since it would overwrite one
 * account's copy with another's.
 * @throws {RunProblem} when the proof fails
 */
export async function proveCredential(run: RunContext): Promise<Proof> {
  const { deps, signal } = run;
  const reply = await deps.marketplace.account({ signal });
  if (reply.kind !== 'answered') throw problemOf(reply);
  await checkBinding(run, reply.data.value.username);
  return reply.data;
}

async function checkBinding(run: RunContext, username: string): Promise<void> {
  const { deps, binding } = run;
  const { host } = deps.marketplace;
  if (binding.username !== null && deps.acceptAccount !== true) {
    if (binding.username.toLowerCase() !== username.toLowerCase()) {
      throw changed(
        run,
        `the key of seller "${deps.sellerId}" now opens the account "${username}"; its copy is of the account "${binding.username}"`,
        'if the account was only renamed',
      );
    }
    if (!sameHost(binding.marketplace, host)) {
      throw changed(
        run,
        `the copy of seller "${deps.sellerId}" is of the marketplace ${binding.marketplace}, not of ${host}`,
        'if the marketplace has only moved',
      );
    }
  }
  const isBound = binding.username === username && binding.marketplace === host;
  if (!isBound) await deps.store.bindSeller(deps.sellerId, { username, marketplace: host });
}

function changed(run: RunContext, message: string, otherwise: string): RunProblem {
  const { sellerId } = run.deps;
  const command = `seller-mirror sync account --seller ${sellerId} --accept-account`;
  return new RunProblem(
    'account-changed',
    message,
    `give the other one a seller name of its own; ${otherwise}, run \`${command}\` once`,
    { permanent: true },
  );
}
