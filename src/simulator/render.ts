import { Literal, asWire, type Wire, type WireObject } from './answer.js';
import { notationOf, translate, type Language, type Notation, type Quirks } from './profiles.js';
import { hash32 } from './random.js';
import type { SimAccount, SimItem, SimPurchase } from './types.js';

/**
 * An item as a server with these quirks shows it, before its notation: fields that it never sends are null, prices
 * may be rounded. A correct client ends up with exactly this.
 */
export function visibleItem(item: SimItem, quirks: Quirks): SimItem {
  return visible(item, notationOf(quirks, item.id));
}

function visible(item: SimItem, notation: Notation): SimItem {
  const link = (url: string | null): string | null => url && storageLink(url, notation);
  const isFull = notation.shapes === 'full';
  const demoGone = notation.nulls && hash32(3, item.id) % 4 === 0;
  return {
    ...item,
    version: item.version && shownVersion(item.version, notation),
    demoLink: demoGone ? null : item.demoLink,
    thumbnail: isFull ? link(item.thumbnail) : null,
    previewImage: link(item.previewImage),
    previewVideo: isFull ? link(item.previewVideo) : null,
    previewAudio: isFull ? link(item.previewAudio) : null,
    screenshots: item.screenshots.map((url) => storageLink(url, notation)),
    priceRegularCents: item.priceRegularCents && visibleCents(item.priceRegularCents, notation),
    priceExtendedCents: item.priceExtendedCents && visibleCents(item.priceExtendedCents, notation),
  };
}

export function visibleAccount(account: SimAccount, quirks: Quirks): SimAccount {
  const { socialLinks } = account;
  return {
    ...account,
    balanceCents: visibleCents(account.balanceCents, notationOf(quirks, 0)),
    ...(quirks.nulls ? { heading: null, description: null, contactEmail: null } : {}),
    socialLinks: quirks.socialLinks === 'handles' ? handles(socialLinks) : socialLinks,
  };
}

/** Networks that deployed servers always send (servers: values). */
const NETWORKS = ['facebook', 'x', 'youtube', 'linkedin', 'instagram', 'pinterest'];

function handles(links: SimAccount['socialLinks']): SimAccount['socialLinks'] {
  // Without any link, the map stays empty.
  if (links === null || Object.keys(links).length === 0) return links;
  const networks = [...NETWORKS, ...Object.keys(links)];
  return Object.fromEntries(networks.map((name) => [name, links[name]?.split('/').at(-1) ?? null]));
}

function shownVersion(version: string, notation: Notation): string | null {
  switch (notation.version) {
    case 'contract':
      return version;
    case 'two-part':
      return version.split('.').slice(0, 2).join('.');
    case 'four-part':
      return `${version}.4`;
    case 'none':
      return null;
  }
}

function visibleCents(cents: number, { money: form }: Notation): number {
  return form === 'whole' ? Math.round(cents / 100) * 100 : cents;
}

function storageLink(url: string, { links }: Notation): string {
  if (links === 'plain') return url;
  if (links === 'wrap') return `${url}?wrap=0`;
  return url.replace(/^https:\/\/[^/]*/, 'https://cdn.marketplace.example');
}

/** An item as sent (API 2.3, 2.4). */
export function itemWire(hidden: SimItem, quirks: Quirks): WireObject {
  const notation = notationOf(quirks, hidden.id);
  const item = visible(hidden, notation);
  const noVersion = notation.version !== 'none' && notation.noVersion === 'null' ? null : undefined;
  return {
    id: number(item.id, notation),
    name: item.name,
    description: item.description,
    category: item.category,
    sub_category: item.subCategory,
    options: options(item.options, notation),
    version: item.version ?? noVersion,
    demo_link: item.demoLink,
    tags: tags(item.tags, notation),
    media: emptied(
      {
        thumbnail: item.thumbnail ?? undefined,
        preview_image: item.previewImage ?? undefined,
        preview_video: item.previewVideo ?? undefined,
        preview_audio: item.previewAudio ?? undefined,
        screenshots: screenshots(item.screenshots, notation),
      },
      notation,
    ),
    price: {
      regular: money(item.priceRegularCents, notation),
      extended: money(item.priceExtendedCents, notation),
    },
    currency: item.currency,
    published_at: timestamp(item.publishedAt, notation),
    ...(notation.extraFields ? forkFields(item.id) : {}),
    ...extra(item.extra),
  };
}

/** The account as sent (API 2.1, 2.2). */
export function accountWire(hidden: SimAccount, quirks: Quirks): WireObject {
  const account = visibleAccount(hidden, quirks);
  const notation = notationOf(quirks, 0);
  return {
    name: {
      firstname: account.firstname,
      lastname: account.lastname,
      full_name: `${account.firstname} ${account.lastname}`,
    },
    username: account.username,
    email: account.email,
    balance: money(account.balanceCents, notation),
    currency: account.currency,
    profile: {
      heading: account.heading,
      description: account.description,
      contact: { email: account.contactEmail },
      social_links: account.socialLinks && emptied(account.socialLinks, notation),
      media: { avatar: account.avatar, cover: account.cover },
    },
    registered_at: timestamp(account.registeredAt, notation),
    ...(notation.extraFields ? { level: { name: 'Author level 4', min_earnings: 1000 } } : {}),
    ...extra(account.extra),
  };
}

/** A purchase as sent, with its item (API 2.5). */
export function purchaseWire(
  purchase: SimPurchase,
  item: SimItem,
  quirks: Quirks,
  language: Language,
): WireObject {
  const notation = notationOf(quirks, item.id);
  const isFull = notation.shapes === 'full';
  const { supportedUntil, downloaded } = purchase;
  return {
    purchase_code: purchase.code,
    license_type: translate(purchase.license, language),
    price: money(visibleCents(purchase.priceCents, notation), notation),
    currency: purchase.currency,
    item: notation.purchaseItem === 'full' ? itemWire(item, quirks) : reducedItem(item, notation),
    supported_until: isFull && supportedUntil ? timestamp(supportedUntil, notation) : undefined,
    downloaded: isFull ? (downloaded ?? undefined) : undefined,
    date: timestamp(purchase.date, notation),
    ...(notation.extraFields ? { buyer: { username: `buyer${hash32(13, item.id) % 1000}` } } : {}),
  };
}

function reducedItem(hidden: SimItem, notation: Notation): WireObject {
  const { id, name, previewImage } = visible(hidden, notation);
  return {
    id: number(id, notation),
    name,
    url: `https://marketplace.example/items/${id}`,
    media: emptied({ preview_image: previewImage ?? undefined }, notation),
  };
}

function screenshots(urls: readonly string[], notation: Notation): Wire {
  const isMap = notation.screenshots === 'map';
  if (urls.length > 0) return isMap ? Object.fromEntries(urls.entries()) : urls;
  if (notation.noScreenshots === 'absent') return undefined;
  if (notation.noScreenshots === 'null') return null;
  return isMap ? emptied({}, notation) : [];
}

function options(list: readonly string[], notation: Notation): Wire {
  if (list.length === 0) {
    if (notation.noOptions === 'null') return null;
    return notation.noOptions === 'map' ? emptied({}, notation) : [];
  }
  const pairs = list.map((option) => /^(.+?): (.*)$/s.exec(option));
  if (notation.options === 'array' || pairs.includes(null)) return list;
  const map: Record<string, string | string[]> = {};
  for (const [, name = '', value = ''] of pairs as RegExpExecArray[]) {
    const former = map[name];
    map[name] = former === undefined ? value : [former, value].flat();
  }
  return map;
}

function tags(list: readonly string[], notation: Notation): Wire {
  if (list.length === 0) return { array: [], 'empty-text': '', null: null }[notation.noTags];
  const canJoin = notation.tags === 'comma' && !list.some((tag) => tag.includes(','));
  return canJoin ? list.join(', ') : list;
}

function forkFields(id: number): WireObject {
  return {
    slug: `item-${id}`,
    sales: hash32(17, id) % 5000,
    rating: { average: '4.50', total: hash32(18, id) % 300 },
    is_featured: id % 2 === 0,
  };
}

function extra(fields: { readonly [name: string]: unknown } = {}): WireObject {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, asWire(value)]));
}

/** An amount. The contract has a number with two decimals (API 2). */
function money(cents: number | null, notation: Notation): Wire {
  if (cents === null) return null;
  switch (notation.money) {
    case 'decimal':
      return new Literal(decimal(cents));
    case 'string':
      return decimal(cents);
    case 'noise':
      return new Literal(String(withFloatNoise(cents / 100)));
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
 * The next double towards zero, like the result of a float sum: 21.1 → 21.099999999999998. Leaves amounts unchanged
 * that are so large that it would cost a cent.
 */
function withFloatNoise(value: number): number {
  if (value === 0 || Math.abs(value) > 1e12) return value;
  bits.setFloat64(0, value);
  bits.setBigUint64(0, bits.getBigUint64(0) - 1n);
  return bits.getFloat64(0);
}

function number(value: number, { numbers }: Notation): Wire {
  return numbers === 'string' ? String(value) : value;
}

function timestamp(value: string, { timestamps }: Notation): string {
  return timestamps === 'microseconds' ? value.replace(/Z$/, '.000000Z') : value;
}

/** PHP writes an empty map as [] (servers: shapes). */
function emptied(map: WireObject, { emptyMaps }: Notation): Wire {
  const isEmpty = Object.values(map).every((member) => member === undefined);
  return isEmpty && emptyMaps === 'array' ? [] : map;
}
