import { setTimeout as sleep } from 'node:timers/promises';
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { CHANGE_CLASSES, type ChangeClass, type ChangeFold } from '../../domain/changes.js';
import { explainDatabaseError } from '../../store/errors.js';
import type { ChangeFilter, ItemChange } from '../../store/history-read.js';
import type { Store } from '../../store/store.js';
import {
  CHANGE_COLUMNS,
  ChangeLines,
  Folds,
  changeCells,
  changeJson,
  type FoldedChanges,
} from '../change-lines.js';
import { note, print, printJson, stdoutLook } from '../console.js';
import { CommandError, usageError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import {
  momentOf,
  notInStore,
  positiveInteger,
  withCommonOptions,
  type CommonOptions,
} from '../options.js';
import { csv, type CsvCell, ndjsonLine, withColumnNames } from '../output/formats.js';
import { table } from '../output/table.js';
import { plural, safeLine } from '../output/text.js';
import { writeAll } from '../output/write.js';

const FORMATS = ['table', 'csv', 'json'] as const;

interface ChangesOptions extends CommonOptions {
  readonly since?: Since;
  readonly class?: readonly ChangeClass[];
  readonly item?: number;
  readonly limit?: number;
  readonly follow?: true;
  readonly summary?: true;
  readonly all?: true;
  readonly format?: (typeof FORMATS)[number];
}

/** Where changes start: after a number of the feed, or at a moment. */
type Since = { readonly after: bigint } | { readonly from: Date };

const MOST_NUMBER = 2n ** 63n - 1n;

/** Reads `--since`: a number of the feed, with or without `#`, or a moment. */
function since(text: string): Since {
  const [, number] = /^#?(\d+)$/.exec(text.trim()) ?? [];
  if (number !== undefined) {
    if (BigInt(number) <= MOST_NUMBER) return { after: BigInt(number) };
    throw new InvalidArgumentError(`"${text}" is not the number of a change.`);
  }
  return { from: momentOf(text) };
}

/** Reads `--class`: classes separated by commas; the option may be repeated. */
function changeClasses(text: string, before: readonly ChangeClass[] = []): ChangeClass[] {
  const given = text.split(',').map((one) => one.trim().toLowerCase());
  return [...new Set([...before, ...given.map(changeClass)])];
}

function changeClass(text: string): ChangeClass {
  const found = CHANGE_CLASSES.find((one) => one === text);
  if (found !== undefined) return found;
  throw new InvalidArgumentError(
    `"${text}" is not a class; classes are ${CHANGE_CLASSES.join(', ')}.`,
  );
}

/** Without --since, at most this many of the newest changes. */
const NEWEST = 50;
/** With --since, at most this many; the next page starts after them. */
const PAGE = 1_000;

/** `changes`: lists, counts or follows the changes of items. */
export function addChanges(program: Command): void {
  const command = program
    .command('changes')
    .description(
      `Lists the changes of items, run by run, oldest first: the newest ${NEWEST} changes, or those since a moment or a number of the feed. History begins with the items of the first list: they are no changes. A change that more than half of a seller’s items share in one run, and more than 20, is one line, unless --all is given.`,
    )
    .option('--since <when>', 'a day, a moment (UTC), so long ago, or after #number', since)
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
    .option('--all', 'each change, also where most items of a run share it; CSV and JSON have each')
    .addOption(
      new Option(
        '--summary',
        'only how many changes there are, by seller, class and field: all, or those since a place',
      ).conflicts(['follow', 'limit', 'all']),
    )
    .addOption(
      new Option('--format <format>', 'how to print them (default: table)')
        .choices(FORMATS)
        .conflicts('json'),
    )
    .addHelpText(
      'after',
      '\nExamples:\n  $ seller-mirror changes --since 7d --class price\n  $ seller-mirror changes --since 7d --summary\n  $ seller-mirror changes --item 4711\n  $ seller-mirror changes --since 1234 --follow --json\n\nJSON has in `next` the number to give to --since the next time.',
    );
  withCommonOptions(command, { seller: true }).action((options: ChangesOptions) =>
    execute((signal) =>
      withApp('changes', 'store', signal, async (app) => {
        const format = options.json === true ? 'json' : (options.format ?? 'table');
        const isFolded = format === 'table' && options.all !== true && options.item === undefined;
        const folds = isFolded ? new Folds(app.store) : null;
        const view = { app, options, format, folds, lines: new ChangeLines(stdoutLook()) };
        await checkSeller(app, options.seller);
        await checkPlace(app, options.since);
        if (options.summary === true) return await summarize(view);
        return options.follow === true ? await follow(view, signal) : await printPage(view);
      }),
    ),
  );
}

interface View {
  readonly app: App;
  readonly options: ChangesOptions;
  readonly format: (typeof FORMATS)[number];
  /** Null: each change is shown. */
  readonly folds: Folds | null;
  readonly lines: ChangeLines;
}

async function checkSeller({ store }: App, seller: string | undefined): Promise<void> {
  if (seller === undefined || (await store.sellers.bindingOf(seller)) !== null) return;
  throw notInStore(seller);
}

/** Refuses a number that is not given yet: the changes up to it would be missed. */
async function checkPlace({ store }: App, place: Since | undefined): Promise<void> {
  if (place === undefined || !('after' in place)) return;
  const reach = await store.items.feedReach();
  if (place.after <= reach) return;
  throw new CommandError(
    `change ${place.after} is still to come: this store has given numbers up to ${reach}`,
    'for a year give a day, such as 2026-01-01; if the store was restored from a backup or is another one, start over with --since 0',
  );
}

function filterOf(options: ChangesOptions): Omit<ChangeFilter, 'after'> {
  const { since: place, class: classes, item: itemId, seller } = options;
  return {
    ...(place !== undefined && 'from' in place ? { from: place.from } : {}),
    ...(classes === undefined ? {} : { classes }),
    ...(itemId === undefined ? {} : { itemId }),
    ...(seller === undefined ? {} : { sellerIds: [seller] }),
  };
}

/** A page of changes: the number after which the next page starts, and whether there are more. */
interface Page extends FoldedChanges {
  readonly next: bigint;
  readonly more: boolean;
}

/** Reads a page. A fold counts as one change, so that it does not fill the page. */
async function readPage({ app: { store }, options, folds: finder }: View): Promise<Page> {
  const { since: place } = options;
  const filter = filterOf(options);
  // Read first: changes committed meanwhile have later numbers.
  const end = await store.items.feedEnd();
  const limit = options.limit ?? (place === undefined ? NEWEST : PAGE);
  const after = place !== undefined && 'after' in place ? place.after : 0n;
  const direction = place === undefined ? { newest: true } : { after };
  let without: readonly ChangeFold[] = [];
  let found: ItemChange[] = [];
  for (let isDone = false; !isDone;) {
    found = await store.items.changes({ ...filter, ...direction, without, limit: limit + 1 });
    const news = (await finder?.of(found)) ?? [];
    without = [...without, ...news];
    isDone = news.length === 0;
  }
  const isChosen = ({ class: kind, place: at }: ChangeFold): boolean =>
    at > after && options.class?.includes(kind) !== false;
  const places = [
    ...found.map(({ seq }) => seq),
    ...without.filter(isChosen).map((fold) => fold.place),
  ].sort((a, b) => (a < b ? -1 : 1));
  const shown = place === undefined ? places.slice(-limit) : places.slice(0, limit);
  const [first = 0n, last = after] = [shown[0], shown.at(-1)];
  const isShown = (at: bigint): boolean => at >= first && at <= last;
  const more = places.length > limit;
  const reached = last > end ? last : end;
  return {
    changes: shown.length === 0 ? [] : found.filter(({ seq }) => isShown(seq)),
    folds:
      shown.length === 0 ? [] : without.filter((fold) => isChosen(fold) && isShown(fold.place)),
    next: more && place !== undefined ? last : reached > after ? reached : after,
    more,
  };
}

async function printPage(view: View): Promise<ExitCode> {
  const { options, format, lines } = view;
  const page = await readPage(view);
  const { changes, folds, next, more } = page;
  if (format === 'json') {
    await printJson({ changes: changes.map(changeJson), next, more });
    return EXIT.done;
  }
  if (format === 'csv') await printCsv(CHANGE_COLUMNS, changes.map(changeCells));
  else await print(changes.length + folds.length === 0 ? nothing(options) : lines.of(page));
  if (more) note(moreHint(options, changes.length + folds.length, next));
  return EXIT.done;
}

async function printCsv(
  header: readonly string[],
  rows: readonly (readonly CsvCell[])[],
): Promise<void> {
  await writeAll(process.stdout, csv(header, rows, { terminal: stdoutLook().columns !== null }));
}

/** Counts changes by seller and class, and by field where fields changed. */
async function summarize({ app: { store }, options, format }: View): Promise<ExitCode> {
  const { since: place } = options;
  const after = place !== undefined && 'after' in place ? { after: place.after } : {};
  const counted = await store.items.changeCounts({ ...filterOf(options), ...after });
  const counts = counted.map(({ sellerId, class: kind, field, changes, items }) => {
    return {
      seller_id: sellerId,
      class: kind,
      field: field === 'state' ? null : field,
      changes,
      items,
    };
  });
  const columns = ['seller_id', 'class', 'field', 'changes', 'items'] as const;
  if (format === 'json') {
    await printJson({ changes: counts.reduce((sum, { changes }) => sum + changes, 0), counts });
  } else if (format === 'csv') {
    await printCsv(
      columns,
      counts.map((row) => columns.map((name) => row[name])),
    );
  } else if (counts.length === 0) {
    await print(nothing(options));
  } else {
    const shown = columns.map((name) => {
      const isNumber = name === 'changes' || name === 'items';
      const header = name === 'seller_id' ? 'seller' : name;
      const align = isNumber ? ('right' as const) : ('left' as const);
      return { header, align, value: (row: (typeof counts)[number]) => row[name] };
    });
    await print(table(counts, shown, stdoutLook()));
  }
  return EXIT.done;
}

function nothing({ since: place, class: classes, item }: ChangesOptions): string {
  return place === undefined && classes === undefined && item === undefined
    ? 'No change yet: history begins with the first list; changes are what later runs find different.\n'
    : 'There is no such change.\n';
}

function moreHint({ since: place }: ChangesOptions, shown: number, next: bigint): string {
  return place === undefined
    ? `(the newest ${plural(shown, 'change')}; there are more: --limit or --since)\n`
    : `(the first ${plural(shown, 'change')}; the next ones: --since ${next})\n`;
}

async function follow(view: View, signal: AbortSignal): Promise<ExitCode> {
  const { app, options, format, folds, lines } = view;
  if (format === 'csv') {
    const why = '--follow prints a table, or with --json a line for each change';
    throw usageError(why, 'leave --format csv or --follow out');
  }
  const json = format === 'json';
  const show = (found: FoldedChanges): Promise<void> =>
    print(
      json
        ? found.changes.map((one) => ndjsonLine(withColumnNames(changeJson(one)))).join('')
        : lines.of(found),
    );
  let after = await placeToFollow(view, show);
  const following = {
    ...{ store: app.store, databaseUrl: app.database.url, filter: filterOf(options), after },
    onOutage: (problem: string | null): void => {
      const text = problem === null ? 'the database is back' : `${problem}; trying again`;
      note(`${safeLine(text)}\n`);
    },
  };
  for await (const changes of followChanges(following, signal)) {
    await show((await folds?.fold(changes)) ?? { changes, folds: [] });
    after = changes.at(-1)?.seq ?? after;
  }
  if (!json) note(`to continue from here: --since ${after} --follow\n`);
  return EXIT.done;
}

/** Where following starts. Without --since the newest changes are shown first, as `tail -f` does. */
async function placeToFollow(
  view: View,
  show: (found: FoldedChanges) => Promise<void>,
): Promise<bigint> {
  const { since: place } = view.options;
  if (place !== undefined) return 'after' in place ? place.after : 0n;
  const page = await readPage(view);
  if (page.changes.length + page.folds.length > 0) await show(page);
  return page.next;
}

/** How often new changes are looked for. */
const POLL_MS = 1_000;
const FOLLOW_PAGE = 500;

interface Following {
  readonly store: Pick<Store, 'items'>;
  /** Used to explain the database driver's errors; never shown. */
  readonly databaseUrl: string;
  readonly filter: Omit<ChangeFilter, 'after'>;
  /** The number in the feed after which following starts. */
  readonly after: bigint;
  /** Called when the database can't be reached, and with null when it can again. */
  readonly onOutage: (problem: string | null) => void;
}

/**
 * Yields changes as they are committed, in pages, until the signal. None is missed and none comes
 * twice, also when the database restarts. Polls, because notifications pass neither poolers nor
 * connections that died silently.
 */
async function* followChanges(
  { store, databaseUrl, filter, after, onOutage }: Following,
  signal: AbortSignal,
): AsyncGenerator<readonly ItemChange[], void, undefined> {
  let [place, out] = [after, false];
  while (!signal.aborted) {
    let page: readonly ItemChange[] = [];
    try {
      page = await store.items.changes({ ...filter, after: place, limit: FOLLOW_PAGE });
      if (out) onOutage(null);
      out = false;
    } catch (error) {
      const problem = explainDatabaseError(error, databaseUrl);
      if (problem === null) throw error;
      if (!out) onOutage(problem.message);
      out = true;
    }
    place = page.at(-1)?.seq ?? place;
    if (page.length > 0) yield page;
    if (page.length < FOLLOW_PAGE)
      await sleep(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}
