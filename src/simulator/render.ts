import { asWire } from './json.js';
import type { Wire, WireObject } from './json.js';
import { choose } from './profiles.js';
import type { Quirks } from './profiles.js';
import { hash32 } from './random.js';
import type { SimAccount, SimItem, SimPurchase } from './types.js';
import { emptied, money, number, timestamp } from './notation.js';
import { visibleAccount, visibleItem, visiblePurchase } from './visible.js';
import { translate } from './words.js';
import type { Language } from './words.js';

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
