import { sameHost } from '../domain/address.js';
import type { Account } from '../domain/item.js';
import { prepareItem } from '../domain/prepare-item.js';
import { describeFailure, type Reply } from '../domain/reply.js';
import { maskCode } from '../domain/secret.js';
import { ListBroken, type ItemList, type Marketplace, type Sourced } from '../marketplace/types.js';
import { isOutage, problemOf, failureRemedy, RunProblem } from './problem.js';
import { noteTolerated, performRun, type RunContext } from './run.js';
import type { JobDeps, RunReport } from './types.js';

/** Account details answered with success: the key is good, and whose it is. */
export type Proof = Sourced<Account>;

/**
 * Account details alone tell a wrong key from an empty answer (field notes: errors). The first proof binds
 * the seller to the account; another account stops the run, which would overwrite one copy with another's.
 * @throws {RunProblem} when the proof fails
 */
export async function verifyAccount(run: RunContext): Promise<Proof> {
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
      throw changed(sellerId, message, 'if the account was only renamed');
    }
    if (!sameHost(binding.marketplace, host)) {
      const message = `the copy of seller "${sellerId}" is of the marketplace ${binding.marketplace}, not of ${host}`;
      throw changed(sellerId, message, 'if the marketplace has only moved');
    }
  }
  const isBound = binding.username === username && binding.marketplace === host;
  if (!isBound) await deps.store.sellers.bind(deps.sellerId, { username, marketplace: host });
}

function changed(sellerId: string, message: string, otherwise: string): RunProblem {
  const command = `seller-mirror sync account --seller ${sellerId} --accept-account`;
  const remedy = `give the other one a seller name of its own; ${otherwise}, run \`${command}\` once`;
  return new RunProblem('account-changed', message, remedy);
}

/** Mirrors the account. The proof that comes with a success serves the catalogue run that follows. */
export async function syncAccount(
  deps: JobDeps,
  signal: AbortSignal,
): Promise<{ report: RunReport; proof: Proof | null }> {
  let proof: Proof | null = null;
  const report = await performRun(deps, 'account', signal, async (run) => {
    deps.onProgress?.({ phase: 'account' });
    proof = await verifyAccount(run);
    await saveAccount(run, proof);
    return 'succeeded';
  });
  return { report, proof };
}

async function saveAccount(run: RunContext, proof: Proof): Promise<void> {
  noteTolerated(run, proof.tolerated);
  const unreadable = proof.tolerated.filter((name) => name.endsWith('.unreadable'));
  if (unreadable.length > 0) {
    const fields = unreadable.map((name) => name.slice(0, -'.unreadable'.length)).join(', ');
    run.warnings.push(`could not be read, and are kept as they came in "extra": ${fields}`);
  }
  const change = await run.deps.store.sellers.saveAccount(run.lock, run.stamp, proof);
  run.counts.listed = 1;
  if (change === 'added') run.counts.added = 1;
  else if (change === 'changed') run.counts.changed = 1;
  else if (change === 'extra-changed') run.counts.extraChanged = 1;
  else run.counts.unchanged = 1;
}

/** What a marketplace was seen to do; null for what was not asked. */
export type Examination = Awaited<ReturnType<typeof examine>>;

/** So many records show what notations a server uses; the rest of the list is not read. */
const ENOUGH_RECORDS = 200;

/**
 * Asks a marketplace three questions at most: the account, the beginning of the list, and one item
 * of it. Stops at the first that shows the others to be no use. Changes nothing anywhere.
 */
export async function examine(marketplace: Marketplace, signal: AbortSignal) {
  const tolerated = new Set<string>();
  const account = await marketplace.account({ signal });
  if (account.kind !== 'answered') return { account, list: null, item: null, tolerated: [] };
  account.data.tolerated.forEach((name) => tolerated.add(name));

  const list = await beginningOf(await marketplace.items({ signal }), tolerated, signal);
  const firstId = 'firstId' in list ? list.firstId : null;
  const item = firstId === null ? null : await marketplace.item(firstId, { signal });
  if (item?.kind === 'answered') item.data.tolerated.forEach((name) => tolerated.add(name));
  return { account, list, item, tolerated: [...tolerated].sort() };
}

async function beginningOf(reply: Reply<ItemList>, tolerated: Set<string>, signal: AbortSignal) {
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
export async function verifyKey(
  marketplace: ProvingMarketplace,
  canary: string | undefined,
  signal: AbortSignal,
): Promise<KeyFault | null> {
  const reply = await marketplace.account({ signal, priority: 'audit' });
  // Too many requests says nothing about the key; the audit waits as long as it must.
  if (reply.kind === 'limited') return null;
  if (reply.kind !== 'answered') {
    const message = `${describeFailure(reply)}; no code was asked for`;
    return { message, remedy: failureRemedy(reply), isOutage: isOutage(reply) };
  }
  return canary === undefined ? null : verifyCanary(marketplace, canary, signal);
}

/**
 * Asks once for the canary: with a denied one, no code could ever be proven invalid. Without an answer,
 * the audit asks again and reports a key that opens no account: such a key denies every code.
 * @returns what is wrong when it is denied to a key that opens the account; else null
 */
export async function verifyCanary(
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
