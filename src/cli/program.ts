import { readFileSync } from 'node:fs';
import { Command, Help, type CommanderError } from 'commander';
import { editDistance } from '../config/nearest.js';
import { EXIT } from './exit-codes.js';
import { guardStdout } from './output/write.js';

/** A command. It is loaded only when needed: loading all of them takes half a second. */
interface CommandEntry {
  readonly summary: string;
  /** Gives the function that adds the command to the program. */
  readonly load: () => Promise<(program: Command) => void>;
}

/** The commands, in the order in which help shows them. */
const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  sync: {
    summary: 'mirror account and items into the store',
    load: async () => (await import('./commands/sync.js')).addSync,
  },
  codes: {
    summary: 'check purchase codes, with proof',
    load: async () => (await import('./commands/codes.js')).addCodes,
  },
  audits: {
    summary: 'list, show, resume, cancel or export audits of codes',
    load: async () => (await import('./commands/audits.js')).addAudits,
  },
  run: {
    summary: 'mirror on schedule, in one process, until it is stopped',
    load: async () => (await import('./commands/run.js')).addRun,
  },
  scheduler: {
    summary: 'only put scheduled jobs into the queue',
    load: async () => (await import('./commands/run.js')).addScheduler,
  },
  worker: {
    summary: 'only do the jobs in the queue',
    load: async () => (await import('./commands/run.js')).addWorker,
  },
  status: {
    summary: 'show whether the copy is current',
    load: async () => (await import('./commands/status.js')).addStatus,
  },
  runs: {
    summary: 'list the newest runs, show one, decide about a held one',
    load: async () => (await import('./commands/runs.js')).addRuns,
  },
  changes: {
    summary: 'list the changes of items',
    load: async () => (await import('./commands/changes.js')).addChanges,
  },
  items: {
    summary: 'list the items, as they are or as they were',
    load: async () => (await import('./commands/items.js')).addItems,
  },
  sql: {
    summary: 'query the copy with SQL (read-only)',
    load: async () => (await import('./commands/sql.js')).addSql,
  },
  export: {
    summary: 'write a view, or its changes, as CSV, NDJSON or Parquet',
    load: async () => (await import('./commands/export.js')).addExport,
  },
  db: {
    summary: 'keep the embedded server running for other tools',
    load: async () => (await import('./commands/db.js')).addDb,
  },
  migrate: {
    summary: 'bring the database’s tables up to date',
    load: async () => (await import('./commands/migrate.js')).addMigrate,
  },
  prune: {
    summary: 'delete data that is older than the KEEP_… settings allow',
    load: async () => (await import('./commands/prune.js')).addPrune,
  },
  backup: {
    summary: 'write the store into one file',
    load: async () => (await import('./commands/backup.js')).addBackup,
  },
  restore: {
    summary: 'restore a backup',
    load: async () => (await import('./commands/backup.js')).addRestore,
  },
  doctor: {
    summary: 'check configuration, store, key and marketplace',
    load: async () => (await import('./commands/doctor.js')).addDoctor,
  },
  config: {
    summary: 'show the settings in effect and where each comes from',
    load: async () => (await import('./commands/config.js')).addConfig,
  },
  simulate: {
    summary: 'run a simulated marketplace on a port',
    load: async () => (await import('./commands/simulate.js')).addSimulate,
  },
  demo: {
    summary: 'try it on a simulated marketplace',
    load: async () => (await import('./commands/demo.js')).addDemo,
  },
  completion: {
    summary: 'print a script that completes commands in a shell',
    load: async () => (await import('./commands/completion.js')).addCompletion,
  },
};

/** Runs a command line. @param argv with Node and the script at its beginning */
export async function runProgram(argv: readonly string[]): Promise<void> {
  guardStdout();
  const words = argv.slice(2);
  const command = await program(commandsFor(words[0] ?? '--help'));
  showHelp(command, words);
  await command.parseAsync(withStatement(argv));
}

/** The commands to load for a command line: by its first word. */
function commandsFor(word: string): readonly string[] {
  if (/^(?:-h|--help|-V|--version)$/.test(word)) return [];
  // `help` and an unknown word may mean any command, and completion covers all.
  const isOne = Object.hasOwn(COMMANDS, word) && word !== 'completion';
  return isOne ? [word] : Object.keys(COMMANDS);
}

/** Puts a blank before SQL that begins with a comment, so that it is not taken for an option. */
function withStatement(argv: readonly string[]): readonly string[] {
  if (argv[2] !== 'sql') return argv;
  return argv.map((argument) => (/^--\s/.test(argument) ? ` ${argument}` : argument));
}

/** Makes the command line. @param loaded commands that are loaded; the others have only what `--help` shows */
export async function program(loaded: readonly string[] = Object.keys(COMMANDS)): Promise<Command> {
  const command = new Command('seller-mirror')
    .description('Mirrors a marketplace seller’s account and items into PostgreSQL.')
    .version(version())
    .showHelpAfterError('  → add --help to see what there is')
    .configureHelp({ showGlobalOptions: true, subcommandTerm })
    .exitOverride(exitAsDocumented)
    // Options after a subcommand belong to it: `runs` and `runs show` both have --json.
    .enablePositionalOptions()
    .addHelpText(
      'after',
      '\nExample:\n  $ seller-mirror demo\n\nSettings are read from the environment and .env; see README.md.',
    );
  for (const [name, { summary, load }] of Object.entries(COMMANDS)) {
    if (loaded.includes(name)) (await load())(command);
    else command.command(name);
    command.commands.at(-1)?.summary(summary);
  }
  addFormerNames(command);
  return command;
}

/** How help lists a command: at the top by name alone, since not all are loaded. */
function subcommandTerm(this: Help, command: Command): string {
  return command.parent?.parent === null
    ? command.name()
    : Help.prototype.subcommandTerm.call(this, command);
}

function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

/** Wrong usage ends with 2; Commander would say 1. Help and version end with 0. */
function exitAsDocumented(error: CommanderError): never {
  process.exit(error.exitCode === 0 ? EXIT.done : EXIT.usage);
}

/** Former or mistaken names of commands, and their present names. */
const FORMER_NAMES: Readonly<Record<string, string>> = {
  approve: 'runs approve',
  reject: 'runs reject',
  'codes list': 'audits list',
  'codes resume': 'audits resume',
  'codes cancel': 'audits cancel',
  'codes export': 'audits export',
};

/** Answers a former name with an error that says the present one. */
function addFormerNames(program: Command): void {
  for (const [former, present] of Object.entries(FORMER_NAMES)) {
    const words = former.split(' ');
    const name = words.pop() ?? '';
    const parent = program.commands.find((one) => one.name() === words[0]) ?? program;
    parent
      .command(name, { hidden: true })
      .argument('[anything...]')
      .allowUnknownOption()
      .helpOption(false)
      .action(() => {
        parent.error(`error: unknown command '${former}'; it is called '${present}'`);
      });
  }
}

/**
 * Shows the help that `help codes check` or `codes help check` asks for, and ends the process.
 * Commander would answer an unknown command there with the help of another one.
 * @param words of the command line; does nothing when they don't ask for help
 */
function showHelp(program: Command, words: readonly string[]): void {
  const place = words.indexOf('help');
  const before = words.slice(0, Math.max(place, 0));
  const parent = before.reduce<Command | undefined>(childOf, program);
  if (place < 0 || parent === undefined || parent.commands.length === 0) return;
  let command = parent;
  for (const word of words.slice(place + 1).filter((one) => !one.startsWith('-'))) {
    // Words after a command without subcommands are its arguments.
    if (command.commands.length === 0) break;
    command = childOf(command, word) ?? refuse(program, command, word);
  }
  command.help();
}

function childOf(parent: Command | undefined, name: string): Command | undefined {
  return parent === undefined ? undefined : childrenOf(parent).find((one) => one.name() === name);
}

/** The subcommands, without hidden ones and Commander's own `help`. */
function childrenOf(parent: Command): readonly Command[] {
  const shown = parent.createHelp().visibleCommands(parent);
  return parent.commands.filter((one) => shown.includes(one));
}

function refuse(program: Command, parent: Command, word: string): never {
  const path = pathOf(parent);
  const names = childrenOf(parent).map((one) => one.name());
  const [nearest] = names
    .map((name) => ({ name, distance: editDistance(word, name) }))
    .filter(({ name, distance }) => distance < 0.6 * Math.max(word.length, name.length))
    .sort((one, other) => one.distance - other.distance);
  const meant = nearest === undefined ? '' : `\n(Did you mean ${path}${nearest.name}?)`;
  return program.error(`error: unknown command '${path}${word}'${meant}`);
}

/** `codes ` for the commands of `codes`; nothing for those of the program itself. */
function pathOf(command: Command): string {
  return command.parent === null ? '' : `${pathOf(command.parent)}${command.name()} `;
}
