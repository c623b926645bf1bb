import type { Budget, Priority } from '../domain/budget.js';
import type { Account, Decoded, Item, Json, Purchase } from '../domain/item.js';
import { describeFailure, type Failure } from '../domain/reply.js';
import type { Reply } from '../domain/reply.js';
import type { Secret } from '../domain/secret.js';
import type { Deadline, RetryPolicy } from './retry.js';

export type { Budget, Priority, RetryPolicy };

/** Where request parameters travel (spec 4 leaves it open; field notes: no header is read). */
export interface ParameterCarriage {
  /** `default`: query on GET, form body on POST. */
  readonly placement: 'default' | 'query' | 'json';
  /** Name of a request header that carries the key instead, for servers that want it there. */
  readonly keyHeader: string | null;
}

export interface MarketplaceOptions {
  /** Base address, with or without a trailing slash; paths begin with `/api` below it. */
  readonly baseUrl: URL | string;
  /** API key of the seller's workspace. As a `Secret` it can't be printed by accident. */
  readonly key: Secret | string;
  /** Default: in the query on GET, in a form body on POST, the key among the parameters. */
  readonly carriage?: ParameterCarriage;
  /** Default: 60 a minute, evenly spaced, for this client alone. */
  readonly budget?: Budget;
  /** Send the key over plain http to hosts other than loopback; default false. */
  readonly allowPlainHttp?: boolean;
  /** Largest single reply in bytes, decompressed; default 64 MiB. */
  readonly maxReplyBytes?: number;
  /** Largest list in bytes, decompressed; default 16 GiB. It is streamed, so this bounds time and disk, not memory. */
  readonly maxListBytes?: number;
  /** Largest single record of the list in bytes; default 64 MiB. */
  readonly maxRecordBytes?: number;
  /** Longest wait for the headers of an answer, milliseconds; default 60,000. */
  readonly headersTimeoutMs?: number;
  /** Longest silence within a body, milliseconds; default 60,000. */
  readonly bodyTimeoutMs?: number;
  /** Longest time a single reply may take in all, milliseconds; default 300,000. */
  readonly replyTimeoutMs?: number;
  /** Longest time a list may take in all, the reader's own time included, milliseconds; default 6 hours. */
  readonly listTimeoutMs?: number;
  /** Default: 4 attempts, with pauses from 500 ms to 2 minutes. */
  readonly retry?: RetryPolicy;
  /** Called for every attempt, for logs and counters; default: nothing. Never gets the key. */
  readonly onCall?: (call: CallRecord) => void;
}

export interface CallRecord {
  readonly operation: Operation;
  readonly attempt: number;
  readonly outcome: Reply<unknown>['kind'];
  readonly httpStatus: number | null;
  /** Redirects followed; each was a request of its own. */
  readonly redirects: number;
  /** Without the waits for the budget; for a list, until it began. */
  readonly durationMs: number;
  /** Waits for the budget, those of redirects included. */
  readonly waitedMs: number;
  /** Null when no answer came, or only a redirect that was not followed. */
  readonly server: ServerFacts | null;
}

/** The server's address, clock and limit, from the head of an answer. */
export interface ServerFacts {
  /** Origin of the answer after redirects, such as `https://www.market.example`. */
  readonly origin: string;
  /** The server's clock, milliseconds since 1970, to the second; null without a `Date` header. */
  readonly date: number | null;
  /** `X-RateLimit-Limit`; null when absent (field notes: limits). */
  readonly limit: number | null;
  /** `X-RateLimit-Remaining`; null when absent. */
  readonly remaining: number | null;
}

export type Operation = 'account' | 'list' | 'item' | 'validate';

export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly priority?: Priority;
  /** Bounds the wait for an answer, of several calls together; default none. */
  readonly deadline?: Deadline;
}

/** Decoded data with the answer that it was read from, the key masked in both. */
export interface Sourced<T> extends Decoded<T> {
  readonly raw: Json;
  /** The whole body as received; serialized again when the key may have been in it. */
  readonly text: string;
}

/** One record of the list, as received: not yet decoded. */
export interface ListElement {
  /** The record as JSON text in UTF-8, the key masked. Valid until the next batch is asked for. */
  readonly bytes: Uint8Array;
  /** Equal for records with equal bytes. Much quicker than `bytes`, which are searched for the key. */
  wireHash(): Uint8Array;
  /** The number under the record's own key `id`, found without decoding; null when it is not a safe integer. A hint only. */
  readonly idHint: number | null;
  /** Why the record must not be decoded (too large, nested too deeply); null for ordinary ones. */
  readonly unfit: string | null;
}

/** A list of items that is still arriving. */
export interface ItemList {
  /** Ends normally only when the whole envelope was read and was valid. @throws {ListBroken} */
  readonly batches: AsyncIterable<readonly ListElement[]>;
  /** Bytes received so far, decompressed. */
  bytes(): number;
  /** Quirks of the envelope met so far. */
  tolerated(): readonly string[];
}

/** The four operations (spec 4). No method throws because of the server; an abort throws the signal's reason. */
export interface Marketplace {
  /** Host without `www.`, and port if any: the name of the budget. */
  readonly host: string;
  account(options?: CallOptions): Promise<Reply<Sourced<Account>>>;
  items(options?: CallOptions): Promise<Reply<ItemList>>;
  item(id: number, options?: CallOptions): Promise<Reply<Sourced<Item>>>;
  validate(code: string, options?: CallOptions): Promise<Reply<Sourced<Purchase>>>;
  close(): Promise<void>;
}

/** A list that broke off or turned out invalid: nothing may be concluded from the part that came. */
export class ListBroken extends Error {
  override name = 'ListBroken';
  constructor(readonly failure: Failure) {
    super(`the list of items broke off: ${describeFailure(failure)}`);
  }
}

/** Invalid options of the marketplace client. The message never contains the key. */
export class MarketplaceOptionsError extends Error {
  override name = 'MarketplaceOptionsError';
}

/** The base address would send the key unencrypted to another machine. */
export class PlainHttpRefusedError extends MarketplaceOptionsError {
  override name = 'PlainHttpRefusedError';
  constructor(readonly host: string) {
    super(
      `${host} would get the API key over plain http: use https, or allow plain http explicitly`,
    );
  }
}
