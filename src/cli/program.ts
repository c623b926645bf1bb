import { Command, Help, type CommanderError } from 'commander';
import { nearest } from '../config/nearest.js';
import { VERSION } from '../version.js';
import { EXIT } from './exit-codes.js';
import { guardStdout } from './output/write.js';

/** The summary of a command, and its module, which is loaded on demand: loading all takes half a second. */
type CommandEntry = readonly [
  summary: string,
  load: () => Promise<{ readonly add: (program: Command) => void }>,
];

const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  sync: ['mirror account and items into the store', () => import('./commands/sync.js')],
  codes: ['check purchase codes, with proof', () => import('./commands/codes.js')],
  audits: [
    'list, show, resume, cancel or export audits of codes',
    () => import('./commands/audits.js'),
  ],
  run: [
    'mirror on schedule in one process, until it is stopped',
    () => import('./commands/run.js'),
  ],
  scheduler: [
    'enqueue scheduled jobs, and do nothing else',
    async () => ({ add: (await import('./commands/run.js')).addScheduler }),
  ],
  worker: [
    'run the jobs in the queue, and do nothing else',
    async () => ({ add: (await import('./commands/run.js')).addWorker }),
  ],
  dashboard: ['serve the pages of the dashboard', () => import('./commands/dashboard.js')],
  users: ['manage accounts of the dashboard', () => import('./commands/users.js')],
  status: ['show whether the copy is current', () => import('./commands/status.js')],
  runs: [
    'list the newest runs, show one, approve or reject a held one',
    () => import('./commands/runs.js'),
  ],
  changes: ['list the changes of items', () => import('./commands/changes.js')],
  items: ['list the items, as of now or of an earlier time', () => import('./commands/items.js')],
  sql: ['query the copy with SQL (read-only)', () => import('./commands/sql.js')],
  export: [
    'write a view, or its changes, as CSV, NDJSON, Parquet or xlsx',
    () => import('./commands/export.js'),
  ],
  feed: ['keep reporting databases up to date', () => import('./commands/feed.js')],
  db: ['keep the embedded server running for other tools', () => import('./commands/db.js')],
  migrate: ['bring the database’s tables up to date', () => import('./commands/migrate.js')],
  prune: [
    'delete data that is older than the KEEP_… settings allow',
    () => import('./commands/prune.js'),
  ],
  backup: ['write the store into one file', () => import('./commands/backup.js')],
  restore: [
    'restore a backup',
    async () => ({ add: (await import('./commands/backup.js')).addRestore }),
  ],
  doctor: ['check configuration, store, key and marketplace', () => import('./commands/doctor.js')],
  config: [
    'show the settings in effect and where each comes from',
    () => import('./commands/config.js'),
  ],
  simulate: ['run a simulated marketplace on a port', () => import('./commands/simulate.js')],
  demo: ['try it on a simulated marketplace', () => import('./commands/demo.js')],
  completion: [
    'print a script that completes commands in a shell',
    () => import('./commands/completion.js'),
  ],
};

/** Runs a command line. @param argv starts with the paths of Node and the script */
export async function runProgram(argv: readonly string[]): Promise<void> {
  guardStdout();
  const words = argv.slice(2);
  const command = await program(commandsFor(words));
  refuseFormerNames(command, words);
  refuseUnknown(command, words);
  showHelp(command, words);
  await command.parseAsync(withStatement(argv));
}

/** Returns the commands to load, by the first word of the command line, or the second one after `help`. */
function commandsFor([first = '--help', second = '--help']: readonly string[]): readonly string[] {
  const word = first === 'help' ? second : first;
  if (/^(?:-h|--help|-V|--version)$/.test(word)) return [];
  // Unknown words may refer to any command, and `completion` needs all.
  const isOne = Object.hasOwn(COMMANDS, word) && word !== 'completion';
  return isOne ? [word] : Object.keys(COMMANDS);
}

/** Puts a blank before SQL that starts with a comment, which Commander would read as an option. */
function withStatement(argv: readonly string[]): readonly string[] {
  if (argv[2] !== 'sql') return argv;
  return argv.map((argument) => (/^--\s/.test(argument) ? ` ${argument}` : argument));
}

/**
 * Builds the command line.
 * @param loaded names of the commands to load; the others get only a name and a summary
 */
export async function program(loaded: readonly string[] = Object.keys(COMMANDS)): Promise<Command> {
  const command = new Command('seller-mirror')
    .description('Mirrors a marketplace seller’s account and items into PostgreSQL.')
    .version(VERSION)
    .showHelpAfterError('  → add --help to see commands and options')
    .configureHelp({ subcommandTerm })
    .exitOverride(exitAsDocumented)
    // Options after a subcommand belong to the subcommand: `runs` and `runs show` both have --json.
    .enablePositionalOptions()
    .addHelpText(
      'after',
      '\nExample:\n  $ seller-mirror demo\n\nSettings are read from the environment and .env; see docs/settings.md.',
    );
  for (const [name, [summary, load]] of Object.entries(COMMANDS)) {
    if (loaded.includes(name)) (await load()).add(command);
    else command.command(name);
    command.commands.at(-1)?.summary(summary);
  }
  return command;
}

/** Lists top-level commands by name alone in help, because the usage of most is not loaded. */
function subcommandTerm(this: Help, command: Command): string {
  return command.parent?.parent === null
    ? command.name()
    : Help.prototype.subcommandTerm.call(this, command);
}

/** Wrong usage exits with 2 (Commander's default is 1), help and version with 0. */
function exitAsDocumented(error: CommanderError): never {
  process.exit(error.exitCode === 0 ? EXIT.done : EXIT.usage);
}

/** Former names of commands, and names that people try, with the actual names. */
const FORMER_NAMES: Readonly<Record<string, string>> = {
  approve: 'runs approve',
  reject: 'runs reject',
  'codes list': 'audits list',
  'codes resume': 'audits resume',
  'codes cancel': 'audits cancel',
  'codes export': 'audits export',
};

/** Ends with an error that names the actual command if a former name was used. */
function refuseFormerNames(program: Command, [first = '', second = '']: readonly string[]): void {
  const former = [first, `${first} ${second}`].find((name) => Object.hasOwn(FORMER_NAMES, name));
  if (former === undefined) return;
  program.error(`error: unknown command '${former}'; it is called '${FORMER_NAMES[former]}'`);
}

/** Ends with an error for an unknown subcommand. Commander would only say that there are too many arguments. */
function refuseUnknown(program: Command, [first = '', second = '']: readonly string[]): void {
  const parent = childOf(program, first);
  const takesWords = parent === undefined || parent.registeredArguments.length > 0;
  if (takesWords || parent.commands.length === 0 || !/^[a-z]/i.test(second)) return;
  if (second !== 'help' && childOf(parent, second) === undefined)
    failUnknownCommand(program, parent, second);
}

/**
 * Prints help for `help codes check` and `codes help check`, and ends the process. For an unknown command,
 * Commander would print the help of another one.
 * @param words of the command line; without `help` among them, nothing happens
 */
function showHelp(program: Command, words: readonly string[]): void {
  const place = words.indexOf('help');
  const before = words.slice(0, Math.max(place, 0));
  const parent = before.reduce<Command | undefined>(childOf, program);
  if (place < 0 || parent === undefined || parent.commands.length === 0) return;
  let command = parent;
  for (const word of words.slice(place + 1).filter((one) => !one.startsWith('-'))) {
    // The remaining words are arguments of a command without subcommands.
    if (command.commands.length === 0) break;
    command = childOf(command, word) ?? failUnknownCommand(program, command, word);
  }
  command.help();
}

function childOf(parent: Command | undefined, name: string): Command | undefined {
  return parent?.commands.find((one) => one.name() === name);
}

function failUnknownCommand(program: Command, parent: Command, word: string): never {
  const path = pathOf(parent);
  const near = nearest(
    word,
    parent.commands.map((one) => one.name()),
    1 / 3,
  );
  const meant = near === null ? '' : `\n(Did you mean ${path}${near}?)`;
  return program.error(`error: unknown command '${path}${word}'${meant}`);
}

/** The full name of a command with a blank after it, such as `codes check `. Empty for the program itself. */
function pathOf(command: Command): string {
  return command.parent === null ? '' : `${pathOf(command.parent)}${command.name()} `;
}
