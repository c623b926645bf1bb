import { UserError } from '../domain/user-error.js';
import { once } from 'node:events';
import { hostname } from 'node:os';
import { createInterface } from 'node:readline/promises';
import { Option, type Command } from 'commander';
import { logAction } from '../dashboard/access-store.js';
import type { Action, Actor, Confirmation, Notice, Resource } from '../listing/resource.js';
import { print, printResult, stdoutLook, write } from './console.js';
import { usageError } from './errors.js';
import { appAction, type CommandApp } from './execute.js';
import { askForRuns, followUp, thisUser } from './follow-up.js';
import { addListing, cellOf, fieldsOf, type ListingCommand, listingTable } from './listing.js';
import {
  assertSeller,
  type CommandParts,
  type CommonOptions,
  describeCommand,
  idParser,
  sellerSuffix,
} from './options.js';
import { json, safeJson, withColumnNames } from './output/formats.js';
import { pairs, sections } from './output/table.js';
import { type Look, markOf, paint, safeLine, safeLines } from './output/text.js';
import { ownCommand } from './own-command.js';

/** Rows of a part; pages and other commands have the rest. */
const MAX_ROWS = 20;

/** A resource as a group of commands. */
export interface ResourceCommand<Row, Found, Source> {
  readonly resource: Resource<Row, Found, Source>;
  /** The name of the group. Absent: that of the listing. */
  readonly name?: string;
  readonly about: string;
  readonly source: (app: CommandApp) => Source;
  /** An id for examples. */
  readonly example: string;
  readonly list: Omit<ListingCommand<Source>, 'source'>;
  readonly show?: Partial<CommandParts>;
}

/** Lets a module describe a resource’s commands without naming its types. */
export function resourceCommand<Row, Found, Source>(
  described: ResourceCommand<Row, Found, Source>,
): ResourceCommand<Row, Found, Source> {
  return described;
}

/** Makes the commands of a resource: `NAME [list]`, `NAME show ID` and `NAME ACTION ID`. */
export function addResource<Row extends object, Found, Source>(
  program: Command,
  described: ResourceCommand<Row, Found, Source>,
): Command {
  const { resource, about, source, example, list, show } = described;
  const { listing, record, actions, one } = resource;
  const name = nameOf(described);
  const exampleOf = (action: string) => `seller-mirror ${name} ${action} ${example}`;
  const group = describeCommand(program.command(name), {
    about,
    examples: [
      `seller-mirror ${name}`,
      exampleOf(record === undefined ? (actions[0]?.name ?? '') : 'show'),
    ],
  });
  addListing(group.command('list', { isDefault: true }), listing, { ...list, source });
  const withId = (command: string): Command =>
    group.command(command).argument('<id>', `of the ${one}`, idReader(resource));
  if (record !== undefined) {
    describeCommand(withId('show'), {
      summary: `show one ${one} in full`,
      examples: [exampleOf('show')],
      options: ['json', ...sellerOption(resource)],
      ...show,
    }).action(
      appAction('store', async (app, id: string, options: CommonOptions) => {
        const found = await findOne(app, described, id, options.seller);
        if (options.json === true) await write(jsonOf(record, found));
        else await print(await textOf(app, described, found, id));
      }),
    );
  }
  for (const action of actions)
    addAction(withId(action.name), described, action, exampleOf(action.name));
  return group;
}

function nameOf<Row, Found, Source>({ name, resource }: ResourceCommand<Row, Found, Source>) {
  return name ?? resource.listing.name;
}

/** `--seller`, if there are several sellers’ to choose from. */
function sellerOption<Row, Found, Source>({ listing }: Resource<Row, Found, Source>) {
  return listing.filters.some(({ type }) => type === 'seller') ? (['seller'] as const) : [];
}

function idReader<Row, Found, Source>({
  ids,
  one,
}: Resource<Row, Found, Source>): (text: string) => string {
  if (ids === 'name') return (text) => text;
  const read = idParser(`${one}s are numbered`);
  return (text) => String(read(text));
}

/** @throws {UserError} when there is none, or several sellers have one */
async function findOne<Row, Found, Source>(
  app: CommandApp,
  described: ResourceCommand<Row, Found, Source>,
  id: string,
  seller: string | undefined,
): Promise<Found> {
  const { one, ids, find, sellerOf } = described.resource;
  await assertSeller(app, seller);
  const all = await find(described.source(app), id, seller ?? null);
  const [found, ...others] = all.filter((one) => seller === undefined || sellerOf(one) === seller);
  if (found === undefined) {
    throw usageError(
      `there is no ${one} ${ids === 'name' ? JSON.stringify(id) : id}${sellerSuffix(seller)}`,
      `\`seller-mirror ${nameOf(described)}\` lists them`,
    );
  }
  if (others.length === 0) return found;
  throw usageError(
    `several sellers have an ${one} ${id}`,
    `name one with --seller: ${all.map(sellerOf).join(', ')}`,
  );
}

/** Shows one: title, notices, facts, tables, and what one can do. */
async function textOf<Row, Found, Source>(
  app: CommandApp,
  described: ResourceCommand<Row, Found, Source>,
  found: Found,
  id: string,
): Promise<string> {
  const { one, record, actions } = described.resource;
  if (record === undefined) return '';
  const look = stdoutLook();
  const heads = record.head.map(({ type, value }) => cellOf(value(found), type, look));
  const names = [`${one} ${id}`, record.title(found)];
  const isNumbered = names[1]?.toLowerCase() === names[0];
  const [first = '', ...head] = [...names.slice(0, isNumbered ? 1 : 2), ...heads].map((text) =>
    safeLine(String(text)),
  );
  const shownParts = record.parts.filter(({ only }) => only === undefined);
  const tables = await Promise.all(
    shownParts.map(async ({ title: of, none, columns, rows }) => {
      const all = await rows(described.source(app), found, MAX_ROWS + 1);
      if (all.length === 0)
        return none === undefined ? '' : `${paint('bold', of.toLowerCase(), look)}\n  ${none}\n`;
      const more = all.length > MAX_ROWS ? `  … the first ${MAX_ROWS}\n` : '';
      const shown = listingTable({ columns }, all.slice(0, MAX_ROWS));
      return `${paint('bold', of.toLowerCase(), look)}\n${shown}${more}`;
    }),
  );
  const possible = actions.filter(({ isPossible }) => isPossible(found, thisUser()));
  return [
    `${[paint('bold', first, look), ...head].join(' · ')}\n`,
    ...record.notices(found).map((notice) => noticeLine(notice, look)),
    pairs(fieldsOf([...record.facts, ...record.figures], found, new Date()), look),
    ...tables,
    sections(
      {
        'what you can do': possible.map(
          (action) =>
            `${ownCommand()} ${nameOf(described)} ${action.name} ${id}  to ${action.about}`,
        ),
      },
      look,
    ),
  ].join('');
}

/** One as JSON, with what is JSON already. */
function jsonOf<Found>(
  { json: membersOf, received }: NonNullable<Resource<never, Found, never>['record']>,
  found: Found,
): string {
  const text = json(withColumnNames(membersOf(found)));
  const members = Object.entries(received?.(found) ?? {}).map(
    ([name, value]) => `"${name}": ${value}`,
  );
  if (members.length === 0) return text;
  return `${text.slice(0, -'\n}\n'.length)},\n  ${safeJson(members.join(',\n  '))}\n}\n`;
}

function noticeLine({ tone, text, remedy }: Notice, look: Look): string {
  const more = remedy === undefined ? '' : `  → ${safeLine(remedy)}\n`;
  return `${markOf(tone, look)} ${safeLine(text)}\n${more}`;
}

interface ActionOptions extends CommonOptions {
  readonly note?: string;
  readonly yes?: string;
}

function addAction<Row, Found, Source>(
  command: Command,
  described: ResourceCommand<Row, Found, Source>,
  action: Action<Found, Source>,
  example: string,
): void {
  const { one, record } = described.resource;
  const { about, confirm, takesNote } = action;
  const yes = new Option('--yes <answer>', 'the answer, so that nothing is asked');
  const note = new Option('--note <text>', 'why, for those who look later');
  describeCommand(command, {
    summary: about,
    examples: [example],
    options: [
      ...(confirm === undefined ? [] : [yes]),
      ...(takesNote === true ? [note] : []),
      'json',
      ...sellerOption(described.resource),
    ],
  }).action(
    appAction('store', async (app, id: string, options: ActionOptions) => {
      const found = await findOne(app, described, id, options.seller);
      if (!action.isPossible(found, thisUser())) {
        throw new UserError(
          `${one} ${id}: there is nothing to do, for example because somebody did it already`,
          `\`seller-mirror ${nameOf(described)}${record === undefined ? '` lists them' : ` show ${id}\` says more`}`,
          'FAILED',
        );
      }
      const asked = confirm?.(found) ?? null;
      if (asked !== null) await confirmed(asked, options.yes, app.signal);
      await perform(app, described, action, found, id, options);
    }),
  );
}

/** Performs an action, logs it and prints what it did. */
async function perform<Row, Found, Source>(
  app: CommandApp,
  described: ResourceCommand<Row, Found, Source>,
  action: Action<Found, Source>,
  found: Found,
  id: string,
  { note = '', ...options }: ActionOptions,
): Promise<void> {
  const { logged = action.label.toLowerCase() } = action;
  const [who, name] = [thisUser(), nameOf(described)];
  const actor: Actor<Source> = {
    source: described.source(app),
    who,
    holder: `${name} ${action.name} (process ${process.pid} on ${hostname()})`,
    async ask(seller, wanted) {
      await askForRuns(app, [seller], wanted);
    },
    followUp: () => followUp(app, name, true),
  };
  const done = await action.perform(actor, found, note);
  const target = `${described.resource.one} ${id}`;
  await logAction(app.db, { who, action: logged, target, outcome: 'done' });
  await printResult(
    options,
    done.json ?? { done: done.text },
    () => `${markOf('good', stdoutLook())} ${safeLines(done.text)}\n`,
  );
}

/** Performs an action on the one with this id, as its own command does, but without asking. */
export async function act<Row, Found, Source>(
  app: CommandApp,
  described: ResourceCommand<Row, Found, Source>,
  which: string,
  id: string,
  options: CommonOptions,
): Promise<void> {
  const action = described.resource.actions.find(({ name }) => name === which);
  if (action === undefined) throw new Error(`there is no action ${which}`);
  const found = await findOne(app, described, id, options.seller);
  await perform(app, described, action, found, id, options);
}

/** Asks for an answer, unless it was given. @throws {UserError} when the answer is another one */
async function confirmed(
  { ask, answer, wrong }: Omit<Confirmation, 'field'>,
  given: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const typed = given ?? (await typedAnswer(`${ask}: `, signal));
  if (typed === answer) return;
  throw usageError(wrong, `add \`--yes ${answer}\`, or type it`);
}

/** What is typed at the terminal; empty without one. */
async function typedAnswer(question: string, signal: AbortSignal): Promise<string> {
  if (!process.stdin.isTTY) return '';
  // With terminal: true, readline would catch Ctrl-C.
  const prompt = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  try {
    const ended = once(prompt, 'close', { signal }).then(() => '');
    return (await Promise.race([prompt.question(safeLine(question), { signal }), ended])).trim();
  } finally {
    prompt.close();
  }
}
