/**
 * The marketplace and the ledger, as the plan sees them. The plan is pure: it asks whoever implements this, the real client
 * (`market-runner.ts`) or a simulated marketplace with its own clock.
 */

import type { Account, Item } from '../domain/item.js';
import type { Reply } from '../marketplace/reply.js';
import type { FoundPurchase } from './known-code.js';
import type { CodeResult, FoundProof } from './ledger.js';

/** The answer to a call. Times are milliseconds since 1970, by the clock of the database. */
export interface Answer<R = Reply<unknown>> {
  readonly sentAt: number;
  readonly at: number;
  readonly reply: R;
}

export type AccountAnswer = Answer<Reply<{ readonly value: Pick<Account, 'username'> }>>;
/** Of a purchase, no more than the ledger stores. */
export type CodeReply = Reply<FoundPurchase>;
export type CodeAnswer = Answer<CodeReply>;
export type ItemAnswer = Answer<Reply<{ readonly value: Pick<Item, 'id'> }>>;

/**
 * Makes calls and records. Each call carries a random parameter, so that no cache can answer it. A call throws only when the
 * work must stop: the marketplace’s faults are replies.
 */
export interface Market {
  /** Calls under way at a time. */
  readonly concurrency: number;
  account(): Promise<AccountAnswer>;
  /**
   * Asks about one form of a code, as it is sent.
   * @param onNewConnection on one that was not used before: behind another one may be another machine
   */
  code(form: string, onNewConnection?: boolean): Promise<CodeAnswer>;
  item(id: number): Promise<ItemAnswer>;
  /** Resolves when more may come; results may be gathered for some 200 ms. */
  record(results: readonly CodeResult[]): Promise<void>;
  /** Notes that known-valid codes were found as proofs of the key. */
  proven(found: readonly FoundProof[]): Promise<void>;
}

/**
 * Works on what `begin` begins, several at a time, until it begins nothing more. It is called when a place is free, so that
 * what was answered meanwhile decides.
 * @throws the first error, after all that was under way has ended
 */
export async function together(
  concurrency: number,
  begin: () => Promise<void> | null,
): Promise<void> {
  let hasFailed = false;
  const lane = async (): Promise<void> => {
    try {
      while (!hasFailed) {
        const work = begin();
        if (work === null) return;
        await work;
      }
    } catch (error) {
      hasFailed = true;
      throw error;
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: concurrency }, lane));
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

/** Calls of a look-up, retries included. */
export interface LookUpCalls {
  /** The look-ups of the day. */
  readonly auditId: bigint;
  readonly own: number;
  /** Of all look-ups of the day, with the second checks of denied codes, in all processes. */
  readonly total: number;
}
