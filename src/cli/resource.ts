import { UserError } from '../domain/user-error.js';
import { once } from 'node:events';
import { hostname } from 'node:os';
import { createInterface } from 'node:readline/promises';
import { Option, type Command } from 'commander';
import type { App } from '../app.js';
import { logAction } from '../dashboard/access-store.js';
import type { Db } from '../db/db.js';
import type { Action, Actor, Confirmation, Notice, Resource } from '../listing/resource.js';
import { print, printResult, stdoutLook, write } from './console.js';
import { usageError } from './errors.js';
import { appAction } from './execute.js';
import { askForRuns, followUp, thisUser } from './follow-up.js';
import { addListing, cellOf, fieldsOf, listingTable } from './listing.js';
import {
  assertSeller,
  describeCommand,
  idParser,
  sellerSuffix,
  type CommonOptions,
} from './options.js';
import { json, safeJson, withColumnNames } from './output/formats.js';
import { pairs, sections } from './output/table.js';
import { type Look, paint, safeLine, safeLines } from './output/text.js';
import { ownCommand } from './own-command.js';

type Help = Parameters<typeof describeCommand>[1];

/** Rows of a part; pages and other commands have the rest. */
const MAX_ROWS = 20;

/** Makes the commands of a resource: `NAME [list]`, `NAME show ID` and `NAME ACTION ID`. */
export function addResource<Row extends object, Found>(
  program: Command,
  resource: Resource<Row, Found, Db>,
  help: {
    readonly about: string;
    readonly list: Parameters<typeof addListing<Row>>[2];
    readonly show?: Partial<Help>;
    /** An id for examples. */
    readonly example: string;
  },
): Command {
  const { listing, record, actions, one } = resource;
  const { name } = listing;
  const exampleOf = (action: string) => `seller-mirror ${name} ${action} ${help.example}`;
  const group = describeCommand(program.command(name), {
    about: help.about,
    examples: [
      `seller-mirror ${name}`,
      exampleOf(record === undefined ? (actions[0]?.name ?? '') : 'show'),
    ],
  });
  addListing(group.command('list', { isDefault: true }), listing, help.list);
  const withId = (command: string): Command =>
    group.command(command).argument('<id>', `of the ${one}`, idReader(resource));
  if (record !== undefined) {
    const show = withId('show');
    describeCommand(show, {
      summary: `show one ${one} in full`,
      examples: [exampleOf('show')],
      options: ['json', 'seller'],
      ...help.show,
    }).action(
      appAction('store', async (app, id: string, options: CommonOptions) => {
        const found = await findOne(app, resource, id, options.seller);
        if (options.json === true) await write(jsonOf(record, found));
        else await print(await textOf(app, resource, found, id));
      }),
    );
  }
  for (const action of actions)
    addAction(withId(action.name), resource, action, exampleOf(action.name));
  return group;
}

function idReader<Row, Found>({ ids, one }: Resource<Row, Found, Db>): (text: string) => string {
  if (ids === 'name') return (text) => text;
  const read = idParser(`${one}s are numbered`);
  return (text) => String(read(text));
}

/** @throws {UserError} when there is none, or several sellers have one */
async function findOne<Row, Found>(
  app: App,
  { listing: { name }, one, find, sellerOf }: Resource<Row, Found, Db>,
  id: string,
  seller: string | undefined,
): Promise<Found> {
  await assertSeller(app, seller);
  const all = await find(app.db, id, seller ?? null);
  const [found, ...others] = all.filter((one) => seller === undefined || sellerOf(one) === seller);
  if (found === undefined) {
    throw usageError(
      `there is no ${one} ${id}${sellerSuffix(seller)}`,
      `\`seller-mirror ${name}\` lists them`,
    );
  }
  if (others.length === 0) return found;
  throw usageError(
    `several sellers have an ${one} ${id}`,
    `name one with --seller: ${all.map(sellerOf).join(', ')}`,
  );
}

/** Shows one: title, notices, facts, tables, and what one can do. */
async function textOf<Row, Found>(
  { db }: App,
  { listing: { name }, one, record, actions }: Resource<Row, Found, Db>,
  found: Found,
  id: string,
): Promise<string> {
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
      const all = await rows(db, found, MAX_ROWS + 1);
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
          (action) => `${ownCommand()} ${name} ${action.name} ${id}  to ${action.about}`,
        ),
      },
      look,
    ),
  ].join('');
}

/** One as JSON, with what is JSON already. */
function jsonOf<Found>(
  { json: membersOf, received }: NonNullable<Resource<never, Found, Db>['record']>,
  found: Found,
): string {
  const text = json(withColumnNames(membersOf(found)));
  const members = Object.entries(received?.(found) ?? {}).map(
    ([name, value]) => `"${name}": ${value}`,
  );
  if (members.length === 0) return text;
  return `${text.slice(0, -'\n}\n'.length)},\n  ${safeJson(members.join(',\n  '))}\n}\n`;
}

const MARKS = {
  bad: ['✗', 'red'],
  warn: ['!', 'yellow'],
  good: ['✓', 'green'],
  busy: ['·', 'dim'],
  quiet: ['·', 'dim'],
} as const;

function noticeLine({ tone, text }: Notice, look: Look): string {
  const [mark, style] = MARKS[tone];
  return `${paint(style, mark, look)} ${safeLine(text)}\n`;
}

interface ActionOptions extends CommonOptions {
  readonly note?: string;
  readonly yes?: string;
}

function addAction<Row, Found>(
  command: Command,
  resource: Resource<Row, Found, Db>,
  action: Action<Found, Db>,
  example: string,
): void {
  const { one } = resource;
  const { about, confirm, takesNote } = action;
  const yes = new Option('--yes <answer>', 'the answer, so that nothing is asked');
  const note = new Option('--note <text>', 'why, for those who look later');
  describeCommand(command, {
    summary: about,
    examples: [example],
    options: [
      ...(confirm === undefined ? [] : [yes]),
      ...(takesNote === true ? [note] : []),
      ...(['json', 'seller'] as const),
    ],
  }).action(
    appAction('store', async (app, id: string, options: ActionOptions) => {
      const found = await findOne(app, resource, id, options.seller);
      if (!action.isPossible(found, thisUser())) {
        throw new UserError(
          `${one} ${id}: there is nothing to do, for example because somebody did it already`,
          `\`seller-mirror ${resource.listing.name} show ${id}\` says more`,
          'FAILED',
        );
      }
      const asked = confirm?.(found) ?? null;
      if (asked !== null) await confirmed(asked, options.yes, app.signal);
      await perform(app, resource, action.name, found, id, options);
    }),
  );
}

/** Performs an action, logs it and prints what it did. */
async function perform<Row, Found>(
  app: App,
  { listing: { name }, one, actions }: Resource<Row, Found, Db>,
  which: string,
  found: Found,
  id: string,
  { note = '', ...options }: ActionOptions,
): Promise<void> {
  const action = actions.find((other) => other.name === which);
  if (action === undefined) throw new Error(`there is no action ${which}`);
  const { logged = action.label.toLowerCase() } = action;
  const who = thisUser();
  const actor: Actor<Db> = {
    db: app.db,
    who,
    holder: `${name} ${which} (process ${process.pid} on ${hostname()})`,
    async ask(seller, wanted) {
      await askForRuns(app, [seller], wanted);
    },
    followUp: () => followUp(app, name, true),
  };
  const done = await action.perform(actor, found, note);
  await logAction(app.db, { who, action: logged, target: `${one} ${id}`, outcome: 'done' });
  await printResult(
    options,
    done.json ?? { done: done.text },
    () => `${paint('green', '✓', stdoutLook())} ${safeLines(done.text)}\n`,
  );
}

/** Performs an action on the one with this id, as its own command does, but without asking. */
export async function act<Row, Found>(
  app: App,
  resource: Resource<Row, Found, Db>,
  action: string,
  id: string,
  options: CommonOptions,
): Promise<void> {
  const found = await findOne(app, resource, id, options.seller);
  await perform(app, resource, action, found, id, options);
}

/** Asks for an answer, unless it was given. @throws {UserError} when the answer is another one */
export async function confirmed(
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
