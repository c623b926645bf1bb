import type { Db } from '../db/db.js';
import { readBatches } from '../db/batches.js';
import { ITEM_FIELDS, ITEM_STATES, type Item, type ItemState } from '../domain/item.js';
import { money } from '../domain/text.js';
import {
  conditionOf,
  OF_SELLER,
  type FilterValues,
  type Listing,
  type ListingFilter,
  type ListingPage,
  type ValueType,
} from '../listing/listing.js';
import { wordFilter } from '../listing/table-listing.js';
import type { PriceChange } from './items-store.js';

/** An item as the mirror knows it. */
export interface ListedItem extends Omit<Item, 'id' | 'publishedAt'> {
  readonly sellerId: string;
  readonly itemId: bigint;
  readonly publishedAt: Date | null;
  readonly state: ItemState;
  readonly firstSeenAt: Date;
  readonly changedAt: Date;
  readonly removedAt: Date | null;
  readonly syncedRunId: bigint;
}

/** The fields' types in a listing. */
const TYPES = {
  text: 'text',
  texts: 'texts',
  integer: 'number',
  money: 'money',
  time: 'moment',
} as const satisfies Record<(typeof ITEM_FIELDS)[number]['type'], ValueType>;

const SORTS: Readonly<Record<string, string>> = {
  id: 'seller_id, item_id',
  name: 'name, seller_id, item_id',
  price: 'price_regular DESC NULLS LAST, seller_id, item_id',
  changed: 'changed_at DESC, seller_id, item_id',
};

/** What people filter items by. */
const FILTERS: readonly ListingFilter[] = [
  {
    name: 'search',
    about: 'items with this in the name, as a tag or as id',
    type: 'text',
    where(text, parameter) {
      const literal = text.replaceAll(/[\\%_]/g, '\\$&');
      const [lower, upper] = caseSensitivePatterns(text);
      // Compares ids as numbers: for ids as text the planner expects one match in 200 items and walks the
      // key, which takes twice as long as a parallel scan. No item has id 0, but without a comparison the
      // planner does not scan in parallel.
      const id = /^[1-9]\d{0,17}$/.test(text) ? text : '0';
      // LIKE takes a fifth of the time of ILIKE, which folds the case of each name, and leaves ILIKE few names.
      // It is written as its negated function, so that the planner expects as many matches as for ILIKE alone.
      return `(NOT textnlike(name, ${parameter(lower)}) OR NOT textnlike(name, ${parameter(upper)}))
        AND name ILIKE ${parameter(`%${literal}%`)} OR ${parameter(text)} = ANY (tags) OR item_id = ${parameter(id)}`;
    },
  },
  wordFilter('state', 'items in this state', ITEM_STATES),
  {
    name: 'item',
    about: 'the item with this id',
    type: 'number',
    where: (id, parameter) => `item_id = ${parameter(id)}`,
  },
  { name: 'as-of', about: 'items known at this moment, as they were', type: 'until' },
  OF_SELLER,
  {
    name: 'sort',
    about: 'by id, name, price (highest first) or change (newest first)',
    type: 'order',
    choices: Object.keys(SORTS),
  },
];

/** Every item ever seen, for `items` and the page. Files have the columns of reporting.items without `extra`. */
export const ITEMS: Listing<ListedItem, Db> = {
  name: 'items',
  about: 'Your catalogue: every item ever seen, as it is now or as it was.',
  none: 'There is no item yet. `seller-mirror sync` mirrors them.',
  columns: [
    { name: 'seller_id', only: 'files', type: 'word', value: ({ sellerId }) => sellerId },
    { name: 'item_id', only: 'files', type: 'number', value: ({ itemId }) => itemId },
    ...ITEM_FIELDS.map(({ key, column, type }) => ({
      name: column,
      only: 'files' as const,
      type: TYPES[type],
      value: (item: ListedItem) => item[key],
    })),
    { name: 'item', only: 'tables', type: 'number', value: ({ itemId }) => itemId },
    {
      name: 'name',
      only: 'tables',
      type: 'text',
      value: ({ name, itemId }) => (name.trim() === '' ? String(itemId) : name),
      link: ({ sellerId, itemId }) => `/items/${encodeURIComponent(sellerId)}/${itemId}`,
    },
    { name: 'version', only: 'tables', type: 'text', value: ({ version }) => version },
    { name: 'state', type: 'state', value: ({ state }) => state },
    {
      name: 'price',
      only: 'tables',
      type: 'money',
      value: (item) => item.priceRegular && money(item.priceRegular, item.currency),
    },
    {
      name: 'extended',
      only: 'tables',
      type: 'money',
      value: (item) => item.priceExtended && money(item.priceExtended, item.currency),
    },
    { name: 'first_seen_at', only: 'files', type: 'moment', value: (item) => item.firstSeenAt },
    { name: 'changed_at', only: 'files', type: 'moment', value: ({ changedAt }) => changedAt },
    { name: 'removed_at', only: 'files', type: 'moment', value: ({ removedAt }) => removedAt },
    { name: 'synced_run_id', only: 'files', type: 'number', value: (item) => item.syncedRunId },
    { name: 'changed', only: 'tables', type: 'moment', value: ({ changedAt }) => changedAt },
    { name: 'seller', only: 'tables', type: 'seller', value: ({ sellerId }) => sellerId },
  ],
  filters: FILTERS,
  next: (_, end) => end,
  async count({ pool }, filters, most) {
    const values: unknown[] = [];
    const matching = matchingItems(filters, values);
    const { rows } = await pool.query<{ items: number }>(
      `SELECT count(*)::int AS items FROM (SELECT FROM ${matching} LIMIT $${values.push(most)}) c`,
      values,
    );
    return rows[0]?.items ?? 0;
  },
  async read({ pool }, filters, page) {
    const { text, values } = statementOf(filters, page);
    return (await pool.query<ListedItem>(text, values)).rows;
  },
  readAll(db, filters, size) {
    const { text, values } = statementOf(filters, null);
    return readBatches<ListedItem>(db, text, values, size);
  },
};

/** The prices of an item over time, as `items show` and the page of the item show them. */
export const PRICES: Pick<Listing<PriceChange, Db>, 'name' | 'none' | 'columns'> = {
  name: 'prices',
  none: 'No price is known.',
  columns: [
    { name: 'since', type: 'moment', value: ({ validFrom }) => validFrom },
    {
      name: 'regular',
      type: 'money',
      value: (one) => one.priceRegular && money(one.priceRegular, one.currency),
    },
    {
      name: 'extended',
      type: 'money',
      value: (one) => one.priceExtended && money(one.priceExtended, one.currency),
    },
  ],
};

const COLUMNS = [
  ...[['seller_id', 'sellerId'] as const, ['item_id', 'itemId'] as const],
  ...ITEM_FIELDS.map(({ column, key }) => [column, key] as const),
  ...[['state', 'state'] as const, ['first_seen_at', 'firstSeenAt'] as const],
  ...[['changed_at', 'changedAt'] as const, ['removed_at', 'removedAt'] as const],
  ['synced_run_id', 'syncedRunId'] as const,
]
  .map(([column, key]) => `${column} AS "${key}"`)
  .join(', ');

/** The statement that selects items. @param page null: all that match */
function statementOf(
  filters: FilterValues,
  page: Pick<ListingPage, 'from' | 'limit'> | null,
): { readonly text: string; readonly values: unknown[] } {
  const values: unknown[] = [];
  const matching = matchingItems(filters, values);
  const order = `ORDER BY ${SORTS[filters['sort'] ?? 'id'] ?? SORTS['id']}`;
  if (page === null) return { text: `SELECT ${COLUMNS} FROM ${matching} ${order}`, values };
  const limit = `LIMIT $${values.push(page.limit)} OFFSET $${values.push(page.from ?? 0n)}`;
  const wanted = `${matching} ${order} ${limit}`;
  if (filters['as-of'] !== undefined) return { text: `SELECT ${COLUMNS} FROM ${wanted}`, values };
  // Sorts keys only, which an index holds together with prices, and so reads few whole items.
  const keys = `SELECT seller_id, item_id FROM ${wanted}`;
  return {
    text: `SELECT ${COLUMNS} FROM mirror.items WHERE (seller_id, item_id) IN (${keys}) ${order}`,
    values,
  };
}

/** SQL of the items that match, from FROM on. @param parameters the values are appended */
function matchingItems(filters: FilterValues, parameters: unknown[]): string {
  const { 'as-of': asOf } = filters;
  const source =
    asOf === undefined ? 'mirror.items' : `reporting.items_as_of($${parameters.push(asOf)})`;
  return `${source} WHERE ${conditionOf(FILTERS, filters, parameters)}`;
}

/** Letters, rarest first. Without k and i, which are also the lower case of non-ASCII letters. */
const RAREST = 'jqxzvwybpgfmdchulnorsate'.split('');

/**
 * Two LIKE patterns. Every name that contains `text` in any letter case matches one of them. They fix the
 * rarest letter, once in each case, and leave all other letters open.
 */
function caseSensitivePatterns(text: string): readonly [string, string] {
  // Letters of other alphabets may have more than two case variants.
  if (/[^ -~]/.test(text)) return ['%', '%'];
  const lower = text.toLowerCase();
  const rarest = RAREST.find((letter) => lower.includes(letter)) ?? '';
  const place = rarest === '' ? -1 : lower.indexOf(rarest);
  const pattern = (letter: string): string =>
    lower.replaceAll(/[a-z\\%_]/g, (character, at: number) =>
      at === place ? letter : /[a-z]/.test(character) ? '_' : `\\${character}`,
    );
  return [`%${pattern(rarest)}%`, `%${pattern(rarest.toUpperCase())}%`];
}
