import type { Budget, Priority, RandomParameter } from '../domain/budget.js';
import type { Account, Decoded, Item, Json, Purchase } from '../domain/item.js';
import type { Reply, RetryPolicy } from './reply.js';
import type { Secret } from '../domain/secret.js';

export type { Budget, Priority, RandomParameter, RetryPolicy };

/** Where requests carry their parameters. The contract leaves it open (API 4; servers: requests). */
export interface ParameterCarriage {
  /** `default`: query string on GET, form body on POST. */
  readonly placement: 'default' | 'query' | 'json';
  /** Request header that carries the key instead of a parameter; null for none. */
  readonly keyHeader: string | null;
}

export interface MarketplaceOptions {
  /** Base address, with or without a trailing slash. `/api/…` is appended to it. */
  readonly baseUrl: URL | string;
  /** API key of the seller's workspace. As a `Secret` it can't be printed by accident. */
  readonly key: Secret | string;
  /** Default: `{ placement: 'default', keyHeader: null }`. */
  readonly carriage?: ParameterCarriage;
  /** Default: 60 requests a minute, evenly spaced, for this client alone. */
  readonly budget?: Budget;
  /**
   * Whether requests carry a random parameter in their query string, so that no cache can answer them.
   * Default: they do, unless the host answers only without it.
   */
  readonly randomParameter?: RandomParameter;
  /** Send the key over plain http to hosts other than loopback; default false. */
  readonly allowPlainHttp?: boolean;
  /** Largest list in bytes, decompressed; default 512 MiB. A list is read whole into memory. */
  readonly maxListBytes?: number;
  /**
   * `ignore`: take a list for whole even if it says that it is one page of several, such as by `last_page: 5`.
   * Default `check`.
   */
  readonly listMarks?: 'check' | 'ignore';
  /** Longest wait from a request to its response headers, milliseconds; default 60,000. All timeouts: at most 24 days. */
  readonly headersTimeoutMs?: number;
  /** Longest gap between two chunks of a body, milliseconds; default 60,000. */
  readonly bodyTimeoutMs?: number;
  /** Longest time for a whole reply, milliseconds; default 300,000. */
  readonly replyTimeoutMs?: number;
  /** Longest time for a list, its further attempts included, milliseconds; default 15 minutes. */
  readonly listTimeoutMs?: number;
  /** Default: 4 attempts, with pauses from 500 ms to 2 minutes. */
  readonly retry?: RetryPolicy;
  /** Called after every attempt, for logs and counters. Never receives the key. */
  readonly onCall?: (call: CallRecord) => void;
}

export interface CallRecord {
  readonly operation: Operation;
  readonly attempt: number;
  readonly outcome: Reply<unknown>['kind'];
  readonly httpStatus: number | null;
  /** Further requests: redirects followed, and a large list that was asked for again. */
  readonly redirects: number;
  /** Excludes waits. */
  readonly durationMs: number;
  /** Time spent waiting for the budget, also before further requests, and for the process's large place. */
  readonly waitedMs: number;
  /** Null when there was no response, or only a redirect that was not followed. */
  readonly server: ServerFacts | null;
}

/** The server's address, clock and rate limit, from the headers of a response. */
export interface ServerFacts {
  /** Origin after redirects, such as `https://www.market.example`. */
  readonly origin: string;
  /** The `Date` header in milliseconds since 1970; null when absent. */
  readonly date: number | null;
  /** `X-RateLimit-Limit`; null when absent (servers: limits). */
  readonly limit: number | null;
  /** `X-RateLimit-Remaining`; null when absent. */
  readonly remaining: number | null;
}

export type Operation = 'account' | 'list' | 'item' | 'validate';

export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly priority?: Priority;
  /** Send a validation on a connection of its own: behind another one may be another machine. */
  readonly onNewConnection?: boolean;
  /**
   * Called for each attempt when it is sent, after its wait for the budget. The returned function is called
   * with the reply; null: the attempt was aborted.
   */
  readonly onRequest?: () => (reply: Reply<unknown> | null) => void;
  /** Called while a list arrives. @param bytes received so far, decompressed */
  readonly onBytes?: (bytes: number) => void;
}

/** Decoded data together with the response it came from. The key is masked in both. */
export interface Sourced<T> extends Decoded<T> {
  /** The record as received, with the key masked. At most 1 MiB, an item 4 MiB: don't keep many in memory. */
  readonly raw: Json;
  /** SHA-256 of the whole body as received, decompressed, in hexadecimal digits. */
  readonly sha256: string;
}

/** One undecoded record of the list. */
export interface ListElement {
  /** The record as JSON text in UTF-8, with the key masked. Valid until the list is released. */
  readonly bytes: Uint8Array;
  /** Hash of the record as received, bytes as characters. Much faster than `bytes`, which must be searched for the key. */
  wireHash(): string;
  /** The record's top-level `id`, found without decoding; null unless it is a safe integer. Only a hint. */
  readonly idHint: number | null;
  /** Why the record must not be decoded (too large, nested too deeply); null if it may be. */
  readonly unfit: string | null;
}

/** A list of items. It is whole, and its envelope is valid. */
export interface ItemList {
  readonly records: Iterable<ListElement>;
  /** Number of records. */
  readonly count: number;
  /** Size of the answer, decompressed. */
  readonly bytes: number;
  /** Differences from the contract that were tolerated, such as `envelope.bom`. */
  readonly tolerated: readonly string[];
  /**
   * Call this when no record is needed any more. A list beyond 32 MiB has the process's one large place until then, and
   * other large lists wait for it.
   */
  release(): void;
}

/** The four operations (API 4). Server failures are returned, never thrown; an abort throws the signal's reason. */
export interface Marketplace {
  /** Host without `www.`, with the port if any. Clients of one host share a budget. */
  readonly host: string;
  account(options?: CallOptions): Promise<Reply<Sourced<Account>>>;
  items(options?: CallOptions): Promise<Reply<ItemList>>;
  item(id: number, options?: CallOptions): Promise<Reply<Sourced<Item>>>;
  validate(code: string, options?: CallOptions): Promise<Reply<Sourced<Purchase>>>;
  close(): Promise<void>;
}

/** Invalid options of the marketplace client. The message never contains the key. */
export class MarketplaceOptionsError extends Error {
  override name = 'MarketplaceOptionsError';
}

/** The base address would send the key unencrypted over the network. */
export class PlainHttpRefusedError extends MarketplaceOptionsError {
  override name = 'PlainHttpRefusedError';
  constructor(readonly host: string) {
    super(`${host} would get the API key over plain http: use https, or set allowPlainHttp`);
  }
}
