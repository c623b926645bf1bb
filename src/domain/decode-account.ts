import type { Account, Decoding, Json } from './item.js';
import {
  FieldError,
  Tolerated,
  collectExtra,
  emptyExtra,
  isObject,
  readMap,
  readMoney,
  readRequiredText,
  readText,
  readTimestamp,
  shown,
  storableJson,
  storableText,
  type JsonObject,
} from './values.js';

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
const MEDIA_FIELDS = new Set(['avatar', 'cover']);

/**
 * Reads the account (spec 2.1, 2.2). Only `username` must be there and readable: it is what tells
 * one account from another, and the proof of the key that every run begins with must not hang on
 * more. Any other field that can't be read is null, noted, and kept as it came in `extra`.
 */
export function decodeAccount(json: Json): Decoding<Account> {
  if (!isObject(json)) return { ok: false, reason: `is no object: ${shown(json)}`, id: null };
  const reader = new Reader();
  try {
    const parts = readParts(json, reader);
    const value = readAccount(json, parts, reader);
    const extra = { ...readExtra(json, parts, reader.tolerated), ...reader.unreadable };
    return { ok: true, decoded: { value, extra, tolerated: reader.tolerated.names } };
  } catch (error) {
    if (error instanceof FieldError) return { ok: false, reason: error.message, id: null };
    throw error;
  }
}

/** Reads optional fields, and keeps apart those that can't be read. */
class Reader {
  readonly tolerated = new Tolerated();
  readonly unreadable = emptyExtra();

  text(json: Json | undefined, path: string): string | null {
    return this.#optional(json, path, readText);
  }

  money(json: Json | undefined, path: string): string | null {
    return this.#optional(json, path, readMoney);
  }

  timestamp(json: Json | undefined, path: string): string | null {
    return this.#optional(json, path, readTimestamp);
  }

  map(json: Json | undefined, path: string): JsonObject {
    return this.#optional(json, path, readMap) ?? {};
  }

  #optional<T>(
    json: Json | undefined,
    path: string,
    read: (json: Json | undefined, path: string, tolerated: Tolerated) => T,
  ): T | null {
    try {
      return read(json, path, this.tolerated);
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      this.tolerated.note(`${path}.unreadable`);
      this.unreadable[path] = storableJson(json ?? null, this.tolerated);
      return null;
    }
  }
}

interface Parts {
  readonly name: JsonObject;
  readonly profile: JsonObject;
  readonly contact: JsonObject;
  readonly media: JsonObject;
}

function readParts(json: JsonObject, reader: Reader): Parts {
  const { name } = json;
  const profile = reader.map(json['profile'], 'profile');
  return {
    name: typeof name === 'string' ? { full_name: name } : reader.map(name, 'name'),
    profile,
    contact: reader.map(profile['contact'], 'profile.contact'),
    media: reader.map(profile['media'], 'profile.media'),
  };
}

function readAccount(json: JsonObject, parts: Parts, reader: Reader): Account {
  const { name, profile, contact, media } = parts;
  const username = readRequiredText(json['username'], 'username', reader.tolerated);
  if (username.trim() === '') throw new FieldError('username', 'is empty');
  return {
    username,
    firstname: reader.text(name['firstname'], 'name.firstname'),
    lastname: reader.text(name['lastname'], 'name.lastname'),
    fullName: reader.text(name['full_name'], 'name.full_name'),
    email: reader.text(json['email'], 'email'),
    balance: reader.money(json['balance'], 'balance'),
    currency: reader.text(json['currency'], 'currency'),
    heading: reader.text(profile['heading'], 'profile.heading'),
    description: reader.text(profile['description'], 'profile.description'),
    contactEmail: reader.text(contact['email'], 'profile.contact.email'),
    socialLinks: readSocialLinks(profile['social_links'], reader),
    avatarUrl: reader.text(media['avatar'], 'profile.media.avatar'),
    coverUrl: reader.text(media['cover'], 'profile.media.cover'),
    registeredAt: reader.timestamp(json['registered_at'], 'registered_at'),
  };
}

/** Network name to link or handle; unset networks are null and left out (field notes: social_links). */
function readSocialLinks(json: Json | undefined, reader: Reader): Record<string, string> {
  const links = Object.create(null) as Record<string, string>;
  const map = reader.map(json, 'profile.social_links');
  // Sorted, so that the order in which a server lists the networks makes no change.
  for (const network of Object.keys(map).sort()) {
    const link = reader.text(map[network], `profile.social_links.${network}`);
    if (link !== null) links[storableText(network, reader.tolerated)] = link;
  }
  return links;
}

function readExtra(json: JsonObject, parts: Parts, tolerated: Tolerated): JsonObject {
  const extra = emptyExtra();
  collectExtra(json, ACCOUNT_FIELDS, '', extra, tolerated);
  collectExtra(parts.name, NAME_FIELDS, 'name.', extra, tolerated);
  collectExtra(parts.profile, PROFILE_FIELDS, 'profile.', extra, tolerated);
  collectExtra(parts.contact, CONTACT_FIELDS, 'profile.contact.', extra, tolerated);
  collectExtra(parts.media, MEDIA_FIELDS, 'profile.media.', extra, tolerated);
  return extra;
}
