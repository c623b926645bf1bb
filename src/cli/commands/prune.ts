import type { Command } from 'commander';
import type { App } from '../../app.js';
import { keepsForEver, planRetention } from '../../domain/retention.js';
import { PruneBusyError, type Pruned } from '../../store/prune/prune.js';
import { print, printJson, stdoutLook } from '../console.js';
import { CommandError, usageError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { moment } from '../../domain/moment.js';
import { withCommonOptions, type CommonOptions } from '../options.js';
import { Progress } from '../output/progress.js';
import { table, type TableColumn } from '../output/table.js';
import { bytes, count, plural } from '../output/text.js';

interface PruneOptions extends CommonOptions {
  readonly dryRun?: true;
}

/** `prune`: deletes data that is older than the settings allow. */
export function addPrune(program: Command): void {
  const command = program
    .command('prune')
    .description(
      'Deletes data older than KEEP_RAW_DAYS, KEEP_RUNS_DAYS, KEEP_VERSIONS_DAYS and KEEP_AUDITS_DAYS; without a setting, its data is kept for ever. Items, changes, verdicts and the checks that prove them always stay. Syncs and audits can run meanwhile.',
    )
    .option('--dry-run', 'only show what would be deleted')
    .addHelpText(
      'after',
      '\n`run` and `scheduler` do so once a day by themselves. Stopped with Ctrl-C, what is done stays done.\n\nExamples:\n  $ seller-mirror prune --dry-run\n  $ KEEP_RUNS_DAYS=90 seller-mirror prune',
    );
  withCommonOptions(command, { seller: true }).action((options: PruneOptions) =>
    execute((signal) =>
      withApp('prune', 'store', signal, (app) => pruneStore(app, options, signal)),
    ),
  );
}

async function pruneStore(
  { config, store }: App,
  { seller, json, dryRun }: PruneOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  if (seller !== undefined && (await store.sellers.bindingOf(seller)) === null) {
    throw usageError(`the store knows no seller "${seller}"`, '`seller-mirror status` lists them');
  }
  const plan = planRetention(config.retention, new Date());
  const sellerIds = seller === undefined ? {} : { sellerIds: [seller] };
  const progress = new Progress({ output: process.stderr, label: 'prune' });
  let pruned: Pruned[];
  try {
    pruned =
      dryRun === true
        ? await store.measurePrune(plan, { ...sellerIds, signal })
        : await store.prune(plan, {
            ...sellerIds,
            signal,
            onProgress: (rows, detail) => progress.update(rows, { detail }),
          });
  } catch (error) {
    if (!(error instanceof PruneBusyError)) throw error;
    throw new CommandError(error.message, 'wait for it to end, then repeat');
  } finally {
    progress.finish();
  }
  if (json === true)
    await printJson({ dryRun: dryRun === true, keepDays: config.retention, pruned });
  else if (keepsForEver(config.retention)) await print(NOTHING_SET);
  else await print(report(pruned, dryRun === true).join(''));
  return EXIT.done;
}

const NOTHING_SET =
  'Everything is kept for ever: none of KEEP_RAW_DAYS, KEEP_RUNS_DAYS, KEEP_VERSIONS_DAYS and KEEP_AUDITS_DAYS is set.\n';

const COLUMNS: readonly TableColumn<Pruned>[] = [
  { header: 'what', value: ({ what }) => what },
  { header: 'older than', value: ({ before }) => moment(before) },
  { header: 'rows', value: ({ rows }) => count(rows), align: 'right' },
  { header: 'size', value: (pruned) => bytes(pruned.bytes), align: 'right' },
];

function report(pruned: readonly Pruned[], dryRun: boolean): string[] {
  const found = pruned.filter(({ rows }) => rows > 0);
  const left = new Set(pruned.flatMap((one) => one.left));
  const rows = found.reduce((sum, one) => sum + one.rows, 0);
  const size = bytes(found.reduce((sum, one) => sum + one.bytes, 0));
  const ending = dryRun
    ? `Would go: ${plural(rows, 'row')}, about ${size}. Nothing was deleted.\n`
    : `✓ pruned ${plural(rows, 'row')}, about ${size}, which the database uses for new rows\n`;
  return [
    ...(found.length === 0 ? [] : [table(found, COLUMNS, stdoutLook()), '\n']),
    rows === 0 ? 'There is nothing to delete.\n' : ending,
    ...(left.size === 0
      ? []
      : [`Items of ${[...left].join(', ')} were left for the next time: a run is writing them.\n`]),
  ];
}
