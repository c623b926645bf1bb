import type { Command } from 'commander';
import type { App } from '../../app.js';
import { print, printJson, stdoutLook } from '../console.js';
import { CommandError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { positiveInteger, runNumber, withCommonOptions, type CommonOptions } from '../options.js';
import { runDetails, runsTable, shortened } from '../run-view.js';

interface RunsOptions extends CommonOptions {
  readonly limit: number;
}

const DEFAULT_LIMIT = 20;

/** `runs [ID]`: what the runs did. */
export function addRuns(program: Command): void {
  const command = program
    .command('runs')
    .summary('list the newest runs, or show one')
    .description('Lists the newest runs, or shows one whole: figures, warnings, what went wrong.')
    .argument('[id]', 'a run’s number', runNumber)
    .option('--limit <n>', 'how many to list', positiveInteger, DEFAULT_LIMIT)
    .addHelpText(
      'after',
      '\nExamples:\n  $ seller-mirror runs --limit 5\n  $ seller-mirror runs 42',
    );
  withCommonOptions(command, { seller: true }).action(
    (id: bigint | undefined, options: RunsOptions) =>
      execute((signal) =>
        withApp('runs', 'store', signal, (app) =>
          id === undefined ? list(app, options) : show(app, id, options),
        ),
      ),
  );
}

async function list(app: App, { seller, limit, json }: RunsOptions): Promise<ExitCode> {
  const runs = await app.store.runs({
    limit,
    ...(seller === undefined ? {} : { sellerIds: [seller] }),
  });
  if (json === true) await printJson({ runs });
  else if (runs.length > 0) await print(runsTable(runs, stdoutLook()));
  else await print(`There is no run yet${seller === undefined ? '' : ' of this seller'}.\n`);
  return EXIT.done;
}

async function show(app: App, id: bigint, { seller, json }: RunsOptions): Promise<ExitCode> {
  const found = await app.store.run(id);
  if (found === null || (seller !== undefined && found.run.sellerId !== seller)) {
    throw new CommandError(
      `there is no run ${id}${seller === undefined ? '' : ' of this seller'}`,
      '`seller-mirror runs` lists them',
    );
  }
  const { run, quarantine, held } = found;
  if (json === true) {
    const records = quarantine.map((record) => ({ ...record, raw: shortened(record.raw) }));
    await printJson({ run, held, quarantine: records });
  } else {
    await print(runDetails(run, quarantine, stdoutLook()));
  }
  return EXIT.done;
}
