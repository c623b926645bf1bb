import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { addAbortSignal, Writable } from 'node:stream';
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { changePassword, createUser, type Role, ROLES } from '../../dashboard/access-store.js';
import { hashPassword, isUserName, passwordFault } from '../../dashboard/passwords.js';
import { USER } from '../../dashboard/users-resource.js';
import { print, printNote } from '../console.js';
import { usageError } from '../errors.js';
import { appAction } from '../execute.js';
import { describeCommand } from '../options.js';
import { addResource } from '../resource.js';
import { addressOf, newLink } from './dashboard.js';

/** `users [list|add|password|remove]`: manages dashboard accounts. */
export function add(program: Command): void {
  const users = addResource(program, {
    resource: USER,
    source: ({ db }) => db,
    about:
      'Manages the accounts that can log in to the dashboard. A viewer only reads, with purchase codes masked; an operator can also act.',
    example: 'alice',
    list: {
      summary: 'list the accounts',
      examples: ['seller-mirror users list'],
    },
  });
  describeCommand(
    users.command('add').argument('<name>', 'letters, digits and . _ - @', userName),
    {
      summary: 'add an account',
      about:
        'Adds an account. Asks for its password, or reads it from stdin. Without one, prints a link that logs in once, within a day; whoever opens it can choose a password.',
      examples: [
        'seller-mirror users add alice --role operator',
        'seller-mirror users add bob --role viewer < password.txt',
        'seller-mirror users add carol --role viewer < /dev/null',
      ],
      options: [
        new Option('--role <role>', 'its role (required)').choices(ROLES).makeOptionMandatory(),
      ],
    },
  ).action(appAction('new store', addUser));
  describeCommand(users.command('password').argument('<name>', 'of the account', userName), {
    summary: 'set an account’s password, and end its sessions',
    examples: ['seller-mirror users password alice'],
  }).action(appAction('store', setPassword));
}

function userName(name: string): string {
  if (isUserName(name)) return name;
  throw new InvalidArgumentError('a name has 1 to 63 letters, digits and . _ - @');
}

async function addUser(
  { config, db, signal }: App,
  name: string,
  { role }: { readonly role: Role },
): Promise<void> {
  const password = await newPassword(signal, { mayBeEmpty: true });
  const url = password === '' ? await addressOf({ config, db }) : null;
  if (password === '' && url === null) {
    throw usageError(
      'no dashboard is running on this store, so a login link would lead nowhere',
      'set DASHBOARD_URL, start `seller-mirror run`, or give a password',
    );
  }
  const passwordHash = password === '' ? '' : await hashPassword(password);
  if (!(await createUser(db, { name, role, passwordHash }))) {
    throw usageError(
      `there is already an account "${name}"`,
      '`seller-mirror users password` changes its password',
    );
  }
  if (url === null) {
    await print(`${name} may log in as ${role}\n`);
    return;
  }
  printNote(`${name} may log in as ${role}, with this link. It works once, within a day:\n`);
  await print(`${await newLink(db, url, name)}\n`);
}

async function setPassword({ db, signal }: App, name: string): Promise<void> {
  const passwordHash = await hashPassword(await newPassword(signal));
  if (!(await changePassword(db, name, passwordHash))) {
    throw usageError(`there is no account "${name}"`, '`seller-mirror users` lists them');
  }
  await print(`the password of ${name} is set; its sessions have ended\n`);
}

/** Asks for a password twice on a terminal, or reads the first line of stdin. */
async function newPassword(signal: AbortSignal, { mayBeEmpty = false } = {}): Promise<string> {
  const isTerminal = process.stdin.isTTY;
  const question = mayBeEmpty ? 'Password (empty: a login link): ' : 'Password: ';
  const password = isTerminal ? await askHidden(question, signal) : await firstLine(signal);
  if (mayBeEmpty && password === '') return '';
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
