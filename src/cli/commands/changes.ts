import { setTimeout as sleep } from 'node:timers/promises';
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { CHANGE_CLASSES, type ChangeClass } from '../../catalogue/changes.js';
import type { CsvDialect } from '../../domain/csv.js';
import type { Db } from '../../db/db.js';
import type { Listing } from '../../listing/listing.js';
import { explainDatabaseError } from '../../db/errors.js';
import {
  type ChangeCount,
  type ChangeFilter,
  type ItemChange,
  readGreatestChangeNumber,
  readLastChangeNumber,
  readChanges,
  countChanges,
} from '../../catalogue/item-changes-store.js';
import {
  CHANGES,
  currencyOf,
  FoldFinder,
  percentOf,
  readShownChanges,
  type ShownChange,
} from '../../catalogue/changes-listing.js';
import { listingTable, printCsv } from '../listing.js';
import { printNote, print, printJson, write } from '../console.js';
import { CommandError, usageError } from '../errors.js';
import { appAction } from '../execute.js';
import {
  assertSeller,
  describeCommand,
  withoutUndefined,
  parseMoment,
  sellerFilter,
  positiveInteger,
  type CommonOptions,
} from '../options.js';
import { csvDialect, type CsvOptions } from '../out-file.js';
import { ndjsonLine, withColumnNames } from '../output/formats.js';
import { safeLine } from '../output/text.js';
import { plural } from '../../domain/text.js';

const FORMATS = ['table', 'csv', 'json'] as const;

interface ChangesOptions extends CommonOptions, CsvOptions {
  readonly since?: Since;
  readonly class?: readonly ChangeClass[];
  readonly item?: number;
  readonly limit?: number;
  readonly follow?: boolean;
  readonly summary?: boolean;
  readonly all?: boolean;
  readonly format?: (typeof FORMATS)[number];
}

/** Where to start: after the change with this number, or at a moment. */
interface Since {
  readonly after?: bigint;
  readonly from?: Date;
}

/** Reads `--since`: a change's number, with or without `#`, or a moment. */
function sinceOf(text: string): Since {
  const [, number] = /^#?(\d+)$/.exec(text.trim()) ?? [];
  if (number === undefined) return { from: parseMoment(text) };
  if (BigInt(number) < 2n ** 63n) return { after: BigInt(number) };
  throw new InvalidArgumentError(`"${text}" is too large for the number of a change.`);
}

/** Reads `--class`: classes separated by commas. @param before those of an earlier `--class` */
function changeClasses(text: string, before: readonly ChangeClass[] = []): ChangeClass[] {
  const found = text.split(',').map((one) => {
    const known = CHANGE_CLASSES.find((kind) => kind === one.trim().toLowerCase());
    if (known !== undefined) return known;
    const classes = CHANGE_CLASSES.join(', ');
    throw new InvalidArgumentError(`"${one.trim()}" is not a class; classes are ${classes}.`);
  });
  return [...new Set([...before, ...found])];
}

/** Default limit without --since: the newest changes. */
const NEWEST = 50;
/** Default limit with --since; the next page starts after them. */
const PAGE = 1_000;

export function add(program: Command): void {
  const command = program
    .command('changes')
    .option('--since <when>', 'a day, a moment (UTC), an age (7d), or a change’s number', sinceOf)
    .option(
      '--class <classes>',
      'only price, release, text, media, added, missing, removed, restored',
      changeClasses,
    )
    .option('--item <id>', 'only this item', positiveInteger)
    .option(
      '--limit <n>',
      `how many at most (default: ${NEWEST}; with --since ${PAGE})`,
      positiveInteger,
    )
    .option('--follow', 'then print new changes as they come, until Ctrl-C; as JSON, one per line')
    .option('--all', 'print a line for each item, also for the same change of many items');
  const summary = new Option(
    '--summary',
    'only count the changes, by seller, class and field',
  ).conflicts(['follow', 'limit', 'all']);
  const format = new Option('--format <format>', 'how to print them (default: table)');
  describeCommand(command, {
    about: `Lists the changes of items, oldest first: the newest ${NEWEST}, or those since a moment or since a change’s number. The first list starts the history: its items are not changes. If more than 20 items change in the same way in one run, as in a sale, one line stands for all of them; --all prints a line for each. CSV and JSON always have a line for each.`,
    examples: [
      'seller-mirror changes --since 7d --class price',
      'seller-mirror changes --since 7d --summary',
      'seller-mirror changes --item 4711',
      'seller-mirror changes --since 1234 --follow --json',
    ],
    more: 'In JSON, `next` is the number for the next --since.',
    options: [
      ...[summary, format.choices(FORMATS).conflicts('json')],
      ...(['decimalComma', 'json', 'seller'] as const),
    ],
  }).action(appAction('store', changes));
}

async function changes(app: App, options: ChangesOptions): Promise<void> {
  const { json, all, item: itemId, class: classes, seller, since = {} } = options;
  const format = json === true ? 'json' : (options.format ?? 'table');
  const isFolded = format === 'table' && all !== true && itemId === undefined;
  await assertSeller(app, seller);
  if (since.after !== undefined) await checkNumber(app, since.after);
  const view: View = {
    app,
    options,
    format,
    dialect: csvDialect(options, format),
    filter: { ...withoutUndefined({ from: since.from, classes, itemId }), ...sellerFilter(seller) },
    folds: isFolded ? new FoldFinder(app.db) : null,
  };
  if (options.summary === true) await summarize(view);
  else if (options.follow === true) await follow(view);
  else await printPage(view);
}

/** What to show, and how. */
interface View {
  readonly app: App;
  readonly options: ChangesOptions;
  readonly format: (typeof FORMATS)[number];
  readonly dialect: CsvDialect;
  readonly filter: Omit<ChangeFilter, 'after'>;
  /** Null: each change is shown. */
  readonly folds: FoldFinder | null;
}

/** Refuses a number that no change has yet: the changes up to it would be skipped. */
async function checkNumber({ db }: App, after: bigint): Promise<void> {
  const highest = await readGreatestChangeNumber(db);
  if (after <= highest) return;
  throw new CommandError(
    `there is no change ${after} yet: the highest number in this store is ${highest}`,
    'for a year give a day, such as 2026-01-01; if the store was restored or is a different one, start over with --since 0',
  );
}

interface Page {
  readonly rows: readonly ShownChange[];
  readonly next: bigint;
  readonly more: boolean;
}

async function readPage({ app: { db }, options, filter, folds }: View): Promise<Page> {
  const { since } = options;
  // Read first, so that changes committed meanwhile have later numbers.
  const end = await readLastChangeNumber(db);
  const limit = options.limit ?? (since === undefined ? NEWEST : PAGE);
  const after = since?.after ?? 0n;
  const direction = since === undefined ? { newest: true } : { after };
  const found = await readShownChanges(db, { ...filter, ...direction, limit: limit + 1 }, folds);
  const more = found.length > limit;
  const rows = since === undefined ? found.slice(-limit) : found.slice(0, limit);
  const last = rows.at(-1)?.seq ?? 0n;
  const reached = [after, last, end].reduce((most, one) => (one > most ? one : most));
  return { rows, next: more && since !== undefined ? last : reached, more };
}

async function printPage(view: View): Promise<void> {
  const { options, format, dialect } = view;
  const { rows, next, more } = await readPage(view);
  if (format === 'json') {
    await printJson({ changes: rows.map(changeJson), next, more });
    return;
  }
  if (format === 'csv') await printCsv(CHANGES, onePage(rows), dialect);
  else if (rows.length === 0) await print(noChanges(options));
  else await write(listingTable(CHANGES, rows));
  if (!more) return;
  const shown = plural(rows.length, 'change');
  printNote(
    options.since === undefined
      ? `(the newest ${shown}; --limit or --since shows more)\n`
      : `(the first ${shown}; the next ones: --since ${next})\n`,
  );
}

async function* onePage<Row>(rows: Row): AsyncGenerator<Row, void, undefined> {
  yield await Promise.resolve(rows);
}

/** Formats a change for `--json`. */
function changeJson(change: ShownChange): object {
  const { fold: _, currencies: __, old, new: now, ...rest } = change;
  const money = { currency: currencyOf(change), percent: percentOf(change) };
  return { ...rest, old_value: old, new_value: now, ...money };
}

/** The counts of `--summary`. */
const COUNTS: Pick<Listing<ChangeCount, Db>, 'columns'> = {
  columns: [
    { name: 'seller_id', only: 'files', type: 'word', value: ({ sellerId }) => sellerId },
    { name: 'seller', only: 'tables', type: 'seller', value: ({ sellerId }) => sellerId },
    { name: 'class', type: 'word', value: (count) => count.class },
    { name: 'field', type: 'word', value: ({ field }) => (field === 'state' ? null : field) },
    { name: 'changes', type: 'count', value: ({ changes }) => changes },
    { name: 'items', type: 'count', value: ({ items }) => items },
  ],
};

async function summarize({ app, options, filter, format, dialect }: View): Promise<void> {
  const after = options.since?.after;
  const counts = await countChanges(app.db, { ...filter, ...withoutUndefined({ after }) });
  if (format === 'json') {
    const shown = counts.map((one) => ({
      ...one,
      field: one.field === 'state' ? null : one.field,
    }));
    await printJson({ changes: counts.reduce((sum, one) => sum + one.changes, 0), counts: shown });
  } else if (format === 'csv') await printCsv(COUNTS, onePage(counts), dialect);
  else if (counts.length === 0) await print(noChanges(options));
  else await write(listingTable(COUNTS, counts));
}

function noChanges({ since, class: classes, item }: ChangesOptions): string {
  return since === undefined && classes === undefined && item === undefined
    ? `${CHANGES.none}\n`
    : 'No such changes.\n';
}

async function follow(view: View): Promise<void> {
  const { options, format, folds } = view;
  if (format === 'csv') {
    throw usageError(
      '--follow prints a table, or with --json one line per change',
      'leave --format csv or --follow out',
    );
  }
  if (options.since !== undefined && options.limit !== undefined) {
    throw usageError(
      '--limit can’t be used with both --since and --follow, which prints every change',
      'leave --limit or --since out',
    );
  }
  let hasHeader = true;
  const show = (rows: readonly ShownChange[]): Promise<boolean> => {
    if (format === 'json') {
      return write(rows.map((one) => ndjsonLine(withColumnNames(changeJson(one)))).join(''));
    }
    const text = rows.length === 0 ? '' : listingTable(CHANGES, rows, { hasHeader });
    hasHeader &&= rows.length === 0;
    return write(text);
  };
  let after = options.since?.after ?? 0n;
  if (options.since === undefined) {
    // Starts with the newest changes, as `tail -f` does.
    const page = await readPage(view);
    if (!(await show(page.rows))) return;
    after = page.next;
  }
  for await (const changes of followChanges(view, after)) {
    const rows = await folds?.fold(changes);
    if (!(await show(rows ?? changes.map((change) => ({ ...change, fold: null }))))) return;
    after = changes.at(-1)?.seq ?? after;
  }
  if (format !== 'json') printNote(`to continue from here: --since ${after} --follow\n`);
}

const POLL_MS = 1_000;
const FOLLOW_PAGE = 500;

/**
 * Yields the changes after a number in pages, as they are committed, until the signal. Yields each change
 * once, also when the database restarts. Polls, because notifications pass neither poolers nor connections
 * that died silently.
 */
async function* followChanges(
  { app: { db, database, signal }, filter }: View,
  after: bigint,
): AsyncGenerator<readonly ItemChange[], void, undefined> {
  let last = after;
  let isDown = false;
  while (!signal.aborted) {
    let page: readonly ItemChange[] = [];
    try {
      page = await readChanges(db, { ...filter, after: last, limit: FOLLOW_PAGE });
      if (isDown) printNote('the database is back\n');
      isDown = false;
    } catch (error) {
      const problem = explainDatabaseError(error, database.url);
      if (problem === null) throw error;
      if (!isDown) printNote(`${safeLine(problem.message)}; trying again\n`);
      isDown = true;
    }
    last = page.at(-1)?.seq ?? last;
    if (page.length > 0) yield page;
    if (page.length < FOLLOW_PAGE) {
      await sleep(POLL_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}
