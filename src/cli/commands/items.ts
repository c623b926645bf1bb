import { Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { historyGap } from '../../domain/moment.js';
import {
  itemColumns,
  itemsStatement,
  type ItemFilter,
  type TextRows,
} from '../../store/items-read.js';
import { queryReadOnly } from '../../store/read-only.js';
import { note, print, stdoutLook } from '../console.js';
import { CommandError, usageError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import {
  momentOf,
  notInStore,
  positiveInteger,
  type CommonOptions,
  type TableOptions,
  withCommonOptions,
  withTableOptions,
} from '../options.js';
import { pairs, table } from '../output/table.js';
import { cut, paint, safeLine } from '../output/text.js';
import { FORMATS, RowJson, cellOf, tableColumns, type Format, writeRows } from '../rows.js';

const STATES = ['live', 'missing', 'removed', 'all'] as const;

interface ItemsOptions extends CommonOptions, TableOptions {
  readonly asOf?: Date;
  readonly state?: (typeof STATES)[number];
  readonly item?: number;
  readonly limit?: number;
  readonly format?: Format;
}

/** `items`, `items view ID`: lists items as they are or were, and shows one. */
export function addItems(program: Command): void {
  const command = program
    .command('items')
    .description(
      'Lists the items as they are now or, with --as-of, exactly as the mirror knew them at a moment. A table has the columns that matter most, the other formats have all.',
    )
    .option('--as-of <moment>', 'a day (its beginning, UTC), a moment, or so long ago', momentOf)
    .addOption(
      new Option('--state <state>', 'only these (default: live; with --item all)').choices(STATES),
    )
    .option('--item <id>', 'only this item', positiveInteger)
    .option('--limit <n>', 'how many at most (default: all)', positiveInteger)
    .addOption(
      new Option('--format <format>', 'how to print them (default: table)')
        .choices(FORMATS)
        .conflicts('json'),
    )
    .addHelpText(
      'after',
      '\nExamples:\n  $ seller-mirror items --as-of 2026-03-01\n  $ seller-mirror items view 4711\n  $ seller-mirror items --state removed --format csv > removed.csv\n  $ seller-mirror items --item 4711 --as-of 30d --json',
    );
  withTableOptions(withCommonOptions(command, { seller: true })).action((options: ItemsOptions) =>
    execute((signal) => withApp('items', 'store', signal, (app) => items(app, options, signal))),
  );
  addView(command);
}

async function items(app: App, options: ItemsOptions, signal: AbortSignal): Promise<ExitCode> {
  const { asOf, item: itemId, limit, json, seller } = options;
  const sellers = await sellersIn(app, options);
  const state = options.state ?? (itemId === undefined ? 'live' : 'all');
  const filter: ItemFilter = {
    ...(asOf === undefined ? {} : { asOf }),
    ...(state === 'all' ? {} : { states: [state] }),
    ...(itemId === undefined ? {} : { itemId }),
    ...(limit === undefined ? {} : { limit }),
    ...(seller === undefined ? {} : { sellerIds: [seller] }),
  };
  const format = json === true ? 'json' : (options.format ?? 'table');
  const columns = itemColumns(format === 'table' ? 'few' : 'all', {
    seller: sellers > 1,
    state: state === 'all' || stdoutLook().columns === null,
  });
  await queryReadOnly(
    app.database.url,
    itemsStatement(columns, filter),
    (answer) => writeRows(answer, format, { ...options, moments: 'short' }),
    signal,
  );
  return EXIT.done;
}

/**
 * Counts the sellers whose items are listed. Warns where history begins after the moment.
 * @throws {CommandError} when there is no seller, or nothing is known about the moment
 */
async function sellersIn({ store }: App, { seller, asOf }: ItemsOptions): Promise<number> {
  const all = await store.items.historyStarts();
  const chosen = all.filter(({ sellerId }) => seller === undefined || sellerId === seller);
  if (chosen.length === 0 && seller !== undefined) {
    throw notInStore(seller);
  }
  const gap = asOf === undefined ? null : historyGap(chosen, asOf, new Date());
  if (gap === null) return chosen.length;
  if (gap.kind === 'future') {
    const remedy = 'leave --as-of out for the items as they are now';
    throw usageError('that moment is still to come', remedy);
  }
  const starts = gap.starts.map(({ sellerId, since }) =>
    since === null
      ? `of seller "${sellerId}" no list was mirrored yet`
      : `history of seller "${sellerId}" begins at ${since.toISOString()}`,
  );
  if (gap.kind === 'nothing') {
    throw new CommandError(
      `nothing is known of that moment: ${starts.join('; ') || 'nothing was mirrored yet'}`,
      'give a moment since then',
    );
  }
  note(starts.map((line) => `warning: ${safeLine(line)}\n`).join(''));
  return chosen.length;
}

function addView(items: Command): void {
  const command = items
    .command('view')
    .summary('show one item whole')
    .description(
      'Shows one item whole: all its fields, what it cost and since when, and how many of its purchases are known. JSON also has the record as the marketplace sent it.',
    )
    .argument('<id>', 'the item’s id', positiveInteger)
    .addHelpText(
      'after',
      '\nExamples:\n  $ seller-mirror items view 4711\n  $ seller-mirror items view 4711 --json',
    );
  withCommonOptions(command, { seller: true }).action((id: number, options: CommonOptions) =>
    execute((signal) => withApp('items view', 'store', signal, (app) => view(app, id, options))),
  );
}

async function view({ store }: App, id: number, options: CommonOptions): Promise<ExitCode> {
  const { columns, rows } = await store.items.withId(id, options.seller ?? null);
  const [row] = rows;
  if (row === undefined) {
    throw new CommandError(
      `there is no item ${id}${options.seller === undefined ? '' : ' of this seller'}`,
      '`seller-mirror items --state all` lists them',
    );
  }
  const sellers = rows.map((one) => one[0] ?? '');
  if (sellers.length > 1) {
    throw usageError(
      `several sellers have an item ${id}`,
      `name one with --seller: ${sellers.join(', ')}`,
    );
  }
  const item = { columns, rows };
  const prices = await store.items.priceHistory(sellers[0] ?? '', id);
  await print(options.json === true ? itemJson(item, prices) : itemText(item, prices));
  return EXIT.done;
}

/** Formats an item as JSON: the columns of `reporting.items` and the price history. */
function itemJson({ columns, rows: [row = []] }: TextRows, prices: TextRows): string {
  const lines = new RowJson(prices.columns);
  const history = prices.rows.map((one) => `    ${lines.object(one)}`).join(',\n');
  const members = columns.map((column, n) => {
    return `  ${new RowJson([column]).object([row[n] ?? null]).slice(1, -1)}`;
  });
  return `{\n${[...members, `  "price_history":[\n${history}\n  ]`].join(',\n')}\n}\n`;
}

/** Characters shown of a field; JSON has all of them. */
const MOST_CHARACTERS = 2_000;

/** Formats an item for a person; only JSON has the record as received. */
function itemText({ columns, rows: [row = []] }: TextRows, prices: TextRows): string {
  const look = stdoutLook();
  const fields = new Map(columns.map(({ name }, n) => [name, row[n] ?? null]));
  const title = [`item ${fields.get('item_id')}`, fields.get('name'), fields.get('state')];
  const shown = columns.flatMap(({ name, type }, n): [string, string][] => {
    const value = row[n] ?? null;
    const isEmpty = value === null || (name === 'extra' && value === '{}');
    return isEmpty || name === 'raw' ? [] : [[name, String(cellOf(value, type))]];
  });
  return [
    `${paint('bold', safeLine(title.join(' · ')), look)}\n`,
    pairs(
      shown.map(([name, value]) => [name, cut(value, MOST_CHARACTERS)]),
      look,
    ),
    `${paint('bold', 'prices', look)}\n`,
    table(
      prices.rows,
      tableColumns(prices.columns).map((column) =>
        column.header === 'valid_from' ? { ...column, header: 'since' } : column,
      ),
      look,
    ),
  ].join('');
}
