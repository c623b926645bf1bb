import type { Command } from 'commander';
import type { Config } from '../../config/index.js';
import { describeEmbedded, openEmbedded } from '../../store/embedded/index.js';
import { migrationState, type MigrationState } from '../../store/migrate.js';
import { openDatabase } from '../../store/open.js';
import { print, printJson } from '../console.js';
import { configFor, execute, unlessAborted } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { plural } from '../output/text.js';
import { withCommonOptions, type CommonOptions } from '../options.js';

interface MigrateOptions extends CommonOptions {
  readonly status?: true;
}

/** `migrate`: brings the database's schema up to date; every other command does so too. */
export function addMigrate(program: Command): void {
  const command = program
    .command('migrate')
    .description(
      'Applies pending migrations, each in a transaction of its own. The other commands do so too; this one does nothing else, for deployments.',
    )
    .option('--status', 'only show which migrations are pending')
    .addHelpText(
      'after',
      '\nExamples:\n  $ seller-mirror migrate\n  $ seller-mirror migrate --status',
    );
  withCommonOptions(command, { seller: false }).action((options: MigrateOptions) =>
    execute((signal) => (options.status === true ? show(options, signal) : apply(options, signal))),
  );
}

async function apply({ json }: MigrateOptions, signal: AbortSignal): Promise<ExitCode> {
  const { databaseUrl, dataDir } = await configFor('store');
  const applicationName = 'seller-mirror migrate';
  const database = await unlessAborted(
    openDatabase({ databaseUrl, dataDir, applicationName, signal }),
    signal,
  );
  await database.close();
  const { applied } = database;
  if (json === true) await printJson(applied);
  else if (applied.length === 0) await print('The database is up to date.\n');
  else await print(`Applied ${plural(applied.length, 'migration')}:\n`, listed(applied).join(''));
  return EXIT.done;
}

async function show({ json }: MigrateOptions, signal: AbortSignal): Promise<ExitCode> {
  const state = await unlessAborted(schemaState(await configFor('store'), signal), signal);
  if (json === true) await printJson(state ?? NO_STATE);
  else await print(stateLines(state).join(''));
  return EXIT.done;
}

/** State of a database that does not exist yet. */
const NO_STATE = { pending: null, failed: null, edited: null, unknown: null };

/** Reads the state of the schema without changing it; null when there is no embedded database yet. */
async function schemaState(
  { databaseUrl, dataDir }: Config,
  signal: AbortSignal,
): Promise<MigrationState | null> {
  if (databaseUrl !== null) return migrationState(databaseUrl.reveal());
  if ((await describeEmbedded(dataDir)) === null) return null;
  const database = await openEmbedded({
    dataDir,
    applicationName: 'seller-mirror migrate',
    signal,
  });
  try {
    return await migrationState(database.url);
  } finally {
    await database.close();
  }
}

function stateLines(state: MigrationState | null): string[] {
  if (state === null) return ['There is no database yet; the first command makes it.\n'];
  const { pending, failed, edited, unknown } = state;
  const lines = [
    ...section('Pending, `seller-mirror migrate` applies them:', pending),
    ...section('Begun and not finished, `seller-mirror migrate` tries them again:', failed),
    ...section('Applied in another wording than this program has:', edited),
    ...section('Applied by a newer version of this program, upgrade it:', unknown),
  ];
  return lines.length === 0 ? ['The database is up to date.\n'] : lines;
}

function section(title: string, names: readonly string[]): string[] {
  return names.length === 0 ? [] : [`${title}\n`, ...listed(names)];
}

function listed(names: readonly string[]): string[] {
  return names.map((name) => `  ${name}\n`);
}
