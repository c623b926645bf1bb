import { Literal, asWire } from './json.js';
import type { Wire, WireObject } from './json.js';
import { choose, translate } from './profiles.js';
import type { Language, Quirks } from './profiles.js';
import { hash32 } from './random.js';
import type { SimAccount, SimItem, SimPurchase } from './types.js';

/** One salt for all amounts of a record, so that they have the same money notation. */
const MONEY_SALT = 5;

/**
 * An item as a server with these quirks shows it, before any notation: fields that it never sends
 * are null, prices that it rounds are rounded. A correct client ends up with exactly this.
 */
export function visibleItem(item: SimItem, quirks: Quirks): SimItem {
  const link = (url: string | null): string | null => storageLink(url, item.id, quirks);
  const full = quirks.shapes === 'full';
  const demoGone = quirks.renamedFields || (quirks.nulls && hash32(3, item.id) % 4 === 0);
  return {
    ...item,
    version: shownVersion(item, quirks),
    demoLink: demoGone ? null : item.demoLink,
    thumbnail: full ? link(item.thumbnail) : null,
    previewImage: link(item.previewImage),
    previewVideo: full ? link(item.previewVideo) : null,
    previewAudio: full ? link(item.previewAudio) : null,
    screenshots: item.screenshots.map((url) => link(url) ?? url),
    priceRegularCents: visibleCents(item.priceRegularCents, item.id, quirks),
    priceExtendedCents: visibleCents(item.priceExtendedCents, item.id, quirks),
  };
}

/** An account as a server with these quirks shows it. */
export function visibleAccount(account: SimAccount, quirks: Quirks): SimAccount {
  return {
    ...account,
    balanceCents: visibleCents(account.balanceCents, 0, quirks) ?? 0,
    ...(quirks.nulls ? { heading: null, description: null, contactEmail: null } : {}),
    socialLinks:
      quirks.socialLinks === 'handles' ? handles(account.socialLinks) : account.socialLinks,
  };
}

/** A purchase, without its item, as a server with these quirks shows it. */
function visiblePurchase(purchase: SimPurchase, quirks: Quirks): SimPurchase {
  const full = quirks.shapes === 'full';
  return {
    ...purchase,
    priceCents: visibleCents(purchase.priceCents, purchase.itemId, quirks) ?? 0,
    supportedUntil: full ? purchase.supportedUntil : null,
    downloaded: full ? purchase.downloaded : null,
  };
}

/** Networks whose keys a deployed server always sends (field notes). */
const NETWORKS = ['facebook', 'x', 'youtube', 'linkedin', 'instagram', 'pinterest'];

function handles(links: SimAccount['socialLinks']): SimAccount['socialLinks'] {
  // With no link at all the map is empty, which PHP writes as [].
  if (links === null || Object.keys(links).length === 0) return links;
  const all: Record<string, string | null> = {};
  for (const network of [...NETWORKS, ...Object.keys(links)]) {
    all[network] = links[network]?.split('/').at(-1) ?? null;
  }
  return all;
}

function shownVersion(item: SimItem, quirks: Quirks): string | null {
  if (item.version === null) return null;
  switch (choose(quirks.version, item.id, 4)) {
    case 'contract':
      return item.version;
    case 'two-part':
      return item.version.split('.').slice(0, 2).join('.');
    case 'four-part':
      return `${item.version}.4`;
    case 'none':
      return null;
  }
}

function visibleCents(cents: number | null, id: number, quirks: Quirks): number | null {
  if (cents === null || choose(quirks.money, id, MONEY_SALT) !== 'whole') return cents;
  return Math.round(cents / 100) * 100;
}

function storageLink(url: string | null, id: number, quirks: Quirks): string | null {
  if (url === null) return null;
  switch (choose(quirks.links, id, 6)) {
    case 'plain':
      return url;
    case 'wrap':
      return `${url}?wrap=0`;
    case 'cdn': {
      const moved = new URL(url);
      moved.host = 'cdn.marketplace.example';
      return moved.href;
    }
  }
}

/** An item as sent (spec 2.3, 2.4), in the notation of the quirks. */
export function itemWire(hidden: SimItem, quirks: Quirks): WireObject {
  const item = visibleItem(hidden, quirks);
  const { id } = item;
  return {
    id: number(id, id, quirks),
    name: item.name,
    description: item.description,
    category: item.category,
    sub_category: item.subCategory,
    options: options(item, quirks),
    version: quirks.version === 'none' ? undefined : version(item, quirks),
    [quirks.renamedFields ? 'demo_url' : 'demo_link']: quirks.renamedFields
      ? hidden.demoLink
      : item.demoLink,
    tags: tags(item, quirks),
    media: emptied(media(item, quirks), quirks),
    price: {
      regular: money(item.priceRegularCents, id, quirks),
      extended: money(item.priceExtendedCents, id, quirks),
    },
    currency: item.currency,
    published_at: timestamp(item.publishedAt, quirks),
    ...(quirks.extraFields ? forkFields(id) : {}),
    ...extra(item.extra),
  };
}

/** The account as sent (spec 2.1, 2.2). */
export function accountWire(hidden: SimAccount, quirks: Quirks): WireObject {
  const account = visibleAccount(hidden, quirks);
  return {
    name: {
      firstname: account.firstname,
      lastname: account.lastname,
      full_name: `${account.firstname} ${account.lastname}`,
    },
    username: account.username,
    email: account.email,
    balance: money(account.balanceCents, 0, quirks),
    currency: account.currency,
    profile: {
      heading: account.heading,
      description: account.description,
      contact: { email: account.contactEmail },
      social_links: account.socialLinks === null ? null : emptied(account.socialLinks, quirks),
      media: { avatar: account.avatar, cover: account.cover },
    },
    registered_at: timestamp(account.registeredAt, quirks),
    ...(quirks.extraFields ? { level: { name: 'Author level 4', min_earnings: 1000 } } : {}),
    ...extra(account.extra),
  };
}

/** A purchase as sent (spec 2.5) with its item. */
export function purchaseWire(
  hidden: SimPurchase,
  item: SimItem,
  quirks: Quirks,
  language: Language,
): WireObject {
  const purchase = visiblePurchase(hidden, quirks);
  const reduced = choose(quirks.purchaseItem, item.id, 12) === 'reduced';
  const { supportedUntil } = purchase;
  return {
    purchase_code: purchase.code,
    license_type: translate(purchase.license, language),
    price: money(purchase.priceCents, item.id, quirks),
    currency: purchase.currency,
    item: reduced ? reducedItem(item, quirks) : itemWire(item, quirks),
    supported_until: supportedUntil === null ? undefined : timestamp(supportedUntil, quirks),
    downloaded: purchase.downloaded ?? undefined,
    date: timestamp(purchase.date, quirks),
    ...(quirks.extraFields ? { buyer: { username: `buyer${hash32(13, item.id) % 1000}` } } : {}),
  };
}

function reducedItem(hidden: SimItem, quirks: Quirks): WireObject {
  const { id, name, previewImage } = visibleItem(hidden, quirks);
  return {
    id: number(id, id, quirks),
    name,
    url: `https://marketplace.example/items/${id}`,
    media: emptied({ preview_image: previewImage ?? undefined }, quirks),
  };
}

function media(item: SimItem, quirks: Quirks): WireObject {
  return {
    thumbnail: item.thumbnail ?? undefined,
    preview_image: item.previewImage ?? undefined,
    preview_video: item.previewVideo ?? undefined,
    preview_audio: item.previewAudio ?? undefined,
    screenshots: screenshots(item, quirks),
  };
}

function screenshots({ id, screenshots: urls }: SimItem, quirks: Quirks): Wire {
  const shape = choose(quirks.screenshots, id, 7);
  if (urls.length > 0) return shape === 'map' ? Object.fromEntries(urls.entries()) : urls;
  switch (choose(quirks.noScreenshots, id, 8)) {
    case 'absent':
      return undefined;
    case 'null':
      return null;
    case 'empty':
      return shape === 'map' ? emptied({}, quirks) : [];
  }
}

function options({ id, options: list }: SimItem, quirks: Quirks): Wire {
  if (list.length === 0) {
    const shape = choose(quirks.noOptions, id, 9);
    if (shape === 'null') return null;
    return shape === 'map' ? emptied({}, quirks) : [];
  }
  if (choose(quirks.options, id, 10) === 'array') return list;
  const map: Record<string, string | string[]> = {};
  for (const option of list) {
    const [name = '', ...rest] = option.split(': ');
    if (name === '' || rest.length === 0) return list;
    const value = rest.join(': ');
    const former = map[name];
    map[name] = former === undefined ? value : [former, value].flat();
  }
  return map;
}

function tags({ id, tags: list }: SimItem, quirks: Quirks): Wire {
  if (list.length === 0) {
    const shape = choose(quirks.noTags, id, 11);
    if (shape === 'array') return [];
    return shape === 'null' ? null : '';
  }
  const comma = choose(quirks.tags, id, 14) === 'comma' && !list.some((tag) => tag.includes(','));
  return comma ? list.join(', ') : list;
}

function version(item: SimItem, quirks: Quirks): Wire {
  if (item.version !== null) return item.version;
  return choose(quirks.noVersion, item.id, 15) === 'null' ? null : undefined;
}

function forkFields(id: number): WireObject {
  return {
    slug: `item-${id}`,
    sales: hash32(17, id) % 5000,
    rating: { average: '4.50', total: hash32(18, id) % 300 },
    is_featured: id % 2 === 0,
  };
}

function extra(fields: { readonly [name: string]: unknown } | undefined): WireObject {
  const out: Record<string, Wire> = {};
  for (const [name, value] of Object.entries(fields ?? {})) out[name] = asWire(value);
  return out;
}

/** An amount; contract: a JSON number with two decimals (spec 2). */
function money(cents: number | null, id: number, quirks: Quirks): Wire {
  if (cents === null) return null;
  switch (choose(quirks.money, id, MONEY_SALT)) {
    case 'decimal':
      return new Literal(decimal(cents));
    case 'string':
      return decimal(cents);
    case 'noise':
      return new Literal(String(bitBelow(cents / 100)));
    case 'whole':
    case 'short':
      return new Literal(String(cents / 100));
  }
}

function decimal(cents: number): string {
  const digits = String(Math.abs(cents)).padStart(3, '0');
  return `${cents < 0 ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`;
}

const bits = new DataView(new ArrayBuffer(8));

/**
 * The nearest double towards zero, as sums of floats come out: 21.1 → 21.099999999999998. Amounts
 * so large that this would cost a cent stay as they are.
 */
function bitBelow(value: number): number {
  if (value === 0 || Math.abs(value) > 1e12) return value;
  bits.setFloat64(0, value);
  bits.setBigUint64(0, bits.getBigUint64(0) - 1n);
  return bits.getFloat64(0);
}

/** A whole number, or its numeric string. */
function number(value: number, id: number, quirks: Quirks): Wire {
  return choose(quirks.numbers, id, 16) === 'string' ? String(value) : value;
}

/** A moment with or without microseconds. */
function timestamp(value: string, quirks: Quirks): string {
  return quirks.timestamps === 'microseconds' ? value.replace(/Z$/, '.000000Z') : value;
}

/** PHP writes an empty map as [] (field notes). */
function emptied(map: WireObject, quirks: Quirks): Wire {
  const empty = Object.values(map).every((member) => member === undefined);
  return empty && quirks.emptyMaps === 'array' ? [] : map;
}
