import { choose } from './profiles.js';
import type { Quirks } from './profiles.js';
import { hash32 } from './random.js';
import type { SimAccount, SimItem, SimPurchase } from './types.js';

/**
 * What a server with these quirks tells of an item, before any notation: fields that it never sends
 * are null, prices that it rounds are rounded. A perfect client ends up with exactly this.
 */
export function visibleItem(item: SimItem, quirks: Quirks): SimItem {
  const link = (url: string | null): string | null => storageLink(url, item.id, quirks);
  const full = quirks.shapes === 'full';
  const demoGone = quirks.renamedFields || (quirks.nulls && hash32(3, item.id) % 4 === 0);
  return {
    ...item,
    version: version(item, quirks),
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

/** What a server with these quirks tells of an account. */
export function visibleAccount(account: SimAccount, quirks: Quirks): SimAccount {
  return {
    ...account,
    balanceCents: visibleCents(account.balanceCents, 0, quirks) ?? 0,
    ...(quirks.nulls ? { heading: null, description: null, contactEmail: null } : {}),
    socialLinks:
      quirks.socialLinks === 'handles' ? handles(account.socialLinks) : account.socialLinks,
  };
}

/** What a server with these quirks tells of a purchase; its item apart. */
export function visiblePurchase(purchase: SimPurchase, quirks: Quirks): SimPurchase {
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

function version(item: SimItem, quirks: Quirks): string | null {
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

/** The same money notation for all amounts of a record. */
export const MONEY_SALT = 5;

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
