/** Money as decimal text with exactly two decimals, such as `19.90`; exact, never a float. */
export type Money = string;
/** ISO 8601 in UTC: `2024-01-02T03:04:05Z`, with a fraction only if it is not zero. */
export type Timestamp = string;
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** An item in canonical form (API 2.3, 2.4), independent of the notation it came in. */
export interface Item {
  readonly id: number;
  readonly name: string;
  readonly description: string | null;
  readonly category: string | null;
  readonly subCategory: string | null;
  /** If a server sends a map (servers: values), one `name: value` for each value. */
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

/** The account that owns the key (API 2.1, 2.2). */
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
  /** Network name to link or handle. Unset networks are left out. */
  readonly socialLinks: Readonly<Record<string, string>>;
  readonly avatarUrl: string | null;
  readonly coverUrl: string | null;
  readonly registeredAt: Timestamp | null;
}

/** The item of a purchase, full or reduced (API 2.5). Fields that can't be read are null. */
export interface PurchasedItem {
  readonly id: number | null;
  readonly name: string | null;
  readonly url: string | null;
  readonly previewImageUrl: string | null;
  /** Null if the server sent the reduced item. */
  readonly full: Item | null;
}

/** A valid purchase (API 2.5). */
export interface Purchase {
  /** In the server's spelling; null if the answer does not repeat it. */
  readonly purchaseCode: string | null;
  /** May be a translated word (servers: wording). */
  readonly licenseType: string | null;
  readonly price: Money | null;
  readonly currency: string | null;
  /** Null if it is missing or can't be read; the purchase is still valid. */
  readonly item: PurchasedItem | null;
  readonly supportedUntil: Timestamp | null;
  readonly downloaded: boolean | null;
  readonly purchasedAt: Timestamp | null;
}

/** A record in canonical form, with its unknown fields and quirks. */
export interface Decoded<T> {
  readonly value: T;
  /** Unknown fields by dotted path: forks add and rename fields (servers: shapes). */
  readonly extra: { readonly [path: string]: Json };
  /** Quirks of the notation, such as `tags.comma-separated`, for the run's report. */
  readonly tolerated: readonly string[];
}

export type Decoding<T> =
  | { readonly ok: true; readonly decoded: Decoded<T> }
  | { readonly ok: false; readonly reason: string; readonly id: number | null };
