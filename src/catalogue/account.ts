import { sameHost } from '../domain/address.js';
import type { Account } from '../domain/item.js';
import type { Sourced } from '../marketplace/types.js';
import { problemOf, RunProblem } from './problem.js';
import { noteTolerated, performRun, type RunContext } from './run.js';
import { type Binding, bindSeller, findTwin, saveAccount } from './sellers-store.js';
import type { RunDeps, RunReport } from './types.js';

export type AccountDetails = Sourced<Account>;

/**
 * Verifies the API key by requesting account details: only they tell a wrong key from an empty answer
 * (servers: errors). The first success binds the seller to the account. Another account later stops
 * the run, which would mix two accounts in one copy.
 * @throws {RunProblem} when the key does not open the seller's account
 */
export async function verifyAccount(run: RunContext): Promise<AccountDetails> {
  const { deps, signal } = run;
  const reply = await deps.marketplace.account({ signal });
  if (reply.kind !== 'answered') throw problemOf(reply);
  await checkBinding(run, reply.data.value.username);
  return reply.data;
}

async function checkBinding({ deps, binding }: RunContext, username: string): Promise<void> {
  const { sellerId } = deps;
  const opened = { username, marketplace: deps.marketplace.host };
  const mismatch = deps.acceptAccount === true ? null : accountMismatch(sellerId, binding, opened);
  if (mismatch !== null) {
    throw new RunProblem('account-changed', mismatch.message, mismatch.remedy);
  }
  const twin = await findTwin(deps.db, sellerId, opened);
  if (twin !== null) {
    const { message, remedy } = describeTwin(sellerId, twin, username);
    throw new RunProblem('account-twice', message, remedy);
  }
  const isBound = binding.username === username && binding.marketplace === opened.marketplace;
  if (!isBound) await bindSeller(deps.db, sellerId, opened);
}

/** Why a key must not be used for a seller: it opens another account than the copy is of. Null: it may. */
export function accountMismatch(
  sellerId: string,
  binding: Binding,
  { username, marketplace }: Binding & { readonly username: string },
): { readonly message: string; readonly remedy: string } | null {
  if (binding.username === null) return null;
  const isOther = !isSameName(binding.username, username);
  if (!isOther && sameHost(binding.marketplace, marketplace)) return null;
  const command = `seller-mirror sync account --seller ${sellerId} --accept-account`;
  const otherwise = isOther ? 'the account was only renamed' : 'the marketplace has only moved';
  return {
    message: isOther
      ? `the key of seller "${sellerId}" now opens the account "${username}"; its copy is of the account "${binding.username}"`
      : `the copy of seller "${sellerId}" is of the marketplace ${binding.marketplace}, not of ${marketplace}`,
    remedy: `give the other one a seller name of its own; if ${otherwise}, run \`${command}\` once`,
  };
}

/** Why a seller is not mirrored: an older one has the same account. */
export function describeTwin(sellerId: string, twin: string, username: string) {
  return {
    message: `the key of seller "${sellerId}" opens the account "${username}", which is mirrored as seller "${twin}" already`,
    remedy: `use one name: take "${sellerId}" out of the settings, or remove the other copy with \`seller-mirror sellers remove ${twin}\` or give it this name with \`seller-mirror sellers rename ${twin} ${sellerId}\``,
  };
}

/** Whether two names are of the same account: marketplaces ignore case. */
export function isSameName(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

/** Mirrors the account. Returns its details, so that the run of items that follows need not verify the key again. */
export async function syncAccount(
  deps: RunDeps,
  signal: AbortSignal,
): Promise<{ report: RunReport; account: AccountDetails | null }> {
  let account: AccountDetails | null = null;
  const report = await performRun(deps, 'account', signal, async (run) => {
    deps.onProgress?.({ phase: 'account' });
    account = await verifyAccount(run);
    await mirrorAccount(run, account);
    return 'succeeded';
  });
  return { report, account };
}

async function mirrorAccount(run: RunContext, account: AccountDetails): Promise<void> {
  noteTolerated(run, account.tolerated);
  const unreadable = account.tolerated.filter((name) => name.endsWith('.unreadable'));
  if (unreadable.length > 0) {
    const fields = unreadable.map((name) => name.slice(0, -'.unreadable'.length)).join(', ');
    run.warnings.push(`could not be read, and are kept unchanged in "extra": ${fields}`);
  }
  const change = await saveAccount(run.lock, run.stamp, account);
  run.counts.listed = 1;
  if (change === 'added') run.counts.added = 1;
  else if (change === 'changed') run.counts.changed = 1;
  else if (change === 'extra-changed') run.counts.extraChanged = 1;
  else run.counts.unchanged = 1;
}
