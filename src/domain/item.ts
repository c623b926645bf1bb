/** Money as decimal text with exactly two decimals, such as `19.90`; exact, never a float. */
export type Money = string;
/** ISO 8601 in UTC: `2024-01-02T03:04:05Z`, with a fraction only if it is not zero. */
export type Timestamp = string;
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** An item's state in the mirror. */
export const ITEM_STATES = ['live', 'missing', 'removed'] as const;
export type ItemState = (typeof ITEM_STATES)[number];

/** Types of fields, with their values in `Item` and in changes. */
export interface FieldTypes {
  readonly text: string | null;
  readonly texts: readonly string[];
  /** A `bigint` in the database. */
  readonly integer: number | null;
  readonly money: Money | null;
  readonly time: Timestamp | null;
}
export type FieldType = keyof FieldTypes;
export type FieldValue = FieldTypes[FieldType];

export const FIELD_CLASSES = ['price', 'release', 'text', 'media'] as const;

/** A field's column in `mirror.items`, its type, and the class of its changes. */
interface ItemField {
  readonly column: string;
  readonly type: FieldType;
  readonly class: (typeof FIELD_CLASSES)[number];
}

/**
 * The table of fields: every canonical field of an item (API 2.3, 2.4). Other fields are stored but never count as a
 * change. A new field raises `DECODER_VERSION`, so that the next run decodes every record again; follow "A field of
 * an item" in docs/architecture.md.
 */
const FIELDS = {
  name: { column: 'name', type: 'text', class: 'text' },
  description: { column: 'description', type: 'text', class: 'text' },
  category: { column: 'category', type: 'text', class: 'text' },
  subCategory: { column: 'sub_category', type: 'text', class: 'text' },
  /** If a server sends a map (servers: values), one `name: value` for each value. */
  options: { column: 'options', type: 'texts', class: 'text' },
  version: { column: 'version', type: 'text', class: 'release' },
  demoLink: { column: 'demo_link', type: 'text', class: 'text' },
  tags: { column: 'tags', type: 'texts', class: 'text' },
  thumbnailUrl: { column: 'thumbnail_url', type: 'text', class: 'media' },
  previewImageUrl: { column: 'preview_image_url', type: 'text', class: 'media' },
  previewVideoUrl: { column: 'preview_video_url', type: 'text', class: 'media' },
  previewAudioUrl: { column: 'preview_audio_url', type: 'text', class: 'media' },
  screenshots: { column: 'screenshots', type: 'texts', class: 'media' },
  priceRegular: { column: 'price_regular', type: 'money', class: 'price' },
  priceExtended: { column: 'price_extended', type: 'money', class: 'price' },
  currency: { column: 'currency', type: 'text', class: 'price' },
  publishedAt: { column: 'published_at', type: 'time', class: 'release' },
} as const satisfies Readonly<Record<string, ItemField>>;

type ItemKey = keyof typeof FIELDS;

/** An item in canonical form, independent of the notation it came in. */
export interface Item extends ItemFields {
  readonly id: number;
  readonly name: string;
}

type ItemFields = { readonly [K in ItemKey]: FieldTypes[(typeof FIELDS)[K]['type']] };

/** In the order in which an item's changes are listed. */
export const ITEM_FIELDS = Object.entries<ItemField>(FIELDS).map(([key, field]) => ({
  key: key as ItemKey,
  ...field,
}));

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

/** Each field of an account with its column in `mirror.accounts`. */
export const ACCOUNT_COLUMNS: Readonly<Record<keyof Account, string>> = {
  username: 'username',
  firstname: 'firstname',
  lastname: 'lastname',
  fullName: 'full_name',
  email: 'email',
  balance: 'balance',
  currency: 'currency',
  heading: 'heading',
  description: 'description',
  contactEmail: 'contact_email',
  socialLinks: 'social_links',
  avatarUrl: 'avatar_url',
  coverUrl: 'cover_url',
  registeredAt: 'registered_at',
};

export const ACCOUNT_KEYS = Object.keys(ACCOUNT_COLUMNS) as readonly (keyof Account)[];

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
  /** Null if the buyer has no support, or if `isSupportUnknown`. */
  readonly supportedUntil: Timestamp | null;
  /** True if the answer has an end of support that can't be read. */
  readonly isSupportUnknown?: true;
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
