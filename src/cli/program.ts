import { readFileSync } from 'node:fs';
import { Command, type CommanderError } from 'commander';
import { addAudits } from './commands/audits.js';
import { addBackup } from './commands/backup.js';
import { addChanges } from './commands/changes.js';
import { addCodes } from './commands/codes.js';
import { addCompletion } from './commands/completion.js';
import { addConfig } from './commands/config.js';
import { addDb } from './commands/db.js';
import { addDemo } from './commands/demo.js';
import { addDoctor } from './commands/doctor.js';
import { addExport } from './commands/export.js';
import { addItems } from './commands/items.js';
import { addMigrate } from './commands/migrate.js';
import { addPrune } from './commands/prune.js';
import { addRestore } from './commands/restore.js';
import { addRun } from './commands/run.js';
import { addRuns } from './commands/runs.js';
import { addScheduler } from './commands/scheduler.js';
import { addSimulate } from './commands/simulate.js';
import { addSql, withStatement } from './commands/sql.js';
import { addStatus } from './commands/status.js';
import { addSync } from './commands/sync.js';
import { addWorker } from './commands/worker.js';
import { EXIT } from './exit-codes.js';
import { guardStdout } from './output/index.js';
import { addFormerNames } from './former-names.js';
import { showHelp } from './help.js';

/** In the order in which help shows them. */
const COMMANDS = [
  addSync,
  addCodes,
  addAudits,
  addRun,
  addScheduler,
  addWorker,
  addStatus,
  addRuns,
  addChanges,
  addItems,
  addSql,
  addExport,
  addDb,
  addMigrate,
  addPrune,
  addBackup,
  addRestore,
  addDoctor,
  addConfig,
  addSimulate,
  addDemo,
  addCompletion,
];

/** Does what the command line says. @param argv with Node and the script at its beginning */
export async function runProgram(argv: readonly string[]): Promise<void> {
  guardStdout();
  const command = program();
  showHelp(command, argv.slice(2));
  await command.parseAsync(withStatement(argv));
}

/** The command line, with every command on it. */
export function program(): Command {
  const command = new Command('seller-mirror')
    .description('Mirrors a marketplace seller’s account and items into PostgreSQL.')
    .version(version())
    .showHelpAfterError('(--help shows what there is)')
    .configureHelp({ showGlobalOptions: true })
    .exitOverride(exitAsDocumented)
    // What stands after a subcommand is its own: `runs` and `runs show` both have --json.
    .enablePositionalOptions()
    .addHelpText(
      'after',
      '\nExample:\n  $ seller-mirror demo\n\nSettings are read from the environment and .env; see README.md.',
    );
  for (const add of COMMANDS) add(command);
  addFormerNames(command);
  return command;
}

function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

/** Wrong usage ends with 2; Commander would say 1. Help and version end with 0. */
function exitAsDocumented(error: CommanderError): never {
  process.exit(error.exitCode === 0 ? EXIT.done : EXIT.usage);
}
