import { sameHost } from '../domain/address.js';
import type { Account } from '../domain/item.js';
import { prepareItem } from '../domain/prepare-item.js';
import { describeFailure, type Reply } from '../domain/reply.js';
import { maskCode } from '../domain/secret.js';
import { ListBroken, type ItemList, type Marketplace, type Sourced } from '../marketplace/types.js';
import type { CodeMarketplace } from './codes/types.js';
import { isOutage, problemOf, failureRemedy, RunProblem } from './problem.js';
import { noteTolerated, performRun, type RunContext } from './run.js';
import type { JobDeps, RunReport } from './types.js';

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

async function checkBinding(run: RunContext, username: string): Promise<void> {
  const { deps, binding } = run;
  const { host } = deps.marketplace;
  if (binding.username !== null && deps.acceptAccount !== true) {
    const { sellerId } = deps;
    if (binding.username.toLowerCase() !== username.toLowerCase()) {
      const message = `the key of seller "${sellerId}" now opens the account "${username}"; its copy is of the account "${binding.username}"`;
      throw accountChanged(sellerId, message, 'if the account was only renamed');
    }
    if (!sameHost(binding.marketplace, host)) {
      const message = `the copy of seller "${sellerId}" is of the marketplace ${binding.marketplace}, not of ${host}`;
      throw accountChanged(sellerId, message, 'if the marketplace has only moved');
    }
  }
  const isBound = binding.username === username && binding.marketplace === host;
  if (!isBound) await deps.store.sellers.bind(deps.sellerId, { username, marketplace: host });
}

function accountChanged(sellerId: string, message: string, otherwise: string): RunProblem {
  const command = `seller-mirror sync account --seller ${sellerId} --accept-account`;
  const remedy = `give the other one a seller name of its own; ${otherwise}, run \`${command}\` once`;
  return new RunProblem('account-changed', message, remedy);
}

/** Mirrors the account. Returns its details, so that the run of items that follows need not verify the key again. */
export async function syncAccount(
  deps: JobDeps,
  signal: AbortSignal,
): Promise<{ report: RunReport; account: AccountDetails | null }> {
  let account: AccountDetails | null = null;
  const report = await performRun(deps, 'account', signal, async (run) => {
    deps.onProgress?.({ phase: 'account' });
    account = await verifyAccount(run);
    await saveAccount(run, account);
    return 'succeeded';
  });
  return { report, account };
}

async function saveAccount(run: RunContext, account: AccountDetails): Promise<void> {
  noteTolerated(run, account.tolerated);
  const unreadable = account.tolerated.filter((name) => name.endsWith('.unreadable'));
  if (unreadable.length > 0) {
    const fields = unreadable.map((name) => name.slice(0, -'.unreadable'.length)).join(', ');
    run.warnings.push(`could not be read, and are kept unchanged in "extra": ${fields}`);
  }
  const change = await run.deps.store.sellers.saveAccount(run.lock, run.stamp, account);
  run.counts.listed = 1;
  if (change === 'added') run.counts.added = 1;
  else if (change === 'changed') run.counts.changed = 1;
  else if (change === 'extra-changed') run.counts.extraChanged = 1;
  else run.counts.unchanged = 1;
}

/** How a marketplace answered; null: that question was not sent. */
export type Examination = Awaited<ReturnType<typeof examine>>;

/** Records to read: enough to show which notations the server uses. */
const ENOUGH_RECORDS = 200;

/**
 * Examines a marketplace with up to three requests: the account, the start of the list, and one of its
 * items. Stops at the first failure that makes the others pointless. Changes nothing.
 */
export async function examine(marketplace: Marketplace, signal: AbortSignal) {
  const tolerated = new Set<string>();
  const account = await marketplace.account({ signal });
  if (account.kind !== 'answered') return { account, list: null, item: null, tolerated: [] };
  account.data.tolerated.forEach((name) => tolerated.add(name));

  const list = await readListStart(await marketplace.items({ signal }), tolerated, signal);
  const firstId = 'firstId' in list ? list.firstId : null;
  const item = firstId === null ? null : await marketplace.item(firstId, { signal });
  if (item?.kind === 'answered') item.data.tolerated.forEach((name) => tolerated.add(name));
  return { account, list, item, tolerated: [...tolerated].sort() };
}

async function readListStart(reply: Reply<ItemList>, tolerated: Set<string>, signal: AbortSignal) {
  if (reply.kind !== 'answered') return reply;
  const unreadable: string[] = [];
  let firstId: number | null = null;
  let records = 0;
  let whole = true;
  try {
    for await (const batch of reply.data.batches) {
      signal.throwIfAborted();
      for (const { bytes, unfit } of batch) {
        records++;
        const preparation = unfit === null ? prepareItem(bytes) : null;
        if (preparation?.ok === true) {
          firstId ??= preparation.prepared.item.id;
          preparation.tolerated.forEach((name) => tolerated.add(name));
        } else {
          unreadable.push(preparation?.reason ?? unfit ?? '');
        }
      }
      whole = records < ENOUGH_RECORDS;
      if (!whole) break;
    }
  } catch (error) {
    if (error instanceof ListBroken) return error.failure;
    throw error;
  }
  reply.data.tolerated().forEach((name) => tolerated.add(name));
  return { records, whole, unreadable, firstId };
}

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
  marketplace: CodeMarketplace,
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
  return canary === undefined ? null : verifyCanary(marketplace, canary, signal);
}

/**
 * Validates the canary before an audit: with a denied one, no code could be proven invalid.
 * @returns the fault when a key that opens the account denies the canary; null in all other cases, which
 * the audit handles itself
 */
export async function verifyCanary(
  marketplace: CodeMarketplace,
  canary: string,
  signal: AbortSignal,
): Promise<KeyFault | null> {
  const call = { signal, priority: 'audit' } as const;
  if ((await marketplace.validate(canary, call)).kind !== 'denied') return null;
  if ((await marketplace.account(call)).kind !== 'answered') return null;
  return {
    message: `the marketplace denies the canary ${maskCode(canary)}: no code was checked`,
    remedy: 'is it mistyped, or was it refunded? leave it out, or give another code',
    isOutage: false,
  };
}
