import { Command, Help, type CommanderError } from 'commander';
import { VERSION } from '../version.js';
import { EXIT } from './exit-codes.js';
import { setQuiet } from './output/progress.js';
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
    'list, show, resume, cancel or export checks of lists',
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
  api: [
    'serve the API for your own programs',
    async () => ({ add: (await import('./commands/run.js')).addApi }),
  ],
  tokens: ['manage the tokens of the API', () => import('./commands/tokens.js')],
  sellers: [
    'list, show, pause, rename or remove sellers of the copy',
    () => import('./commands/sellers.js'),
  ],
  users: ['manage accounts of the dashboard', () => import('./commands/users.js')],
  status: ['show whether the copy is current', () => import('./commands/status.js')],
  runs: ['list the newest runs, or show one', () => import('./commands/runs.js')],
  changes: ['list the changes of items', () => import('./commands/changes.js')],
  items: ['list the items, as of now or of an earlier time', () => import('./commands/items.js')],
  sql: ['query the copy with SQL (read-only)', () => import('./commands/sql.js')],
  export: ['write a view as CSV, NDJSON, Parquet or xlsx', () => import('./commands/export.js')],
  feed: ['keep reporting databases up to date', () => import('./commands/feed.js')],
  jobs: ['list or retry jobs that failed for good', () => import('./commands/jobs.js')],
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
  completion: [
    'print a script that completes commands in a shell',
    () => import('./commands/completion.js'),
  ],
  complete: [
    'print the words that may come next, for the scripts of `completion`',
    async () => ({ add: (await import('./commands/completion.js')).addComplete }),
  ],
  simulate: ['run a simulated marketplace on a port', () => import('./commands/simulate.js')],
  demo: ['try it on a simulated marketplace', () => import('./commands/demo.js')],
};

/** Runs a command line. @param argv starts with the paths of Node and the script */
export async function runProgram(argv: readonly string[]): Promise<void> {
  guardStdout();
  const words = argv.slice(2);
  // These two are about the command that is named next.
  const isAbout = words[0] === 'help' || words[0] === 'complete';
  const named = words.filter((word) => word !== '--').slice(0, isAbout ? 2 : 1);
  const command = await program(named);
  refuseUnknown(command, words);
  await command.parseAsync(withStatement(argv));
}

/**
 * Refuses what can only be the name of a command and is none. The library would show the help of everything after
 * `help`, and take the word for an argument of a group's default command.
 */
function refuseUnknown(
  command: Command,
  [word = '', ...others]: readonly string[],
  isAfterHelp = false,
): void {
  if (command.commands.length === 0 || word === '' || word.startsWith('-')) return;
  if (word === 'help') {
    refuseUnknown(command, others, true);
    return;
  }
  const inner = command.commands.find((one) => [one.name(), ...one.aliases()].includes(word));
  if (inner !== undefined) {
    refuseUnknown(inner, others, isAfterHelp);
    return;
  }
  // A group without a default command refuses it by itself, with a hint.
  const isGroup = command.commands.some((one) => one.name() === 'list');
  if (isGroup || isAfterHelp) command.error(`error: unknown command '${word}'`);
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
    .configureHelp({ subcommandTerm })
    .exitOverride(exitAsDocumented)
    // Options after a subcommand belong to the subcommand: `runs` and `runs show` both have --json.
    .enablePositionalOptions()
    .hook('preAction', (_, action) => setQuiet(action.getOptionValue('quiet') === true))
    .addHelpText(
      'after',
      '\nExample:\n  $ seller-mirror demo\n\nSettings are read from the environment and .env; see docs/settings.md.',
    );
  for (const [name, [summary, load]] of Object.entries(COMMANDS)) {
    if (loaded.includes(name)) (await load()).add(command);
    else command.command(name, { hidden: name === 'complete' });
    command.commands.at(-1)?.summary(summary);
  }
  nameUsage(command, command.name());
  return command;
}

/** Wrong usage is answered with the usage line of the command that was meant. */
function nameUsage(command: Command, path: string): void {
  command.showHelpAfterError(`  → usage: ${path} ${command.usage()} (--help says more)`);
  for (const inner of command.commands) nameUsage(inner, `${path} ${inner.name()}`);
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
