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
 * Reads the account (spec 2.1, 2.2). Only `username` must be there: it is what tells one account
 * from another.
 */
export function decodeAccount(json: Json): Decoding<Account> {
  if (!isObject(json)) return { ok: false, reason: `is no object: ${shown(json)}`, id: null };
  const tolerated = new Tolerated();
  try {
    const parts = readParts(json, tolerated);
    return {
      ok: true,
      decoded: {
        value: readAccount(json, parts, tolerated),
        extra: readExtra(json, parts, tolerated),
        tolerated: tolerated.names,
      },
    };
  } catch (error) {
    if (error instanceof FieldError) return { ok: false, reason: error.message, id: null };
    throw error;
  }
}

interface Parts {
  readonly name: JsonObject;
  readonly profile: JsonObject;
  readonly contact: JsonObject;
  readonly media: JsonObject;
}

function readParts(json: JsonObject, tolerated: Tolerated): Parts {
  const profile = readMap(json['profile'], 'profile', tolerated);
  return {
    name:
      typeof json['name'] === 'string'
        ? { full_name: json['name'] }
        : readMap(json['name'], 'name', tolerated),
    profile,
    contact: readMap(profile['contact'], 'profile.contact', tolerated),
    media: readMap(profile['media'], 'profile.media', tolerated),
  };
}

function readAccount(json: JsonObject, parts: Parts, tolerated: Tolerated): Account {
  const { name, profile, contact, media } = parts;
  const username = readRequiredText(json['username'], 'username', tolerated);
  if (username.trim() === '') throw new FieldError('username', 'is empty');
  return {
    username,
    firstname: readText(name['firstname'], 'name.firstname', tolerated),
    lastname: readText(name['lastname'], 'name.lastname', tolerated),
    fullName: readText(name['full_name'], 'name.full_name', tolerated),
    email: readText(json['email'], 'email', tolerated),
    balance: readMoney(json['balance'], 'balance', tolerated),
    currency: readText(json['currency'], 'currency', tolerated),
    heading: readText(profile['heading'], 'profile.heading', tolerated),
    description: readText(profile['description'], 'profile.description', tolerated),
    contactEmail: readText(contact['email'], 'profile.contact.email', tolerated),
    socialLinks: readSocialLinks(profile['social_links'], tolerated),
    avatarUrl: readText(media['avatar'], 'profile.media.avatar', tolerated),
    coverUrl: readText(media['cover'], 'profile.media.cover', tolerated),
    registeredAt: readTimestamp(json['registered_at'], 'registered_at', tolerated),
  };
}

/** Network name to link or handle; unset networks are null and left out (field notes: social_links). */
function readSocialLinks(json: Json | undefined, tolerated: Tolerated): Record<string, string> {
  const links = Object.create(null) as Record<string, string>;
  const map = readMap(json, 'profile.social_links', tolerated);
  // Sorted, so that the order in which a server lists the networks makes no change.
  for (const network of Object.keys(map).sort()) {
    const link = readText(map[network], `profile.social_links.${network}`, tolerated);
    if (link !== null) links[storableText(network, tolerated)] = link;
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
