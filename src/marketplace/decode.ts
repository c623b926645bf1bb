import {
  type Account,
  type Decoding,
  type Item,
  type Json,
  type Purchase,
  type PurchasedItem,
  ITEM_FIELDS,
} from '../domain/item.js';
import {
  FieldError,
  isObject,
  readId,
  readMap,
  readMoney,
  readRequiredText,
  readText,
  readTexts,
  readTimestamp,
  shownJson,
  storableJson,
  storableText,
  type FieldReader,
  type JsonObject,
  Tolerated,
} from '../domain/values.js';
import { hash } from 'node:crypto';

/** Reads the fields of an object by name. Fields that are never read count as unknown. */
class Fields {
  /** An array: with so few names it is faster than a set. */
  readonly #known: string[] = [];
  readonly #parts: Fields[] = [];

  /** @param unreadable collects unreadable fields by path; null makes the whole record unreadable */
  constructor(
    readonly json: JsonObject,
    readonly tolerated: Tolerated,
    readonly unreadable: Map<string, Json> | null,
    readonly prefix = '',
  ) {}

  /** @throws {FieldError} if it can't be read, even with `unreadable` */
  require<T>(name: string, read: FieldReader<T>): T {
    this.#known.push(name);
    return read(this.json[name], this.prefix + name, this.tolerated);
  }

  /** Null for a field that can't be read; it is noted in `tolerated` and kept in `unreadable`. */
  read<T>(name: string, read: FieldReader<T>): T | null {
    try {
      return this.require(name, read);
    } catch (error) {
      if (!(error instanceof FieldError) || this.unreadable === null) throw error;
      const path = storableText(this.prefix + name, this.tolerated);
      this.tolerated.add(`${path}.unreadable`);
      this.unreadable.set(path, storableJson(this.json[name] ?? null, this.tolerated));
      return null;
    }
  }

  text(name: string): string | null {
    return this.read(name, readText);
  }

  /** The fields of a nested object. Its unknown fields count too. */
  part(name: string, read: FieldReader<JsonObject> = readMap): Fields {
    const json = this.read(name, read) ?? {};
    const part = new Fields(json, this.tolerated, this.unreadable, `${this.prefix}${name}.`);
    this.#parts.push(part);
    return part;
  }

  collectUnknown(extra: JsonObject): void {
    for (const name of Object.keys(this.json)) {
      if (this.#known.includes(name)) continue;
      const path = storableText(this.prefix + name, this.tolerated);
      extra[path] = storableJson(this.json[name] as Json, this.tolerated);
    }
    for (const part of this.#parts) part.collectUnknown(extra);
  }
}

function decode<T>(
  json: Json,
  unreadable: Map<string, Json> | null,
  read: (fields: Fields) => T,
  mayBeUnstorable = true,
): Decoding<T> {
  if (!isObject(json))
    return { ok: false, reason: `is not an object: ${shownJson(json)}`, id: null };
  const tolerated = new Tolerated();
  tolerated.mayBeUnstorable = mayBeUnstorable;
  const fields = new Fields(json, tolerated, unreadable);
  try {
    const value = read(fields);
    // Without a prototype, `__proto__` is a field like any other.
    const extra = Object.create(null) as JsonObject;
    fields.collectUnknown(extra);
    return { ok: true, decoded: { value, extra, tolerated: [...tolerated] } };
  } catch (error) {
    if (error instanceof FieldError) return { ok: false, reason: error.message, id: null };
    throw error;
  }
}

/**
 * Reads an item (API 2.3, 2.4) in any notation (servers: values). Only `id` and `name` are required,
 * because reduced shapes leave out the rest. One unreadable field makes the whole record unreadable: null
 * would record a state that never existed.
 * @param mayBeUnstorable false if the record's JSON text has no escape like `\u0000`
 */
export function decodeItem(json: Json, mayBeUnstorable = true): Decoding<Item> {
  let id: number | null = null;
  const read = (fields: Fields): Item => {
    id = fields.require('id', readId);
    const media = fields.part('media');
    const price = fields.part('price');
    return {
      id,
      name: fields.require('name', readRequiredText),
      description: fields.text('description'),
      category: fields.text('category'),
      subCategory: fields.text('sub_category'),
      options: fields.require('options', readOptions),
      version: fields.text('version'),
      demoLink: fields.text('demo_link'),
      tags: fields.require('tags', readTags),
      thumbnailUrl: media.text('thumbnail'),
      previewImageUrl: media.text('preview_image'),
      previewVideoUrl: media.text('preview_video'),
      previewAudioUrl: media.text('preview_audio'),
      screenshots: media.require('screenshots', readScreenshots),
      priceRegular: price.read('regular', readMoney),
      priceExtended: price.read('extended', readMoney),
      currency: fields.text('currency'),
      publishedAt: fields.read('published_at', readTimestamp),
    };
  };
  const decoding = decode(json, null, read, mayBeUnstorable);
  return decoding.ok ? decoding : { ...decoding, id };
}

/** Names its quirks `screenshots.…`, without `media.`. */
const readScreenshots: FieldReader<string[]> = (json, _path, tolerated) => {
  return readTexts(json, 'screenshots', tolerated);
};

/** An array, or one comma-separated text (servers: values). */
const readTags: FieldReader<string[]> = (json, path, tolerated) => {
  if (typeof json !== 'string') return readTexts(json, path, tolerated);
  tolerated.add('tags.comma-separated');
  return readTexts(json.split(','), path, tolerated)
    .map((tag) => tag.trim())
    .filter((tag) => tag !== '');
};

/** An array of texts, or a map from name to text or texts (servers: values). */
const readOptions: FieldReader<string[]> = (json, path, tolerated) => {
  if (!isObject(json)) return readTexts(json, path, tolerated);
  tolerated.add('options.object');
  return Object.entries(json).flatMap(([name, values]) => {
    const list = typeof values === 'object' ? values : [values];
    const texts = readTexts(list, path, tolerated);
    if (/^\d+$/.test(name)) return texts;
    return texts.map((value) => storableText(`${name}: ${value}`, tolerated));
  });
};

/**
 * Reads the account (API 2.1, 2.2). Only `username` is required: it identifies the account, and no other
 * field may keep a run from proving its key. Another field that can't be read is null; `extra` keeps it as
 * received.
 */
export function decodeAccount(json: Json): Decoding<Account> {
  const unreadable = new Map<string, Json>();
  const decoding = decode(json, unreadable, (fields): Account => {
    const name = fields.part('name', readName);
    const profile = fields.part('profile');
    const contact = profile.part('contact');
    const media = profile.part('media');
    const username = fields.require('username', readRequiredText);
    if (username.trim() === '') throw new FieldError('username', 'is empty');
    return {
      username,
      firstname: name.text('firstname'),
      lastname: name.text('lastname'),
      fullName: name.text('full_name'),
      email: fields.text('email'),
      balance: fields.read('balance', readMoney),
      currency: fields.text('currency'),
      heading: profile.text('heading'),
      description: profile.text('description'),
      contactEmail: contact.text('email'),
      socialLinks: readSocialLinks(profile.part('social_links')),
      avatarUrl: media.text('avatar'),
      coverUrl: media.text('cover'),
      registeredAt: fields.read('registered_at', readTimestamp),
    };
  });
  if (!decoding.ok) return decoding;
  const { value, extra, tolerated } = decoding.decoded;
  const kept = { ...extra, ...Object.fromEntries(unreadable) };
  return { ok: true, decoded: { value, extra: kept, tolerated } };
}

/** The name may be a plain text. */
const readName: FieldReader<JsonObject> = (json, path, tolerated) => {
  return typeof json === 'string' ? { full_name: json } : readMap(json, path, tolerated);
};

/** Network name to link or handle. Unset networks are null, and left out (servers: values). */
function readSocialLinks(networks: Fields): Record<string, string> {
  const links = Object.create(null) as Record<string, string>;
  // Sorted, so that a new order is not a change.
  for (const network of Object.keys(networks.json).sort()) {
    const link = networks.text(network);
    if (link !== null) links[storableText(network, networks.tolerated)] = link;
  }
  return links;
}

/**
 * Reads a purchase (API 2.5), with a full or reduced item. A field that can't be read is null and noted as
 * tolerated, because the code is valid anyway. Only the code itself must be readable: it tells which request
 * this answers.
 */
export function decodePurchase(json: Json): Decoding<Purchase> {
  return decode(json, new Map(), (fields) => ({
    purchaseCode: fields.require('purchase_code', readText),
    licenseType: fields.text('license_type'),
    price: fields.read('price', readMoney),
    currency: fields.text('currency'),
    item: fields.read('item', readPurchasedItem),
    supportedUntil: fields.read('supported_until', readTimestamp),
    ...(fields.unreadable?.has('supported_until') === true ? { isSupportUnknown: true } : {}),
    downloaded: fields.read('downloaded', readFlag),
    purchasedAt: fields.read('date', readTimestamp),
  }));
}

/** Reads each field on its own: forks rename some (servers: shapes). */
const readPurchasedItem: FieldReader<PurchasedItem> = (json, path, tolerated) => {
  const map = readMap(json, path, tolerated);
  if (Object.keys(map).length === 0) throw new FieldError(path, 'is empty');
  const fields = new Fields(map, tolerated, new Map(), `${path}.`);
  const media = fields.part('media');
  const id = fields.read('id', readId);
  const name = fields.read('name', readItemName);
  const url = fields.text('url');
  // An item without identity must not make a code valid. PHP's empty number is 0.
  if ((id ?? 0) === 0 && name === null && (url ?? '').trim() === '') {
    throw new FieldError(path, `has no id, name or url: ${shownJson(json)}`);
  }
  const previewImageUrl = media.text('preview_image');
  // Only the full shape has prices.
  const full = isObject(map['price']) ? decodeItem(map) : null;
  return { id, name, url, previewImageUrl, full: full?.ok === true ? full.decoded.value : null };
};

const readItemName: FieldReader<string> = (json, path, tolerated) => {
  const name = readRequiredText(json, path, tolerated);
  if (name.trim() === '') throw new FieldError(path, 'is blank');
  return name;
};

const readFlag: FieldReader<boolean | null> = (json, path, tolerated) => {
  if (typeof json === 'boolean') return json;
  if (json === undefined || json === null) return null;
  tolerated.add(`${path}.not-boolean`);
  if (json === 1 || json === '1' || json === 'true') return true;
  if (json === 0 || json === '0' || json === 'false' || json === '') return false;
  throw new FieldError(path, `is neither true nor false: ${shownJson(json)}`);
};

export const WIRE_HASH_BYTES = 8;
/** The wire hash of a record that did not come in a list. */
export const NO_WIRE_HASH = '\0'.repeat(WIRE_HASH_BYTES);

/** Raise this when decoding changes, so that every record is decoded again. A new field raises it too. */
const DECODER_VERSION = 1 + ITEM_FIELDS.length;

/**
 * The first 8 bytes of the SHA-256 of a record as received. An equal hash means an unchanged record, which
 * need not be decoded. A different hash may come from a new notation only.
 * @param version of the decoder: less than 256
 * @returns bytes as characters, which takes half the time of a buffer and compares faster
 */
export function wireHash(bytes: Uint8Array, version = DECODER_VERSION): string {
  const digest = hash('sha256', bytes, 'binary');
  return String.fromCharCode(digest.charCodeAt(0) ^ version) + digest.slice(1, WIRE_HASH_BYTES);
}
