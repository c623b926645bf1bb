import { Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { historyGap } from '../../domain/history-gap.js';
import type { ItemFilter } from '../../store/items-read.js';
import { itemColumns, itemsStatement } from '../../store/items-read.js';
import { queryReadOnly } from '../../store/read-only.js';
import { momentOf } from '../changes/since.js';
import { CommandError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { notInStore, positiveInteger, withCommonOptions, type CommonOptions } from '../options.js';
import { safeLine, writeAll } from '../output/index.js';
import { FORMATS, linesOf, type Format } from '../rows-out.js';

const STATES = ['live', 'missing', 'removed', 'all'] as const;

interface ItemsOptions extends CommonOptions {
  readonly asOf?: Date;
  readonly state?: (typeof STATES)[number];
  readonly item?: number;
  readonly limit?: number;
  readonly format?: Format;
}

/** `items`: the catalogue as it is, or as it was. */
export function addItems(program: Command): void {
  const command = program
    .command('items')
    .summary('list the items, as they are or as they were')
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
      '\nExamples:\n  $ seller-mirror items --as-of 2026-03-01\n  $ seller-mirror items --state removed --format csv > removed.csv\n  $ seller-mirror items --item 4711 --as-of 30d --json',
    );
  withCommonOptions(command, { seller: true }).action((options: ItemsOptions) =>
    execute((signal) => withApp('items', 'store', signal, (app) => items(app, options, signal))),
  );
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
  const columns = itemColumns(format === 'table' ? 'few' : 'all', sellers > 1);
  await queryReadOnly(
    app.database.url,
    itemsStatement(columns, filter),
    (answer) => writeAll(process.stdout, linesOf(answer, format)),
    signal,
  );
  return EXIT.done;
}

/**
 * How many sellers it is about.
 * @throws {CommandError} when there is none, or nothing is known of that moment
 */
async function sellersIn({ store }: App, { seller, asOf }: ItemsOptions): Promise<number> {
  const all = await store.historyStarts();
  const chosen = all.filter(({ sellerId }) => seller === undefined || sellerId === seller);
  if (chosen.length === 0 && seller !== undefined) {
    throw notInStore(seller);
  }
  const gap = asOf === undefined ? null : historyGap(chosen, asOf, new Date());
  if (gap === null) return chosen.length;
  if (gap.kind === 'future') {
    const remedy = 'leave --as-of out for the items as they are now';
    throw new CommandError('that moment is still to come', remedy, EXIT.usage);
  }
  const told = gap.starts.map(({ sellerId, since }) =>
    since === null
      ? `of seller "${sellerId}" no list was mirrored yet`
      : `history of seller "${sellerId}" begins at ${since.toISOString()}`,
  );
  if (gap.kind === 'nothing') {
    throw new CommandError(
      `nothing is known of that moment: ${told.join('; ') || 'nothing was mirrored yet'}`,
      'give a moment since then',
    );
  }
  process.stderr.write(told.map((line) => `warning: ${safeLine(line)}\n`).join(''));
  return chosen.length;
}
