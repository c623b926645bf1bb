import type { Account, Decoding, Item, Json, Purchase, PurchasedItem } from './item.js';
import {
  FieldError,
  Tolerated,
  collectExtra,
  emptyExtra,
  isObject,
  readId,
  readMap,
  readMoney,
  readRequiredText,
  readText,
  readTexts,
  readTimestamp,
  shown,
  storableJson,
  storableText,
  type JsonObject,
} from './values.js';

const ITEM_FIELDS = new Set([
  'id',
  'name',
  'description',
  'category',
  'sub_category',
  'options',
  'version',
  'demo_link',
  'tags',
  'media',
  'price',
  'currency',
  'published_at',
]);
const MEDIA_FIELDS = new Set([
  'thumbnail',
  'preview_image',
  'preview_video',
  'preview_audio',
  'screenshots',
]);
const PRICE_FIELDS = new Set(['regular', 'extended']);

/**
 * Reads an item (spec 2.3, 2.4) in any of the notations of the field notes. Only `id` and `name`
 * are required: reduced shapes leave out the rest. A field that is present but can't be read makes
 * the record unreadable, since null would record a state that never was.
 */
export function decodeItem(json: Json): Decoding<Item> {
  if (!isObject(json)) return { ok: false, reason: `is not an object: ${shown(json)}`, id: null };
  const tolerated = new Tolerated();
  let id: number | null = null;
  try {
    id = readId(json['id'], 'id', tolerated);
    const value = readItem(id, json, tolerated);
    return {
      ok: true,
      decoded: { value, extra: itemExtra(json, tolerated), tolerated: tolerated.names },
    };
  } catch (error) {
    if (error instanceof FieldError) return { ok: false, reason: error.message, id };
    throw error;
  }
}

function readItem(id: number, json: JsonObject, tolerated: Tolerated): Item {
  const media = readMap(json['media'], 'media', tolerated);
  const price = readMap(json['price'], 'price', tolerated);
  return {
    id,
    name: readRequiredText(json['name'], 'name', tolerated),
    description: readText(json['description'], 'description', tolerated),
    category: readText(json['category'], 'category', tolerated),
    subCategory: readText(json['sub_category'], 'sub_category', tolerated),
    options: readOptions(json['options'], tolerated),
    version: readText(json['version'], 'version', tolerated),
    demoLink: readText(json['demo_link'], 'demo_link', tolerated),
    tags: readTags(json['tags'], tolerated),
    thumbnailUrl: readText(media['thumbnail'], 'media.thumbnail', tolerated),
    previewImageUrl: readText(media['preview_image'], 'media.preview_image', tolerated),
    previewVideoUrl: readText(media['preview_video'], 'media.preview_video', tolerated),
    previewAudioUrl: readText(media['preview_audio'], 'media.preview_audio', tolerated),
    screenshots: readTexts(media['screenshots'], 'screenshots', tolerated),
    priceRegular: readMoney(price['regular'], 'price.regular', tolerated),
    priceExtended: readMoney(price['extended'], 'price.extended', tolerated),
    currency: readText(json['currency'], 'currency', tolerated),
    publishedAt: readTimestamp(json['published_at'], 'published_at', tolerated),
  };
}

function itemExtra(json: JsonObject, tolerated: Tolerated): JsonObject {
  const extra = emptyExtra();
  collectExtra(json, ITEM_FIELDS, '', extra, tolerated);
  if (isObject(json['media']))
    collectExtra(json['media'], MEDIA_FIELDS, 'media.', extra, tolerated);
  if (isObject(json['price']))
    collectExtra(json['price'], PRICE_FIELDS, 'price.', extra, tolerated);
  return extra;
}

/** Tags: an array, or one comma-separated text (field notes: tags). */
function readTags(json: Json | undefined, tolerated: Tolerated): string[] {
  if (typeof json !== 'string') return readTexts(json, 'tags', tolerated);
  tolerated.note('tags.comma-separated');
  return readTexts(json.split(','), 'tags', tolerated)
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '');
}

/** Options: an array of texts, or a map name → text or texts (field notes: options). */
function readOptions(json: Json | undefined, tolerated: Tolerated): string[] {
  if (!isObject(json)) return readTexts(json, 'options', tolerated);
  tolerated.note('options.object');
  return Object.entries(json).flatMap(([name, values]) =>
    readTexts(typeof values === 'string' ? [values] : asList(values), 'options', tolerated).map(
      (value) =>
        /^\d+$/.test(name)
          ? value
          : readTexts([`${name}: ${value}`], 'options', tolerated).join(''),
    ),
  );
}

function asList(values: Json): Json {
  return typeof values === 'object' ? values : [values];
}

const ACCOUNT_FIELDS = new Set([
  'name',
  'username',
  'email',
  'balance',
  'currency',
  'profile',
  'registered_at',
]);
const NAME_FIELDS = new Set(['firstname', 'lastname', 'full_name']);
const PROFILE_FIELDS = new Set(['heading', 'description', 'contact', 'social_links', 'media']);
const CONTACT_FIELDS = new Set(['email']);
const ACCOUNT_MEDIA_FIELDS = new Set(['avatar', 'cover']);

/**
 * Reads the account (spec 2.1, 2.2). Only `username` is required and must be readable: it identifies
 * the account, and no other field may keep a run from proving its key. Any other field that can't be
 * read is null, noted, and kept as received in `extra`.
 */
export function decodeAccount(json: Json): Decoding<Account> {
  if (!isObject(json)) return { ok: false, reason: `is not an object: ${shown(json)}`, id: null };
  const reader = new OptionalFields();
  try {
    const parts = readParts(json, reader);
    const value = readAccount(json, parts, reader);
    const extra = { ...accountExtra(json, parts, reader.tolerated), ...reader.unreadable() };
    return { ok: true, decoded: { value, extra, tolerated: reader.tolerated.names } };
  } catch (error) {
    if (error instanceof FieldError) return { ok: false, reason: error.message, id: null };
    throw error;
  }
}

type FieldReader<T> = (json: Json | undefined, path: string, tolerated: Tolerated) => T;

/** Reads optional fields. One that can't be read is null and noted as tolerated. */
class OptionalFields {
  readonly tolerated = new Tolerated();
  readonly #unreadable: [string, Json][] = [];

  read<T>(json: Json | undefined, path: string, read: FieldReader<T>): T | null {
    try {
      return read(json, path, this.tolerated);
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      this.tolerated.note(`${path}.unreadable`);
      this.#unreadable.push([path, json ?? null]);
      return null;
    }
  }

  text(json: Json | undefined, path: string): string | null {
    return this.read(json, path, readText);
  }

  map(json: Json | undefined, path: string): JsonObject {
    return this.read(json, path, readMap) ?? {};
  }

  /** The fields that could not be read, as they came, by path. */
  unreadable(): JsonObject {
    const fields = emptyExtra();
    for (const [path, json] of this.#unreadable) fields[path] = storableJson(json, this.tolerated);
    return fields;
  }
}

interface Parts {
  readonly name: JsonObject;
  readonly profile: JsonObject;
  readonly contact: JsonObject;
  readonly media: JsonObject;
}

function readParts(json: JsonObject, reader: OptionalFields): Parts {
  const { name } = json;
  const profile = reader.map(json['profile'], 'profile');
  return {
    name: typeof name === 'string' ? { full_name: name } : reader.map(name, 'name'),
    profile,
    contact: reader.map(profile['contact'], 'profile.contact'),
    media: reader.map(profile['media'], 'profile.media'),
  };
}

function readAccount(json: JsonObject, parts: Parts, reader: OptionalFields): Account {
  const { name, profile, contact, media } = parts;
  const username = readRequiredText(json['username'], 'username', reader.tolerated);
  if (username.trim() === '') throw new FieldError('username', 'is empty');
  return {
    username,
    firstname: reader.text(name['firstname'], 'name.firstname'),
    lastname: reader.text(name['lastname'], 'name.lastname'),
    fullName: reader.text(name['full_name'], 'name.full_name'),
    email: reader.text(json['email'], 'email'),
    balance: reader.read(json['balance'], 'balance', readMoney),
    currency: reader.text(json['currency'], 'currency'),
    heading: reader.text(profile['heading'], 'profile.heading'),
    description: reader.text(profile['description'], 'profile.description'),
    contactEmail: reader.text(contact['email'], 'profile.contact.email'),
    socialLinks: readSocialLinks(profile['social_links'], reader),
    avatarUrl: reader.text(media['avatar'], 'profile.media.avatar'),
    coverUrl: reader.text(media['cover'], 'profile.media.cover'),
    registeredAt: reader.read(json['registered_at'], 'registered_at', readTimestamp),
  };
}

/** Network name to link or handle; unset networks are null and left out (field notes: social_links). */
function readSocialLinks(json: Json | undefined, reader: OptionalFields): Record<string, string> {
  const links = Object.create(null) as Record<string, string>;
  const map = reader.map(json, 'profile.social_links');
  // Sorted, so that another order of the networks is not a change.
  for (const network of Object.keys(map).sort()) {
    const link = reader.text(map[network], `profile.social_links.${network}`);
    if (link !== null) links[storableText(network, reader.tolerated)] = link;
  }
  return links;
}

function accountExtra(json: JsonObject, parts: Parts, tolerated: Tolerated): JsonObject {
  const extra = emptyExtra();
  collectExtra(json, ACCOUNT_FIELDS, '', extra, tolerated);
  collectExtra(parts.name, NAME_FIELDS, 'name.', extra, tolerated);
  collectExtra(parts.profile, PROFILE_FIELDS, 'profile.', extra, tolerated);
  collectExtra(parts.contact, CONTACT_FIELDS, 'profile.contact.', extra, tolerated);
  collectExtra(parts.media, ACCOUNT_MEDIA_FIELDS, 'profile.media.', extra, tolerated);
  return extra;
}

const PURCHASE_FIELDS = new Set([
  'purchase_code',
  'license_type',
  'price',
  'currency',
  'item',
  'supported_until',
  'downloaded',
  'date',
]);

/**
 * Reads a purchase (spec 2.5), its item full or reduced. A field that can't be read is null
 * and noted as tolerated: the code is valid all the same. Only the code itself must be readable, since
 * it says which question was answered.
 */
export function decodePurchase(json: Json): Decoding<Purchase> {
  if (!isObject(json)) return { ok: false, reason: `is not an object: ${shown(json)}`, id: null };
  const reader = new OptionalFields();
  const { tolerated } = reader;
  try {
    const value: Purchase = {
      purchaseCode: readText(json['purchase_code'], 'purchase_code', tolerated),
      licenseType: reader.text(json['license_type'], 'license_type'),
      price: reader.read(json['price'], 'price', readMoney),
      currency: reader.text(json['currency'], 'currency'),
      item: reader.read(json['item'], 'item', (item) => readPurchasedItem(item, reader)),
      supportedUntil: reader.read(json['supported_until'], 'supported_until', readTimestamp),
      downloaded: reader.read(json['downloaded'], 'downloaded', readFlag),
      purchasedAt: reader.read(json['date'], 'date', readTimestamp),
    };
    const extra = emptyExtra();
    collectExtra(json, PURCHASE_FIELDS, '', extra, tolerated);
    return { ok: true, decoded: { value, extra, tolerated: tolerated.names } };
  } catch (error) {
    if (error instanceof FieldError) return { ok: false, reason: error.message, id: null };
    throw error;
  }
}

/** Reads each field by itself: forks rename some (field notes: extra fields), and the others still count. */
function readPurchasedItem(json: Json | undefined, reader: OptionalFields): PurchasedItem {
  const map = readMap(json, 'item', reader.tolerated);
  if (Object.keys(map).length === 0) throw new FieldError('item', 'is empty');
  const media = reader.map(map['media'], 'item.media');
  const item = {
    id: reader.read(map['id'], 'item.id', readId),
    name: reader.read(map['name'], 'item.name', readName),
    url: reader.text(map['url'], 'item.url'),
  };
  if (isUnknown(item)) throw new FieldError('item', `has no id, name or url: ${shown(json)}`);
  return {
    ...item,
    previewImageUrl: reader.text(media['preview_image'], 'item.media.preview_image'),
    full: readFullItem(map),
  };
}

function readName(json: Json | undefined, path: string, tolerated: Tolerated): string {
  const name = readRequiredText(json, path, tolerated);
  if (name.trim() === '') throw new FieldError(path, 'is blank');
  return name;
}

/** True for an item without id, name and url: it must not make a code valid. PHP's empty number is 0. */
function isUnknown({ id, name, url }: Pick<PurchasedItem, 'id' | 'name' | 'url'>): boolean {
  return (id ?? 0) === 0 && name === null && (url ?? '').trim() === '';
}

/** The full item when the answer holds one: only the full shape has prices. */
function readFullItem(json: Json): PurchasedItem['full'] {
  if (!isObject(json) || !isObject(json['price'])) return null;
  const decoding = decodeItem(json);
  return decoding.ok ? decoding.decoded.value : null;
}

function readFlag(json: Json | undefined, path: string, tolerated: Tolerated): boolean | null {
  if (typeof json === 'boolean') return json;
  if (json === undefined || json === null) return null;
  tolerated.note(`${path}.not-boolean`);
  if (json === 1 || json === '1' || json === 'true') return true;
  if (json === 0 || json === '0' || json === 'false' || json === '') return false;
  throw new FieldError(path, `is neither true nor false: ${shown(json)}`);
}
