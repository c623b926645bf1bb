import type { Db } from '../db/db.js';
import { ITEM_FIELDS } from '../domain/item.js';
import { money } from '../domain/text.js';
import type { ListingColumn, ValueType } from '../listing/listing.js';
import { part, type Resource } from '../listing/resource.js';
import { fieldLabel } from './changes.js';
import { CHANGES, readShownChanges, type ShownChange } from './changes-listing.js';
import { ITEMS, PRICES, type ListedItem } from './items-listing.js';
import {
  type ItemPurchase,
  type ItemRecord,
  type PriceChange,
  readItemPurchases,
  readItemRecord,
  readPriceHistory,
} from './items-store.js';
import { describeRemoval } from './rules.js';

/** An item with all that is known about it. */
interface FoundItem extends ListedItem {
  readonly record: ItemRecord;
  readonly prices: readonly PriceChange[];
}

/** More sellers with the same item are not named. */
const MOST_SELLERS = 100;
/** Longer names are cut off in titles. */
const MAX_TITLE_CHARS = 120;

/** Fields that stand among the figures, or in the title. */
const SHOWN_APART = ['name', 'version', 'price_regular', 'price_extended', 'currency'];

const WEB = /_url$|^demo_link$|^screenshots$/;

/** Items: listed, and shown with their prices, changes and purchases. */
export const ITEM: Resource<ListedItem, FoundItem, Db> = {
  listing: ITEMS,
  one: 'item',
  ids: 'number of a seller',
  async find(db, id, seller) {
    const filters = { item: id, ...(seller === null ? {} : { seller }) };
    const page = { from: null, limit: MOST_SELLERS, face: 'files' } as const;
    const items = await ITEMS.read(db, filters, page);
    return Promise.all(
      items.map(async (item) => {
        const { sellerId, itemId } = item;
        const [record, prices] = await Promise.all([
          readItemRecord(db, sellerId, itemId),
          readPriceHistory(db, sellerId, itemId),
        ]);
        return { ...item, record, prices };
      }),
    );
  },
  async whyNone(db, id, seller) {
    if (seller === null) return null;
    const purchases = await readItemPurchases(db, seller, BigInt(id), 1);
    if (purchases.length === 0) return null;
    return [
      'This item is not in your catalogue',
      'It is known from purchase codes alone: no run has found it.',
    ];
  },
  sellerOf: ({ sellerId }) => sellerId,
  record: {
    title: ({ name, itemId }) =>
      name.length > MAX_TITLE_CHARS ? `${name.slice(0, MAX_TITLE_CHARS)}…` : name || String(itemId),
    head: [{ name: 'state', type: 'state', value: ({ state }) => state }],
    notices: ({ state, record: { unlisted, deniedAt } }) =>
      state === 'removed'
        ? [{ tone: 'bad', text: `Removed: ${describeRemoval({ unlisted, deniedAt })}.` }]
        : [],
    figures: [
      {
        name: 'regular price',
        type: 'money',
        value: (item) => item.priceRegular && money(item.priceRegular, item.currency),
      },
      {
        name: 'extended price',
        type: 'money',
        value: (item) => item.priceExtended && money(item.priceExtended, item.currency),
      },
      { name: 'version', type: 'text', value: ({ version }) => version },
      { name: 'purchases', type: 'count', value: ({ record }) => record.purchases },
    ],
    facts: [
      { name: 'seller', type: 'seller', value: ({ sellerId }) => sellerId },
      { name: 'item', type: 'number', value: ({ itemId }) => itemId },
      {
        name: 'name',
        type: 'long text',
        value: ({ name }) => (name.length > MAX_TITLE_CHARS ? name : null),
      },
      ...ITEM_FIELDS.filter(({ column }) => !SHOWN_APART.includes(column)).map(factOf),
      { name: 'first seen', type: 'moment', value: ({ firstSeenAt }) => firstSeenAt },
      { name: 'changed', type: 'moment', value: ({ changedAt }) => changedAt },
      { name: 'removed', type: 'moment', value: ({ removedAt }) => removedAt },
      {
        name: 'unknown fields',
        type: 'record',
        value: ({ record }) => (record.extra === '{}' ? null : record.extra),
      },
      { name: 'record', type: 'record', value: ({ record }) => record.raw },
    ],
    parts: [
      part<FoundItem, Db, PriceChange>({
        title: 'Prices',
        columns: PRICES.columns,
        rows: (_, { prices }) => prices,
        steps: {
          unit: ({ currency }) => currency,
          point: ({ validFrom, priceRegular }) =>
            priceRegular === null ? null : { at: validFrom, value: Number(priceRegular) },
        },
      }),
      part<FoundItem, Db, ShownChange>({
        title: 'History',
        none: 'Nothing changed.',
        columns: CHANGES.columns.filter(({ name }) => !['seller', 'item', 'name'].includes(name)),
        async rows(db, { sellerId, itemId }, limit) {
          const filters = { item: String(itemId), seller: sellerId };
          const changes = await readShownChanges(db, filters, { limit, newest: true }, false);
          return changes.toReversed();
        },
      }),
      part<FoundItem, Db, ItemPurchase>({
        title: 'Purchases',
        note: 'found by checks of codes',
        only: 'pages',
        none: 'No purchase of this item is known yet. Checks of purchase codes find them.',
        columns: [
          {
            name: 'code',
            type: 'secret',
            value: ({ code }) => code,
            link: ({ codeId }) => `/codes/${codeId}`,
          },
          { name: 'purchased', type: 'moment', value: ({ purchasedAt }) => purchasedAt },
          { name: 'licence', type: 'text', value: ({ licenseType }) => licenseType },
          {
            name: 'price',
            type: 'money',
            value: (one) => one.price && money(one.price, one.currency),
          },
          { name: 'support', type: 'word', value: ({ support }) => support },
        ],
        rows: (db, { sellerId, itemId }, limit) => readItemPurchases(db, sellerId, itemId, limit),
      }),
    ],
    json: ({ record, prices, ...item }) => {
      return { ...item, purchases: record.purchases, priceHistory: prices };
    },
    received: ({ record: { extra, raw } }) => ({ extra, raw }),
  },
  actions: [],
};

function factOf({ key, column, type }: (typeof ITEM_FIELDS)[number]): ListingColumn<FoundItem> {
  const name = fieldLabel(column);
  if (column === 'description') {
    return { name, type: 'long text', value: ({ description }) => textOfHtml(description) };
  }
  const kinds: Readonly<Record<typeof type, ValueType>> = {
    text: WEB.test(column) ? 'web' : 'text',
    texts: WEB.test(column) ? 'web' : 'texts',
    integer: 'number',
    money: 'money',
    time: 'moment',
  };
  return {
    name,
    type: kinds[type],
    value: (item) => {
      const value = item[key];
      return value === '' || (Array.isArray(value) && value.length === 0) ? null : value;
    },
  };
}

/** Converts HTML to plain text: removes tags, keeps paragraphs. */
function textOfHtml(html: string | null): string | null {
  if (html === null) return null;
  return html
    .replace(/<(?:br|\/p|\/li|\/h\d|\/div)\b[^<>]*>/gi, '\n')
    .replace(/<\/?[a-z][^<>]*>/gi, '')
    .replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (_, name: string) => ENTITIES[name] ?? '')
    .replace(/\s*\n\s*/g, '\n')
    .trim();
}

const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  '#39': "'",
  nbsp: ' ',
};
