import { Option, type Command } from 'commander';
import type { App } from '../../app.js';
import {
  itemColumns,
  itemsStatement,
  type TextRows,
  readHistoryStarts,
  readItemsWithId,
  readPriceHistory,
} from '../../catalogue/items-store.js';
import { queryReadOnly } from '../../db/read-only.js';
import { printNote, print, stdoutLook, write } from '../console.js';
import { CommandError, usageError } from '../errors.js';
import { appAction } from '../execute.js';
import {
  assertSeller,
  describeCommand,
  withoutUndefined,
  parseMoment,
  sellerSuffix,
  sellerFilter,
  positiveInteger,
  type CommonOptions,
  type TableOptions,
} from '../options.js';
import { pairs, table } from '../output/table.js';
import { cut, paint, safeLine } from '../output/text.js';
import {
  cellOf,
  formatOf,
  formatOption,
  rowEncoder,
  tableColumns,
  writeRows,
  type FormatOptions,
} from '../rows.js';

const STATES = ['live', 'missing', 'removed', 'all'] as const;

interface ItemsOptions extends CommonOptions, TableOptions, FormatOptions {
  readonly asOf?: Date;
  readonly state?: (typeof STATES)[number];
  readonly item?: number;
  readonly limit?: number;
}

export function add(program: Command): void {
  const state = new Option('--state <state>', 'only these (default: live; with --item all)');
  const asOf = new Option('--as-of <moment>', 'a day (00:00 UTC), a moment, or an age such as 7d');
  const command = program
    .command('items')
    .addOption(asOf.argParser(parseMoment))
    .addOption(state.choices(STATES))
    .option('--item <id>', 'only this item', positiveInteger)
    .option('--limit <n>', 'how many at most (default: all)', positiveInteger)
    .addOption(formatOption('how to print them (default: table)'));
  describeCommand(command, {
    about:
      'Lists the items as they are now or, with --as-of, exactly as the mirror knew them at that moment. A table shows the most important columns, the other formats show all.',
    examples: [
      'seller-mirror items --as-of 2026-03-01',
      'seller-mirror items view 4711',
      'seller-mirror items --state removed --format csv > removed.csv',
      'seller-mirror items --item 4711 --as-of 30d --json',
    ],
    options: ['decimalComma', 'json', 'seller', 'vertical', 'pager'],
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
  const { asOf, item: itemId, limit, seller } = options;
  const sellers = await countSellers(app, options);
  const state = options.state ?? (itemId === undefined ? 'live' : 'all');
  const columns = itemColumns(formatOf(options) === 'table' ? 'few' : 'all', {
    seller: sellers > 1,
    state: state === 'all' || stdoutLook().columns === null,
  });
  const states = state === 'all' ? undefined : [state];
  await queryReadOnly(
    app.database.url,
    itemsStatement(columns, {
      ...withoutUndefined({ asOf, states, itemId, limit }),
      ...sellerFilter(seller),
    }),
    (answer) => writeRows(answer, { ...options, moments: 'short' }),
    app.signal,
  );
}

/**
 * Counts the sellers whose items are listed; warns of those without history at that moment.
 * @throws {CommandError} when there is no such seller, or nothing is known about the moment
 */
async function countSellers(app: App, { seller, asOf }: ItemsOptions): Promise<number> {
  await assertSeller(app, seller);
  const all = await readHistoryStarts(app.db);
  const chosen = all.filter(({ sellerId }) => seller === undefined || sellerId === seller);
  if (asOf === undefined) return chosen.length;
  if (asOf.getTime() > Date.now()) {
    throw usageError(
      'that moment is in the future',
      'leave --as-of out for the items as they are now',
    );
  }
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
  return chosen.length;
}

async function view({ db }: App, id: number, { json, seller }: CommonOptions): Promise<void> {
  const item = await readItemsWithId(db, id, seller ?? null);
  const sellers = item.rows.map((row) => row[0] ?? '');
  const [sellerId] = sellers;
  if (sellerId === undefined) {
    throw new CommandError(
      `there is no item ${id}${sellerSuffix(seller)}`,
      '`seller-mirror items --state all` lists them',
    );
  }
  if (sellers.length > 1) {
    throw usageError(
      `several sellers have an item ${id}`,
      `name one with --seller: ${sellers.join(', ')}`,
    );
  }
  const prices = await readPriceHistory(db, sellerId, id);
  if (json === true) await write(itemJson(item, prices));
  else await print(itemText(item, prices));
}

/** Formats an item as JSON: the columns of `reporting.items` and the price history. */
function itemJson({ columns, rows: [row = []] }: TextRows, prices: TextRows): string {
  const history = prices.rows.map(rowEncoder(prices.columns)).join(',\n    ');
  const members = columns.map((column, n) => rowEncoder([column])([row[n] ?? null]).slice(1, -1));
  members.push(`"price_history":[\n    ${history}\n  ]`);
  return `{\n  ${members.join(',\n  ')}\n}\n`;
}

/** Longest text of a field in `items view`; JSON has all of it. */
const MAX_CHARACTERS = 2_000;

/** Formats an item for a person, without the record as received, which only JSON has. */
function itemText({ columns, rows: [row = []] }: TextRows, prices: TextRows): string {
  const look = stdoutLook();
  const fields = new Map(columns.map(({ name }, n) => [name, row[n] ?? null]));
  const title = [`item ${fields.get('item_id')}`, fields.get('name'), fields.get('state')];
  const shown = columns.flatMap(({ name, type }, n): [string, string][] => {
    const value = row[n] ?? null;
    if (value === null || name === 'raw' || (name === 'extra' && value === '{}')) return [];
    return [[name, cut(String(cellOf(value, type)), MAX_CHARACTERS)]];
  });
  const priceColumns = tableColumns(prices.columns).map((column) =>
    column.header === 'valid_from' ? { ...column, header: 'since' } : column,
  );
  return [
    `${paint('bold', safeLine(title.join(' · ')), look)}\n`,
    pairs(shown, look),
    `${paint('bold', 'prices', look)}\n`,
    table(prices.rows, priceColumns, look),
  ].join('');
}
