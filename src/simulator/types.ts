import type { WireObject } from './answer.js';

export type Operation = 'account' | 'list' | 'item' | 'validate';

/** An item of the simulated marketplace, independent of how it is written in JSON. */
export interface SimItem {
  readonly id: number;
  readonly name: string;
  /** HTML. */
  readonly description: string;
  readonly category: string;
  readonly subCategory: string;
  /** `Name: value`. Values of one name are adjacent, so that the map notation keeps their order. */
  readonly options: readonly string[];
  readonly version: string | null;
  readonly demoLink: string | null;
  readonly tags: readonly string[];
  readonly thumbnail: string | null;
  readonly previewImage: string | null;
  readonly previewVideo: string | null;
  readonly previewAudio: string | null;
  readonly screenshots: readonly string[];
  /** Hundredths of the currency unit. May be negative or huge. Null is sent as null. */
  readonly priceRegularCents: number | null;
  readonly priceExtendedCents: number | null;
  readonly currency: string;
  /** ISO 8601 in UTC to the second, `2024-01-02T03:04:05Z`. */
  readonly publishedAt: string;
  /** Additional fields of a fork, sent unchanged. */
  readonly extra?: { readonly [name: string]: unknown };
}

/** `listed` items are in the list and found by look-ups, `unlisted` ones only by look-ups, others by neither. */
export type ItemState = 'listed' | 'unlisted' | 'pending' | 'removed';

export interface CatalogueRecord {
  readonly item: SimItem;
  readonly state: ItemState;
  /** Text sent instead of the record, valid JSON or not. */
  readonly raw?: string;
  /** Fields that replace the rendered ones, such as `{ id: '7' }`. */
  readonly wire?: WireObject;
  /** Further copies of the record in the list, each with its own replaced fields. */
  readonly copies?: readonly WireObject[];
}

export interface SimAccount {
  readonly username: string;
  readonly firstname: string;
  readonly lastname: string;
  readonly email: string;
  readonly balanceCents: number;
  readonly currency: string;
  readonly heading: string | null;
  readonly description: string | null;
  readonly contactEmail: string | null;
  /** Links by network name. Null makes the whole field null. */
  readonly socialLinks: { readonly [network: string]: string | null } | null;
  readonly avatar: string;
  readonly cover: string;
  readonly registeredAt: string;
  /** Additional fields of a fork, sent unchanged. */
  readonly extra?: { readonly [name: string]: unknown };
}

export type PurchaseState = 'valid' | 'refunded' | 'cancelled';

export interface SimPurchase {
  readonly code: string;
  readonly itemId: number;
  readonly license: 'Regular' | 'Extended';
  readonly priceCents: number;
  readonly currency: string;
  /** Null if support is disabled or the purchase is not supported (API 2.5). */
  readonly supportedUntil: string | null;
  /** Null omits the field. */
  readonly downloaded: boolean | null;
  readonly date: string;
  readonly state: PurchaseState;
}

/** A request as the server received it, without its key. Completed while the request is answered. */
export interface LogEntry {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Null if the path is none of the four. */
  readonly operation: Operation | null;
  readonly method: string;
  readonly path: string;
  hasKey: boolean;
  /** The owner of the key; null if it is unknown. */
  sellerName: string | null;
  parameters: Record<string, string>;
  /** The random parameter that keeps caches from answering; null without it. */
  random: string | null;
  /** 0 until the response begins; stays 0 if the connection is reset before that. */
  status: number;
  bytesSent: number;
  finished: boolean;
}
