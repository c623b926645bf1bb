import type { WireObject } from './json.js';

export type Operation = 'account' | 'list' | 'item' | 'validate';

/** What the simulated marketplace knows of an item, free of any notation. */
export interface SimItem {
  readonly id: number;
  readonly name: string;
  /** HTML. */
  readonly description: string;
  readonly category: string;
  readonly subCategory: string;
  /** `Name: value`, values of one name side by side, so that the map notation says the same. */
  readonly options: readonly string[];
  readonly version: string | null;
  readonly demoLink: string | null;
  readonly tags: readonly string[];
  readonly thumbnail: string | null;
  readonly previewImage: string | null;
  readonly previewVideo: string | null;
  readonly previewAudio: string | null;
  readonly screenshots: readonly string[];
  /** In hundredths of the currency unit; may be negative or huge; null is sent as null. */
  readonly priceRegularCents: number | null;
  readonly priceExtendedCents: number | null;
  readonly currency: string;
  /** ISO 8601 in UTC to the second, `2024-01-02T03:04:05Z`. */
  readonly publishedAt: string;
  /** Fields of a fork, sent beside the others as they are. */
  readonly extra?: { readonly [name: string]: unknown };
}

/** Where an item stands: only `listed` ones are in the list; `unlisted` ones still answer a look-up. */
export type ItemState = 'listed' | 'unlisted' | 'pending' | 'removed';

export interface CatalogueRecord {
  readonly item: SimItem;
  readonly state: ItemState;
  /** Sent instead of the record, whether it is JSON or not. */
  readonly raw?: string;
  /** Wire fields that replace the rendered ones, such as `{ id: '7' }`. */
  readonly wire?: WireObject;
  /** Makes every reply that would contain the record a 500 (field notes). */
  readonly poisoned?: boolean;
  /** More copies of the record in the list, each with wire fields of its own. */
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
  /** Network name to link; null is the whole field being null. */
  readonly socialLinks: { readonly [network: string]: string | null } | null;
  readonly avatar: string;
  readonly cover: string;
  readonly registeredAt: string;
  /** Fields of a fork, sent beside the others as they are. */
  readonly extra?: { readonly [name: string]: unknown };
}

export type PurchaseState = 'valid' | 'refunded' | 'cancelled';

export interface SimPurchase {
  readonly code: string;
  readonly itemId: number;
  readonly license: 'Regular' | 'Extended';
  readonly priceCents: number;
  readonly currency: string;
  /** Null when support is disabled or the purchase is not supported (spec 2.5). */
  readonly supportedUntil: string | null;
  /** Null leaves the field out. */
  readonly downloaded: boolean | null;
  readonly date: string;
  readonly state: PurchaseState;
}

/** A request as the server saw it, without its key. Filled in while it is answered. */
export interface LogEntry {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Null when the path is none of the four. */
  readonly operation: Operation | null;
  readonly method: string;
  readonly path: string;
  hasKey: boolean;
  /** Whose key it is; null when it is unknown. */
  sellerName: string | null;
  parameters: Record<string, string>;
  /** 0 until an answer begins; stays 0 when the connection is reset before that. */
  status: number;
  bytesSent: number;
  finished: boolean;
}
