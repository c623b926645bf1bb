import type { UserError } from '../../domain/user-error.js';
import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { addAbortSignal, Writable } from 'node:stream';
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { hashPassword, isUserName, passwordFault } from '../../dashboard/passwords.js';
import {
  type Role,
  listUsers,
  createUser,
  changePassword,
  deleteUser,
} from '../../dashboard/access-store.js';
import { moment } from '../../domain/moment.js';
import { print, printList } from '../console.js';
import { usageError } from '../errors.js';
import { appAction } from '../execute.js';
import { describeCommand, type CommonOptions } from '../options.js';
import { table } from '../output/table.js';
import { momentCell } from '../output/text.js';

const ROLES = ['viewer', 'operator'] as const satisfies readonly Role[];

/** `users [list|add|password|remove]`: manages dashboard accounts. */
export function add(program: Command): void {
  const users = describeCommand(program.command('users'), {
    about:
      'Manages the accounts that can log in to the dashboard. A viewer only reads, with purchase codes masked; an operator can also act.',
    examples: [
      'seller-mirror users add alice --role operator',
      'seller-mirror users add bob --role viewer < password.txt',
    ],
  });
  describeCommand(users.command('list', { isDefault: true }), {
    summary: 'list the accounts, and invitations that nobody has accepted yet',
    examples: ['seller-mirror users list'],
    options: ['json'],
  }).action(appAction('store', list));
  const named = (name: string, about = 'of the account'): Command =>
    users.command(name).argument('<name>', about, userName);
  describeCommand(named('add', 'letters, digits and . _ - @'), {
    summary: 'add an account',
    about: 'Adds an account. Asks for its password, or reads it from stdin.',
    examples: ['seller-mirror users add alice --role operator'],
    options: [
      new Option('--role <role>', 'its role (required)').choices(ROLES).makeOptionMandatory(),
    ],
  }).action(appAction('new store', addUser));
  describeCommand(named('password'), {
    summary: 'set an account’s password, and end its sessions',
    examples: ['seller-mirror users password alice'],
  }).action(appAction('store', setPassword));
  describeCommand(named('remove'), {
    summary: 'remove an account, and end its sessions',
    examples: ['seller-mirror users remove alice'],
  }).action(appAction('store', removeUser));
}

function userName(name: string): string {
  if (isUserName(name)) return name;
  throw new InvalidArgumentError('a name has 1 to 63 letters, digits and . _ - @');
}

async function list({ db }: App, options: CommonOptions): Promise<void> {
  const users = await listUsers(db);
  const none = 'There is no account. `seller-mirror users add NAME --role operator` adds one.\n';
  await printList(options, users, none, (look) =>
    table(
      users,
      [
        { header: 'name', value: ({ name }) => name },
        { header: 'role', value: ({ role }) => role },
        { header: 'since', value: ({ createdAt }) => momentCell(createdAt, new Date(), look) },
        {
          header: 'invitation ends',
          value: ({ invitedUntil }) => (invitedUntil === null ? '–' : moment(invitedUntil)),
        },
      ],
      look,
    ),
  );
}

async function addUser(
  { db, signal }: App,
  name: string,
  { role }: { readonly role: Role },
): Promise<void> {
  const passwordHash = await hashPassword(await newPassword(signal));
  if (!(await createUser(db, { name, role, passwordHash }))) {
    throw usageError(
      `there is already an account "${name}"`,
      '`seller-mirror users password` changes its password',
    );
  }
  await print(`${name} may log in as ${role}\n`);
}

async function setPassword({ db, signal }: App, name: string): Promise<void> {
  const passwordHash = await hashPassword(await newPassword(signal));
  if (!(await changePassword(db, name, passwordHash))) throw noUser(name);
  await print(`the password of ${name} is set; its sessions have ended\n`);
}

async function removeUser({ db }: App, name: string): Promise<void> {
  if (!(await deleteUser(db, name))) throw noUser(name);
  await print(`${name} is removed; its sessions have ended\n`);
}

function noUser(name: string): UserError {
  return usageError(`there is no account "${name}"`, '`seller-mirror users` lists them');
}

/** Asks for a password twice on a terminal, or reads the first line of stdin. */
async function newPassword(signal: AbortSignal): Promise<string> {
  const isTerminal = process.stdin.isTTY;
  const password = isTerminal ? await askHidden('Password: ', signal) : await firstLine(signal);
  const fault = passwordFault(password);
  if (fault !== null) throw usageError(fault, 'choose another one');
  if (isTerminal && (await askHidden('Again: ', signal)) !== password) {
    throw usageError('the two passwords differ', 'nothing was changed; repeat the command');
  }
  return password;
}

/** More characters than any password. */
const MAX_CHARACTERS = 4096;

async function firstLine(signal: AbortSignal): Promise<string> {
  let text = '';
  const input = addAbortSignal(signal, process.stdin).setEncoding('utf8');
  for await (const part of input as AsyncIterable<string>) {
    text += part;
    if (text.includes('\n') || text.length > MAX_CHARACTERS) break;
  }
  return text.replace(/^\uFEFF/, '').split(/\r?\n/, 1)[0] ?? '';
}

/** Reads a line from the terminal without showing it. */
async function askHidden(question: string, signal: AbortSignal): Promise<string> {
  const discard = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: process.stdin, output: discard, terminal: true });
  terminal.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  // Only now: the terminal shows what is typed until the interface takes over.
  process.stderr.write(question);
  try {
    const ended = once(terminal, 'close', { signal }).then(() => '');
    // Ctrl-D rejects the question.
    const answer = terminal.question('', { signal }).catch(() => ended);
    return await Promise.race([answer, ended]);
  } finally {
    terminal.close();
    process.stderr.write('\n');
  }
}
