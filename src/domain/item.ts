/** Money as decimal text with exactly two decimals, such as `19.90`; exact, never a float. */
export type Money = string;
/** A moment as ISO 8601 in UTC, `2024-01-02T03:04:05Z`, with a fraction only when it is not zero. */
export type Timestamp = string;
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** An item in canonical form (spec 2.3, 2.4), whatever notation it came in. */
export interface Item {
  readonly id: number;
  readonly name: string;
  readonly description: string | null;
  readonly category: string | null;
  readonly subCategory: string | null;
  /** `name: value` for each value where a server sends a map instead of an array (field notes). */
  readonly options: readonly string[];
  readonly version: string | null;
  readonly demoLink: string | null;
  readonly tags: readonly string[];
  readonly thumbnailUrl: string | null;
  readonly previewImageUrl: string | null;
  readonly previewVideoUrl: string | null;
  readonly previewAudioUrl: string | null;
  readonly screenshots: readonly string[];
  readonly priceRegular: Money | null;
  readonly priceExtended: Money | null;
  readonly currency: string | null;
  readonly publishedAt: Timestamp | null;
}

/** The account that owns the key (spec 2.1, 2.2). */
export interface Account {
  readonly username: string;
  readonly firstname: string | null;
  readonly lastname: string | null;
  readonly fullName: string | null;
  readonly email: string | null;
  readonly balance: Money | null;
  readonly currency: string | null;
  readonly heading: string | null;
  readonly description: string | null;
  readonly contactEmail: string | null;
  /** Network name to link or handle; networks that are not set are left out. */
  readonly socialLinks: Readonly<Record<string, string>>;
  readonly avatarUrl: string | null;
  readonly coverUrl: string | null;
  readonly registeredAt: Timestamp | null;
}

/** The product of a purchase: full or reduced (spec 2.5). */
export interface PurchasedItem {
  /** Null when it can't be read, as with all other fields. */
  readonly id: number | null;
  readonly name: string | null;
  readonly url: string | null;
  readonly previewImageUrl: string | null;
  /** Present when the server sent the full item. */
  readonly full: Item | null;
}

/** A valid purchase (spec 2.5). */
export interface Purchase {
  /** As the server spells it; null when the answer does not repeat it. */
  readonly purchaseCode: string | null;
  /** As sent; may be a translated word (field notes). */
  readonly licenseType: string | null;
  readonly price: Money | null;
  readonly currency: string | null;
  /** Null when the server sent none or it can't be read; the purchase is valid all the same. */
  readonly item: PurchasedItem | null;
  readonly supportedUntil: Timestamp | null;
  readonly downloaded: boolean | null;
  readonly purchasedAt: Timestamp | null;
}

/** A record in canonical form, with its unknown fields and the quirks met when reading it. */
export interface Decoded<T> {
  readonly value: T;
  /** Unknown fields by dotted path; forks add and rename fields (field notes). */
  readonly extra: { readonly [path: string]: Json };
  /** Names of quirks met, such as `tags.comma-separated`; for the run's report. */
  readonly tolerated: readonly string[];
}

export type Decoding<T> =
  | { readonly ok: true; readonly decoded: Decoded<T> }
  | { readonly ok: false; readonly reason: string; readonly id: number | null };
