import type { Command } from 'commander';
import type { App } from '../../app.js';
import { ITEMS, PRICES, type ListedItem } from '../../catalogue/items-listing.js';
import {
  type ItemRecord,
  type PriceChange,
  readHistoryStarts,
  readItemRecord,
  readPriceHistory,
} from '../../catalogue/items-store.js';
import { moment } from '../../domain/moment.js';
import { columnsFor, type Value } from '../../listing/listing.js';
import { printNote, print, stdoutLook, write } from '../console.js';
import { CommandError, usageError } from '../errors.js';
import { appAction } from '../execute.js';
import { describeListing, listingTable, printListing, type ListingOptions } from '../listing.js';
import {
  assertSeller,
  describeCommand,
  sellerSuffix,
  positiveInteger,
  type CommonOptions,
} from '../options.js';
import { json as jsonText, safeJson, withColumnNames } from '../output/formats.js';
import { pairs } from '../output/table.js';
import { cut, paint, safeLine } from '../output/text.js';

interface ItemsOptions extends ListingOptions {
  readonly asOf?: Date;
}

export function add(program: Command): void {
  const command = program.command('items');
  describeListing(command, ITEMS, {
    about:
      'Lists every item ever seen with its state, as it is now or, with --as-of, exactly as the mirror knew it at that moment: a day (00:00 UTC), a moment, or an age such as 7d. A table shows the most important columns, the other formats show all.',
    examples: [
      'seller-mirror items --state live --as-of 2026-03-01',
      'seller-mirror items view 4711',
      'seller-mirror items --state removed --format csv > removed.csv',
      'seller-mirror items --item 4711 --as-of 30d --json',
    ],
    limit: Infinity,
  }).action(appAction('store', items));
  describeCommand(command.command('view').argument('<id>', 'the item’s id', positiveInteger), {
    summary: 'show one item in full',
    about:
      'Shows one item in full: all its fields, its prices over time, and how many of its purchases are known. JSON also has the record as the marketplace sent it.',
    examples: ['seller-mirror items view 4711', 'seller-mirror items view 4711 --json'],
    options: ['json', 'seller'],
  }).action(appAction('store', view));
}

async function items(app: App, options: ItemsOptions): Promise<void> {
  if (options.asOf !== undefined) await assertKnown(app, options.asOf, options.seller);
  await printListing(app, ITEMS, options);
}

/**
 * Warns of sellers without history at a moment.
 * @throws {CommandError} when there is no such seller, or nothing is known about the moment
 */
async function assertKnown(app: App, asOf: Date, seller: string | undefined): Promise<void> {
  await assertSeller(app, seller);
  if (asOf.getTime() > Date.now()) {
    throw usageError(
      'that moment is in the future',
      'leave --as-of out for the items as they are now',
    );
  }
  const all = await readHistoryStarts(app.db);
  const chosen = all.filter(({ sellerId }) => seller === undefined || sellerId === seller);
  const starts = chosen.flatMap(({ sellerId, since }) => {
    if (since === null) return [`no list of seller "${sellerId}" has been mirrored yet`];
    const begin = `history of seller "${sellerId}" begins at ${since.toISOString()}`;
    return since > asOf ? [begin] : [];
  });
  if (starts.length === chosen.length) {
    throw new CommandError(
      `nothing is known about that moment: ${starts.join('; ') || 'nothing has been mirrored yet'}`,
      'give a later moment',
    );
  }
  printNote(starts.map((line) => `warning: ${safeLine(line)}\n`).join(''));
}

/** More sellers with the same item are not named. */
const MOST_SELLERS = 100;

async function view({ db }: App, id: number, { json, seller }: CommonOptions): Promise<void> {
  const filters = { item: String(id), ...(seller === undefined ? {} : { seller }) };
  const found = await ITEMS.read(db, filters, { from: null, limit: MOST_SELLERS, face: 'files' });
  const [item] = found;
  if (item === undefined) {
    throw usageError(
      `there is no item ${id}${sellerSuffix(seller)}`,
      '`seller-mirror items` lists them',
    );
  }
  if (found.length > 1) {
    const sellers = found.map(({ sellerId }) => sellerId);
    throw usageError(
      `several sellers have an item ${id}`,
      `name one with --seller: ${sellers.join(', ')}`,
    );
  }
  const [record, prices] = await Promise.all([
    readItemRecord(db, item.sellerId, item.itemId),
    readPriceHistory(db, item.sellerId, item.itemId),
  ]);
  if (json === true) await write(itemJson(item, record, prices));
  else await print(itemText(item, record, prices));
}

/** Formats an item as JSON: its columns, the record as received, and the price history. */
function itemJson(
  item: ListedItem,
  { purchases, extra, raw }: ItemRecord,
  priceHistory: readonly PriceChange[],
): string {
  const text = jsonText(withColumnNames({ ...item, purchases, priceHistory }));
  const asReceived = safeJson(`"extra": ${extra},\n  "raw": ${raw}`);
  return `${text.slice(0, -'\n}\n'.length)},\n  ${asReceived}\n}\n`;
}

/** Longest text of a field in `items view`; JSON has all of it. */
const MAX_CHARACTERS = 2_000;

/** Formats an item for a person, without the record as received, which only JSON has. */
function itemText(
  item: ListedItem,
  { purchases, extra }: ItemRecord,
  prices: readonly PriceChange[],
): string {
  const look = stdoutLook();
  const title = [`item ${item.itemId}`, item.name, item.state];
  const fields: (readonly [string, Value])[] = [
    ...columnsFor(ITEMS, 'files').map(({ name, value }) => [name, value(item)] as const),
    ['purchases', purchases],
    ['extra', extra === '{}' ? null : extra],
  ];
  return [
    `${paint('bold', safeLine(title.join(' · ')), look)}\n`,
    pairs(
      fields.flatMap(([name, value]) => (value === null ? [] : [[name, textOf(value)] as const])),
      look,
    ),
    `${paint('bold', 'prices', look)}\n`,
    listingTable(PRICES, prices),
  ].join('');
}

function textOf(value: Exclude<Value, null>): string {
  if (value instanceof Date) return moment(value);
  return cut(typeof value === 'object' ? value.join(', ') : String(value), MAX_CHARACTERS);
}
