import { setTimeout as sleep } from 'node:timers/promises';
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { CHANGE_CLASSES, type ChangeClass, type ChangeFold } from '../../domain/changes.js';
import type { CsvDialect } from '../../domain/csv.js';
import { explainDatabaseError } from '../../store/errors.js';
import type { ChangeFilter, ItemChange } from '../../store/item-changes.js';
import {
  CSV_COLUMNS,
  ChangeLines,
  Folds,
  changeCells,
  changeJson,
  type FoldedChanges,
} from '../change-lines.js';
import { note, print, printJson, stdoutLook } from '../console.js';
import { CommandError, usageError } from '../errors.js';
import { appAction } from '../execute.js';
import {
  checkStored,
  described,
  given,
  momentOf,
  onlySeller,
  positiveInteger,
  type CommonOptions,
} from '../options.js';
import { csvDialect, type CsvOptions } from '../out-file.js';
import { csv, type CsvCell, ndjsonLine, withColumnNames } from '../output/formats.js';
import { table } from '../output/table.js';
import { plural, safeLine } from '../output/text.js';
import { writeAll } from '../output/write.js';

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

interface Since {
  readonly after?: bigint;
  readonly from?: Date;
}

/** Reads `--since`: a number of the feed, with or without `#`, or a moment. */
function since(text: string): Since {
  const [, number] = /^#?(\d+)$/.exec(text.trim()) ?? [];
  if (number === undefined) return { from: momentOf(text) };
  if (BigInt(number) < 2n ** 63n) return { after: BigInt(number) };
  throw new InvalidArgumentError(`"${text}" is not the number of a change.`);
}

/** Reads `--class`: classes separated by commas; the option may be repeated. */
function changeClasses(text: string, before: readonly ChangeClass[] = []): ChangeClass[] {
  const found = text.split(',').map((one) => {
    const known = CHANGE_CLASSES.find((kind) => kind === one.trim().toLowerCase());
    if (known !== undefined) return known;
    const classes = CHANGE_CLASSES.join(', ');
    throw new InvalidArgumentError(`"${one.trim()}" is not a class; classes are ${classes}.`);
  });
  return [...new Set([...before, ...found])];
}

/** Without --since, at most this many of the newest changes. */
const NEWEST = 50;
/** With --since, at most this many; the next page starts after them. */
const PAGE = 1_000;

export function add(program: Command): void {
  const command = program
    .command('changes')
    .option('--since <when>', 'a day, a moment (UTC), how long ago (7d), or after #number', since)
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
    .option('--follow', 'then print new changes as they come, until Ctrl-C; in JSON a line each')
    .option(
      '--all',
      'each change, also where most items of a run share it; CSV and JSON have each',
    );
  const summary = new Option(
    '--summary',
    'only how many changes there are, by seller, class and field: all, or those since a place',
  ).conflicts(['follow', 'limit', 'all']);
  const format = new Option('--format <format>', 'how to print them (default: table)');
  described(command, {
    about: `Lists the changes of items, run by run, oldest first: the newest ${NEWEST} changes, or those since a moment or a number of the feed. History begins with the items of the first list: they are not changes. A change that more than half of a seller’s items share in one run, and more than 20, is one line, unless --all is given.`,
    examples: [
      'seller-mirror changes --since 7d --class price',
      'seller-mirror changes --since 7d --summary',
      'seller-mirror changes --item 4711',
      'seller-mirror changes --since 1234 --follow --json',
    ],
    more: 'JSON has in `next` the number to give to --since the next time.',
    options: [
      ...[summary, format.choices(FORMATS).conflicts('json')],
      ...(['decimalComma', 'json', 'seller'] as const),
    ],
  }).action(appAction('store', changes));
}

async function changes(app: App, options: ChangesOptions): Promise<void> {
  const { json, all, item: itemId, class: classes, seller, since: place = {} } = options;
  const format = json === true ? 'json' : (options.format ?? 'table');
  const isFolded = format === 'table' && all !== true && itemId === undefined;
  const { from, after } = place;
  await checkStored(app.store, seller);
  if (after !== undefined) await checkPlace(app, after);
  const view: View = {
    app,
    options,
    format,
    dialect: csvDialect(options, format),
    filter: { ...given({ from, classes, itemId }), ...onlySeller(seller) },
    folds: isFolded ? new Folds(app.store) : null,
    lines: new ChangeLines(stdoutLook()),
  };
  if (options.summary === true) await summarize(view);
  else if (options.follow === true) await follow(view, app.signal);
  else await printPage(view);
}

interface View {
  readonly app: App;
  readonly options: ChangesOptions;
  readonly format: (typeof FORMATS)[number];
  readonly dialect: CsvDialect;
  readonly filter: Omit<ChangeFilter, 'after'>;
  /** Null: each change is shown. */
  readonly folds: Folds | null;
  readonly lines: ChangeLines;
}

/** Refuses a number that is not given yet: the changes up to it would be missed. */
async function checkPlace({ store }: App, after: bigint): Promise<void> {
  const reach = await store.items.greatestFeedNumber();
  if (after <= reach) return;
  throw new CommandError(
    `change ${after} is still to come: this store has given numbers up to ${reach}`,
    'for a year give a day, such as 2026-01-01; if the store was restored from a backup or is another one, start over with --since 0',
  );
}

interface Page extends FoldedChanges {
  readonly next: bigint;
  readonly more: boolean;
}

/** Reads a page. A fold counts as one change, so that it does not fill the page. */
async function readPage({ app: { store }, options, filter, folds: finder }: View): Promise<Page> {
  const { since: place, class: classes } = options;
  // Read first: changes committed meanwhile have later numbers.
  const end = await store.items.feedEnd();
  const limit = options.limit ?? (place === undefined ? NEWEST : PAGE);
  const after = place?.after ?? 0n;
  const direction = place === undefined ? { newest: true } : { after };
  let without: readonly ChangeFold[] = [];
  let found: readonly ItemChange[] = [];
  // Folds leave room for further changes, which may be folds.
  for (let isDone = false; !isDone;) {
    found = await store.items.changes({ ...filter, ...direction, without, limit: limit + 1 });
    const news = (await finder?.of(found)) ?? [];
    without = [...without, ...news];
    isDone = news.length === 0;
  }
  const folds = without.filter(
    (fold) => fold.place > after && classes?.includes(fold.class) !== false,
  );
  const places = [...found.map(({ seq }) => seq), ...folds.map((fold) => fold.place)].sort(
    (a, b) => (a < b ? -1 : 1),
  );
  const shown = place === undefined ? places.slice(-limit) : places.slice(0, limit);
  const [first = 1n, last = 0n] = [shown[0], shown.at(-1)];
  const isShown = (at: bigint): boolean => at >= first && at <= last;
  const more = places.length > limit;
  const reached = [after, last, end].reduce((most, one) => (one > most ? one : most));
  return {
    changes: found.filter(({ seq }) => isShown(seq)),
    folds: folds.filter((fold) => isShown(fold.place)),
    next: more && place !== undefined ? last : reached,
    more,
  };
}

async function printPage(view: View): Promise<void> {
  const { options, format, dialect, lines } = view;
  const page = await readPage(view);
  const { changes, folds, next, more } = page;
  const shown = plural(changes.length + folds.length, 'change');
  if (format === 'json') {
    await printJson({ changes: changes.map(changeJson), next, more });
    return;
  }
  const cells = (change: ItemChange): CsvCell[] => changeCells(change, dialect);
  if (format === 'csv') await printCsv(CSV_COLUMNS, changes.map(cells), dialect);
  else await print(changes.length + folds.length === 0 ? nothing(options) : lines.of(page));
  if (!more) return;
  note(
    options.since === undefined
      ? `(the newest ${shown}; there are more: --limit or --since)\n`
      : `(the first ${shown}; the next ones: --since ${next})\n`,
  );
}

async function printCsv(
  header: readonly string[],
  rows: readonly (readonly CsvCell[])[],
  dialect: CsvDialect,
): Promise<void> {
  const terminal = stdoutLook().columns !== null;
  await writeAll(process.stdout, csv(header, rows, { terminal, dialect }));
}

async function summarize({
  app: { store },
  options,
  filter,
  format,
  dialect,
}: View): Promise<void> {
  const { after } = options.since ?? {};
  const counted = await store.items.changeCounts({ ...filter, ...given({ after }) });
  const counts = counted.map(({ sellerId, class: kind, field, changes, items }) => {
    const shown = field === 'state' ? null : field;
    return { seller_id: sellerId, class: kind, field: shown, changes, items };
  });
  const columns = ['seller_id', 'class', 'field', 'changes', 'items'] as const;
  if (format === 'json') {
    await printJson({ changes: counts.reduce((sum, { changes }) => sum + changes, 0), counts });
  } else if (format === 'csv') {
    await printCsv(columns, counts.map(Object.values), dialect);
  } else if (counts.length === 0) {
    await print(nothing(options));
  } else {
    const shown = columns.map((name) => ({
      header: name === 'seller_id' ? 'seller' : name,
      value: (row: (typeof counts)[number]) => row[name],
    }));
    await print(table(counts, shown, stdoutLook()));
  }
}

function nothing({ since: place, class: classes, item }: ChangesOptions): string {
  return place === undefined && classes === undefined && item === undefined
    ? 'No change yet: history begins with the first list; changes are what later runs find different.\n'
    : 'There is no such change.\n';
}

async function follow(view: View, signal: AbortSignal): Promise<void> {
  const { options, format, folds, lines } = view;
  if (format === 'csv') {
    const why = '--follow prints a table, or with --json a line for each change';
    throw usageError(why, 'leave --format csv or --follow out');
  }
  const show = (found: FoldedChanges): Promise<void> =>
    print(
      format === 'json'
        ? found.changes.map((one) => ndjsonLine(withColumnNames(changeJson(one)))).join('')
        : lines.of(found),
    );
  let after = options.since?.after ?? 0n;
  if (options.since === undefined) {
    // The newest changes are shown first, as `tail -f` does.
    const page = await readPage(view);
    await show(page);
    after = page.next;
  }
  for await (const changes of followChanges(view, after, signal)) {
    await show((await folds?.fold(changes)) ?? { changes, folds: [] });
    after = changes.at(-1)?.seq ?? after;
  }
  if (format !== 'json') note(`to continue from here: --since ${after} --follow\n`);
}

const POLL_MS = 1_000;
const FOLLOW_PAGE = 500;

/**
 * Yields changes after a number of the feed as they are committed, in pages, until the signal. None is
 * missed and none comes twice, also when the database restarts. Polls, because notifications pass
 * neither poolers nor connections that died silently.
 */
async function* followChanges(
  { app: { store, database }, filter }: View,
  after: bigint,
  signal: AbortSignal,
): AsyncGenerator<readonly ItemChange[], void, undefined> {
  let place = after;
  let out = false;
  while (!signal.aborted) {
    let page: readonly ItemChange[] = [];
    try {
      page = await store.items.changes({ ...filter, after: place, limit: FOLLOW_PAGE });
      if (out) note('the database is back\n');
      out = false;
    } catch (error) {
      const problem = explainDatabaseError(error, database.url);
      if (problem === null) throw error;
      if (!out) note(`${safeLine(problem.message)}; trying again\n`);
      out = true;
    }
    place = page.at(-1)?.seq ?? place;
    if (page.length > 0) yield page;
    if (page.length < FOLLOW_PAGE)
      await sleep(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}
