import type { Command } from 'commander';
import { migrationState, schemaProblem, type MigrationState } from '../../db/migrate.js';
import { openDatabase, openUnmigrated, type DatabaseOptions } from '../../db/open.js';
import { printResult } from '../console.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { action, databaseOptions, unlessAborted } from '../execute.js';
import { plural } from '../../domain/text.js';
import { describeCommand, type CommonOptions } from '../options.js';

interface MigrateOptions extends CommonOptions {
  readonly status?: boolean;
}

export function add(program: Command): void {
  const command = program
    .command('migrate')
    .option('--status', 'only show which migrations are pending');
  describeCommand(command, {
    about:
      'Applies pending migrations, each in its own transaction. Every other command does so too; this one does nothing else, for deployments.',
    examples: ['seller-mirror migrate', 'seller-mirror migrate --status'],
    options: ['json'],
  }).action(action(migrate));
}

async function migrate(signal: AbortSignal, options: MigrateOptions): Promise<ExitCode> {
  const store = databaseOptions('migrate', signal);
  if (options.status === true) {
    const state = await unlessAborted(schemaState(store), signal);
    await printResult(options, state ?? NO_STATE, () => stateText(state));
    return state === null || schemaProblem(state) === null ? EXIT.done : EXIT.failed;
  }
  const database = await unlessAborted(openDatabase(store), signal);
  await database.close();
  const { applied } = database;
  const title = `Applied ${plural(applied.length, 'migration')}:`;
  await printResult(options, applied, () => section(title, applied) || UP_TO_DATE);
  return EXIT.done;
}

const NO_STATE = { pending: null, edited: null, unknown: null };
const UP_TO_DATE = 'The database is up to date.\n';

/** Null when there is no embedded database yet. */
async function schemaState(store: DatabaseOptions): Promise<MigrationState | null> {
  const server = await openUnmigrated(store);
  if (server === null) return null;
  try {
    return await migrationState(server.url);
  } finally {
    await server.close();
  }
}

function stateText(state: MigrationState | null): string {
  if (state === null) return 'There is no database yet; the first command creates it.\n';
  const problem = schemaProblem(state);
  if (problem !== null) return `${problem.message}\n→ ${problem.remedy}\n`;
  return section('Pending; `seller-mirror migrate` applies them:', state.pending) || UP_TO_DATE;
}

function section(title: string, names: readonly string[]): string {
  return names.length === 0 ? '' : `${title}\n${names.map((name) => `  ${name}\n`).join('')}`;
}
