import { sameHost } from '../domain/address.js';
import type { Account, Item } from '../domain/item.js';
import { prepareItem } from '../domain/prepare-item.js';
import type { Failure, Reply } from '../domain/reply.js';
import { ListBroken, type ItemList, type Marketplace, type Sourced } from '../marketplace/types.js';
import { RunProblem, problemOf } from './problem.js';
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
  if (!isBound) await deps.store.sellers.bind(deps.sellerId, { username, marketplace: host });
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

/** The beginning of a list. */
export interface ListBeginning {
  readonly records: number;
  /** There was no more than that. */
  readonly whole: boolean;
  /** Why records could not be read. */
  readonly unreadable: readonly string[];
  readonly firstId: number | null;
}

/** What a marketplace was seen to do; null for what was not asked. */
export interface Examination {
  readonly account: Reply<Sourced<Account>>;
  readonly list: ListBeginning | Failure | null;
  readonly item: Reply<Sourced<Item>> | null;
  /** Quirks met, by name, each once. */
  readonly tolerated: readonly string[];
}

/** So many records show what notations a server uses; the rest of the list is not read. */
const ENOUGH_RECORDS = 200;

/**
 * Asks a marketplace three questions at most: the account, the beginning of the list, and one item
 * of it. Stops at the first that shows the others to be no use. Changes nothing anywhere.
 */
export async function examine(marketplace: Marketplace, signal: AbortSignal): Promise<Examination> {
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

async function beginningOf(
  reply: Reply<ItemList>,
  tolerated: Set<string>,
  signal: AbortSignal,
): Promise<ListBeginning | Failure> {
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
