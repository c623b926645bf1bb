import type { Command } from 'commander';
import type { App } from '../../app.js';
import type { ChangeClass } from '../../domain/changes.js';
import type { ChangeFilter, ItemChange } from '../../store/history-read.js';
import { followChanges } from '../changes/follow.js';
import { changeJson, ChangeLines } from '../changes/lines.js';
import { changeClasses, since, type Since } from '../changes/since.js';
import { print, printJson, stdoutLook, note } from '../console.js';
import { CommandError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { notInStore, positiveInteger, withCommonOptions, type CommonOptions } from '../options.js';
import { ndjsonLine, plural, safeLine } from '../output/index.js';

interface ChangesOptions extends CommonOptions {
  readonly since?: Since;
  readonly class?: readonly ChangeClass[];
  readonly item?: number;
  readonly limit?: number;
  readonly follow?: true;
}

/** The newest ones, for who only looks. */
const NEWEST = 50;
/** Of those since a place, the first so many; the next ones begin where they end. */
const PAGE = 1_000;

/** `changes`: what changed about the items. */
export function addChanges(program: Command): void {
  const command = program
    .command('changes')
    .summary('tell what changed about the items')
    .description(
      `Tells what changed about the items, run by run, oldest first: the newest ${NEWEST} changes, or those since a moment or a number of the feed. The items of the first list are where history begins and are not told.`,
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
    .option('--follow', 'go on with new ones as they come, until Ctrl-C; JSON is then a line each')
    .addHelpText(
      'after',
      '\nExamples:\n  $ seller-mirror changes --since 7d --class price\n  $ seller-mirror changes --item 4711\n  $ seller-mirror changes --since 1234 --follow --json\n\nJSON has in `next` the number to give to --since the next time.',
    );
  withCommonOptions(command, { seller: true }).action((options: ChangesOptions) =>
    execute((signal) =>
      withApp('changes', 'store', signal, async (app) => {
        const view = { app, options, lines: new ChangeLines(stdoutLook()) };
        await checkSeller(app, options.seller);
        await checkPlace(app, options.since);
        return options.follow === true ? await follow(view, signal) : await tell(view);
      }),
    ),
  );
}

interface View {
  readonly app: App;
  readonly options: ChangesOptions;
  readonly lines: ChangeLines;
}

async function checkSeller({ store }: App, seller: string | undefined): Promise<void> {
  if (seller === undefined || (await store.bindingOf(seller)) !== null) return;
  throw notInStore(seller);
}

/** Who went on after a number that is still to come would miss all changes up to it. */
async function checkPlace({ store }: App, place: Since | undefined): Promise<void> {
  if (place === undefined || !('after' in place)) return;
  const reach = await store.feedReach();
  if (place.after <= reach) return;
  throw new CommandError(
    `change ${place.after} is still to come: this store has given numbers up to ${reach}`,
    'for a year give a day, such as 2026-01-01; if the store was restored from a backup or is another one, begin anew with --since 0',
  );
}

function filterOf(options: ChangesOptions): Omit<ChangeFilter, 'after' | 'limit' | 'newest'> {
  const { since: place, class: classes, item: itemId, seller } = options;
  return {
    ...(place !== undefined && 'from' in place ? { from: place.from } : {}),
    ...(classes === undefined ? {} : { classes }),
    ...(itemId === undefined ? {} : { itemId }),
    ...(seller === undefined ? {} : { sellerIds: [seller] }),
  };
}

/** Some changes, where to go on after them, and whether there are more in that direction. */
interface Page {
  readonly changes: readonly ItemChange[];
  readonly next: bigint;
  readonly more: boolean;
}

async function readPage({ app: { store }, options }: View): Promise<Page> {
  const { since: place } = options;
  const filter = filterOf(options);
  // Asked for first: what is committed meanwhile comes after it.
  const end = await store.feedEnd();
  const limit = options.limit ?? (place === undefined ? NEWEST : PAGE);
  if (place === undefined) {
    const found = await store.changes({ ...filter, newest: true, limit: limit + 1 });
    const changes = found.slice(-limit);
    return { changes, next: later(end, changes), more: found.length > limit };
  }
  const after = 'after' in place ? place.after : 0n;
  const found = await store.changes({ ...filter, after, limit: limit + 1 });
  const changes = found.slice(0, limit);
  const more = found.length > limit;
  const last = changes.at(-1)?.seq ?? after;
  return { changes, next: more ? last : later(end > after ? end : after, changes), more };
}

function later(end: bigint, changes: readonly ItemChange[]): bigint {
  const last = changes.at(-1)?.seq ?? 0n;
  return last > end ? last : end;
}

async function tell(view: View): Promise<ExitCode> {
  const { options, lines } = view;
  const { changes, next, more } = await readPage(view);
  if (options.json === true) {
    await printJson({ changes: changes.map(changeJson), next, more });
  } else if (changes.length === 0) {
    await print(nothing(options));
  } else {
    await print(lines.of(changes));
    if (more) note(hint(options, changes, next));
  }
  return EXIT.done;
}

function nothing({ since: place, class: classes, item }: ChangesOptions): string {
  return place === undefined && classes === undefined && item === undefined
    ? 'No change yet: history begins with the first list, and tells what later runs find to be different.\n'
    : 'There is no such change.\n';
}

function hint(
  { since: place }: ChangesOptions,
  changes: readonly ItemChange[],
  next: bigint,
): string {
  return place === undefined
    ? `(the newest ${plural(changes.length, 'change')}; there are more: --limit or --since)\n`
    : `(the first ${plural(changes.length, 'change')}; those after them: --since ${next})\n`;
}

async function follow(view: View, signal: AbortSignal): Promise<ExitCode> {
  const { app, options, lines } = view;
  const json = options.json === true;
  const show = (changes: readonly ItemChange[]): Promise<void> =>
    print(json ? changes.map((one) => ndjsonLine(changeJson(one))).join('') : lines.of(changes));
  let after = await placeToFollow(view, show);
  const following = {
    ...{ store: app.store, databaseUrl: app.database.url, filter: filterOf(options), after },
    onOutage: (problem: string | null): void => {
      const text = problem === null ? 'the database is back' : `${problem}; trying again`;
      note(`${safeLine(text)}\n`);
    },
  };
  for await (const changes of followChanges(following, signal)) {
    await show(changes);
    after = changes.at(-1)?.seq ?? after;
  }
  if (!json) note(`to go on from here: --since ${after} --follow\n`);
  return EXIT.done;
}

/** Without a place to begin at, the newest changes are shown first, as `tail -f` does. */
async function placeToFollow(
  view: View,
  show: (changes: readonly ItemChange[]) => Promise<void>,
): Promise<bigint> {
  const { since: place } = view.options;
  if (place !== undefined) return 'after' in place ? place.after : 0n;
  const { changes, next } = await readPage(view);
  if (changes.length > 0) await show(changes);
  return next;
}
