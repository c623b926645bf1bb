/**
 * What the plan (pure) requests of whoever calls the marketplace and records.
 *
 * The plan is written as generators that yield requests and are given the answers. So the same code runs over the real
 * client and over a simulated marketplace and clock. `runRequests` makes the requests.
 */

import type { Account, Item } from '../domain/item.js';
import type { FoundPurchase } from './known-code.js';
import type { Reply } from '../marketplace/reply.js';
import type { CodeResult, FoundProof } from './ledger.js';

/** One call to the marketplace. Each carries a random parameter, so that no cache can answer it. */
export type Call =
  | { readonly kind: 'account' }
  | {
      readonly kind: 'validate';
      /** The code as it is sent. */
      readonly form: string;
      /** Send it on a connection that was not used before: behind another one may be another machine. */
      readonly onNewConnection: boolean;
    }
  | { readonly kind: 'item'; readonly id: number };

/** The answer to a call. Times are milliseconds since 1970, by the clock of the database. */
export type Answer = { readonly sentAt: number; readonly at: number } & (
  | { readonly kind: 'account'; readonly reply: AccountReply }
  | { readonly kind: 'validate'; readonly reply: CodeReply }
  | { readonly kind: 'item'; readonly reply: ItemReply }
);

export type AccountReply = Reply<{ readonly value: Pick<Account, 'username'> }>;
/** Of a purchase, no more than the ledger stores. */
export type CodeReply = Reply<FoundPurchase>;
export type ItemReply = Reply<{ readonly value: Pick<Item, 'id'> }>;

/** One request of the plan. */
export type Request =
  /** Make this call, and give its answer. */
  | Call
  /**
   * Run all of these, several at a time (`Runner.concurrency`), and go on when all have ended. The next one is taken when a
   * place is free, so that what was answered meanwhile decides whether there is a next one.
   */
  | { readonly kind: 'together'; readonly all: Iterable<Requests<void>> }
  /** Record this. Resolves when more may come; the runner may gather results for some 200 ms. */
  | { readonly kind: 'record'; readonly results: readonly CodeResult[] }
  /** Note that these known-valid codes were found as proofs of the key: `found_at` of their rows. */
  | { readonly kind: 'proven'; readonly found: readonly FoundProof[] };

/** What is to be recorded. */
export type Recording = Extract<Request, { readonly kind: 'record' | 'proven' }>;

/** Calls of a look-up, retries included. */
export interface LookUpCalls {
  /** The look-ups of the day. */
  readonly auditId: bigint;
  readonly own: number;
  /** Of all look-ups of the day, with the second checks of denied codes, in all processes. */
  readonly total: number;
}

/** Requests, one after the other, that end with an `R`. Answers are given for calls only. */
export type Requests<R> = Generator<Request, R, Answer | undefined>;

/** Whoever makes requests. */
export interface Runner {
  /** Calls under way at a time, in `together`. */
  readonly concurrency: number;
  /** Makes a call. @throws only when the work must stop: the marketplace’s faults are replies */
  ask(call: Call): Promise<Answer>;
  record(request: Recording): Promise<void>;
}

/**
 * Makes requests to their end.
 * @throws errors of the runner, after all calls that were under way have ended
 */
export async function runRequests<R>(requests: Requests<R>, runner: Runner): Promise<R> {
  let step = requests.next();
  while (step.done !== true) {
    const request = step.value;
    switch (request.kind) {
      case 'together':
        await runTogether(request.all, runner);
        step = requests.next();
        break;
      case 'record':
      case 'proven':
        await runner.record(request);
        step = requests.next();
        break;
      default:
        step = requests.next(await runner.ask(request));
    }
  }
  return step.value;
}

async function runTogether(all: Iterable<Requests<void>>, runner: Runner): Promise<void> {
  const waiting = all[Symbol.iterator]();
  let hasFailed = false;
  const lane = async (): Promise<void> => {
    try {
      while (!hasFailed) {
        const next = waiting.next();
        if (next.done === true) return;
        await runRequests(next.value, runner);
      }
    } catch (error) {
      hasFailed = true;
      throw error;
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: runner.concurrency }, lane));
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

/** Asks for account details. */
export function* askAccount(): Requests<Answer & { readonly kind: 'account' }> {
  const answer = yield { kind: 'account' };
  if (answer?.kind !== 'account') throw new TypeError('this is no answer to `account`');
  return answer;
}

export type CodeAnswer = Answer & { readonly kind: 'validate' };

/** Asks about one form of a code. */
export function* askForm(form: string, onNewConnection = false): Requests<CodeAnswer> {
  const answer = yield { kind: 'validate', form, onNewConnection };
  if (answer?.kind !== 'validate') throw new TypeError('this is no answer to `validate`');
  return answer;
}

/** Asks for an item by its id. */
export function* askItem(id: number): Requests<Answer & { readonly kind: 'item' }> {
  const answer = yield { kind: 'item', id };
  if (answer?.kind !== 'item') throw new TypeError('this is no answer to `item`');
  return answer;
}
