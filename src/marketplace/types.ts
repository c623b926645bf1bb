import type { Budget, Priority } from '../domain/budget.js';
import type { Account, Decoded, Json, Purchase, Item } from '../domain/item.js';
import type { Reply } from '../domain/reply.js';
import type { Secret } from '../domain/secret.js';
import type { Deadline } from './retry.js';

export type { Budget, Priority };

/** Where request parameters travel (spec 4 leaves it open; field notes: no header is read). */
export interface ParameterCarriage {
  /** `default`: query on GET, form body on POST. */
  readonly placement: 'default' | 'query' | 'json';
  /** Name of a request header that carries the key instead, for servers that want it there. */
  readonly keyHeader: string | null;
}

export interface MarketplaceOptions {
  /** Base address, with or without a trailing slash; paths begin with `/api` below it. */
  readonly baseUrl: URL;
  readonly key: Secret;
  readonly carriage?: ParameterCarriage;
  /** Default: 60 a minute, evenly spaced, for this client alone. */
  readonly budget?: Budget;
  /** Send the key over plain http to hosts other than loopback. */
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
  readonly retry?: RetryPolicy;
  /** Told of every attempt, for logs and counters. Never sees the key. */
  readonly onCall?: (call: CallRecord) => void;
}

/** How transient failures are repeated. All four operations are reads, so all may be. */
export interface RetryPolicy {
  /** Attempts in all, the first included; default 4. */
  readonly attempts: number;
  /** First pause, milliseconds; doubles each time, with full jitter; default 500. */
  readonly baseMs: number;
  /** Longest pause taken here, milliseconds; default 120,000. When the server asks for more, the reply is returned as it is. */
  readonly maxMs: number;
}

/** One attempt. */
export interface CallRecord {
  readonly operation: Operation;
  readonly attempt: number;
  readonly outcome: Reply<unknown>['kind'];
  readonly httpStatus: number | null;
  /** Redirects followed; each was a request of its own. */
  readonly redirects: number;
  /** Without the waits for the budget; of a list, up to where the list began. */
  readonly durationMs: number;
  /** How long the budget kept it waiting, its redirects included. */
  readonly waitedMs: number;
  /** Null when no answer came, or none that was followed to its end. */
  readonly server: ServerFacts | null;
}

/** What the head of an answer tells of the server itself. */
export interface ServerFacts {
  /** Where the answer came from, redirects followed, such as `https://www.market.example`. */
  readonly origin: string;
  /** The server's clock, milliseconds since 1970, to the second; null when it did not say. */
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

/** An answer beside the data that was read from it, the key masked in both. */
export interface Sourced<T> extends Decoded<T> {
  /** The record. */
  readonly raw: Json;
  /** The whole body as it came; written anew where the key may have been in it. */
  readonly text: string;
}

/** One record of the list, as received: not yet decoded. */
export interface ListElement {
  /** The record's bytes, JSON text in UTF-8, the key masked. Valid until the next batch is asked for. */
  readonly bytes: Uint8Array;
  /** Equal for equal records, as the server sent them. Much quicker than `bytes`, which are looked through for the key. */
  wireHash(): Uint8Array;
  /** The number under the record's own key `id`, found without decoding; null when there is none or it is no plain safe integer. A hint only. */
  readonly idHint: number | null;
  /** Why the record must not be decoded (too large, nested too deeply); null for ordinary ones. */
  readonly unfit: string | null;
}

/** The list while it arrives. */
export interface ItemList {
  /**
   * Batches in the server's order. Ends normally only when the whole envelope was read and was
   * sound; otherwise throws `ListBroken`.
   */
  readonly batches: AsyncIterable<readonly ListElement[]>;
  /** Bytes received so far, decompressed. */
  bytes(): number;
  /** Quirks of the envelope met so far. */
  tolerated(): readonly string[];
}

/** The four operations (spec 4). No method throws for anything the server did; an abort throws the signal's reason. */
export interface Marketplace {
  /** Host without `www.`, and port if any: the name of the budget. */
  readonly host: string;
  account(options?: CallOptions): Promise<Reply<Sourced<Account>>>;
  items(options?: CallOptions): Promise<Reply<ItemList>>;
  item(id: number, options?: CallOptions): Promise<Reply<Sourced<Item>>>;
  validate(code: string, options?: CallOptions): Promise<Reply<Sourced<Purchase>>>;
  close(): Promise<void>;
}
