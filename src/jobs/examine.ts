import type { Account, Item } from '../domain/item.js';
import { prepareItem } from '../domain/prepare-item.js';
import type { Failure, Reply } from '../domain/reply.js';
import { ListBroken } from '../marketplace/types.js';
import type { ItemList, Marketplace, Sourced } from '../marketplace/types.js';

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
