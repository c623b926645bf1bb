import type { Command } from 'commander';
import type { App } from '../../app.js';
import { moment } from '../../domain/moment.js';
import { keepsForEver, planRetention, type Pruned } from '../../store/prune.js';
import { printResult, stdoutLook } from '../console.js';
import { appAction } from '../execute.js';
import { checkStored, described, onlySeller, type CommonOptions } from '../options.js';
import { Progress } from '../output/progress.js';
import { table, type TableColumn } from '../output/table.js';
import { bytes } from '../../domain/units.js';
import { count, plural } from '../output/text.js';

interface PruneOptions extends CommonOptions {
  readonly dryRun?: boolean;
}

export function add(program: Command): void {
  described(program.command('prune').option('--dry-run', 'only show what would be deleted'), {
    about:
      'Deletes data older than KEEP_RAW_DAYS, KEEP_RUNS_DAYS, KEEP_VERSIONS_DAYS and KEEP_AUDITS_DAYS; without a setting, its data is kept for ever. Items, changes, verdicts and the checks that prove them always stay. Syncs and audits can run meanwhile.',
    notes:
      '`run` and `scheduler` do this once a day. After Ctrl-C, what was deleted stays deleted.',
    examples: ['seller-mirror prune --dry-run', 'KEEP_RUNS_DAYS=90 seller-mirror prune'],
    options: ['json', 'seller'],
  }).action(appAction('store', prune));
}

async function prune(
  { config: { retention }, store, signal }: App,
  options: PruneOptions,
): Promise<void> {
  const { seller, dryRun = false } = options;
  await checkStored(store, seller);
  const plan = planRetention(retention, new Date());
  const progress = new Progress('prune');
  const onProgress = (rows: number, detail: string): void => progress.update(rows, { detail });
  const how = { ...onlySeller(seller), signal };
  let pruned: Pruned[];
  try {
    pruned = dryRun
      ? await store.measurePrune(plan, how)
      : await store.prune(plan, { ...how, onProgress });
  } finally {
    progress.finish();
  }
  await printResult(options, { dryRun, keepDays: retention, pruned }, () =>
    keepsForEver(retention) ? NOTHING_SET : report(pruned, dryRun),
  );
}

const NOTHING_SET =
  'Everything is kept for ever: none of KEEP_RAW_DAYS, KEEP_RUNS_DAYS, KEEP_VERSIONS_DAYS and KEEP_AUDITS_DAYS is set.\n';

const COLUMNS: readonly TableColumn<Pruned>[] = [
  { header: 'what', value: ({ what }) => what },
  { header: 'older than', value: ({ before }) => moment(before) },
  { header: 'rows', value: ({ rows }) => count(rows), align: 'right' },
  { header: 'size', value: (pruned) => bytes(pruned.bytes), align: 'right' },
];

function report(pruned: readonly Pruned[], dryRun: boolean): string {
  const found = pruned.filter(({ rows }) => rows > 0);
  const left = [...new Set(pruned.flatMap((one) => one.left))].join(', ');
  const rows = found.reduce((sum, one) => sum + one.rows, 0);
  const size = bytes(found.reduce((sum, one) => sum + one.bytes, 0));
  const ending = dryRun
    ? `Would go: ${plural(rows, 'row')}, about ${size}. Nothing was deleted.\n`
    : `✓ pruned ${plural(rows, 'row')}, about ${size}, which the database uses for new rows\n`;
  return [
    rows === 0
      ? 'There is nothing to delete.\n'
      : `${table(found, COLUMNS, stdoutLook())}\n${ending}`,
    left === '' ? '' : `Items of ${left} were left for the next time: a run is writing them.\n`,
  ].join('');
}
