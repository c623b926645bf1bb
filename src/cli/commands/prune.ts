import type { Command } from 'commander';
import type { App } from '../../app.js';
import { moment } from '../../domain/moment.js';
import { keepsEverything, planRetention, type Pruned, prune } from '../../db/prune.js';
import { printResult, stdoutLook } from '../console.js';
import { appAction } from '../execute.js';
import { assertSeller, describeCommand, sellerFilter, type CommonOptions } from '../options.js';
import { withProgress } from '../output/progress.js';
import { table, type TableColumn } from '../output/table.js';
import { bytes, count, plural } from '../../domain/text.js';

interface PruneOptions extends CommonOptions {
  readonly dryRun?: boolean;
}

export function add(program: Command): void {
  describeCommand(program.command('prune').option('--dry-run', 'only show what would be deleted'), {
    about:
      'Deletes data older than KEEP_RAW_DAYS, KEEP_RUNS_DAYS, KEEP_VERSIONS_DAYS and KEEP_AUDITS_DAYS. Data without a setting is kept forever. Items, changes, verdicts and the answers that prove them are never deleted. Syncs and checks can run meanwhile.',
    notes:
      '`run` and `scheduler` do this every six hours. Ctrl-C stops it; rows deleted until then stay deleted.',
    examples: ['seller-mirror prune --dry-run', 'KEEP_RUNS_DAYS=90 seller-mirror prune'],
    options: ['json', 'quiet', 'seller'],
  }).action(appAction('store', pruneStore));
}

async function pruneStore(app: App, options: PruneOptions): Promise<void> {
  const { config, db, signal } = app;
  const { retention } = config;
  const { seller, dryRun = false } = options;
  await assertSeller(app, seller);
  const plan = planRetention(retention, new Date(db.clock.now()));
  const pruned = await withProgress('prune', (progress) => {
    const onProgress = (rows: number, detail: string): void => progress.update(rows, { detail });
    return prune(db, plan, { ...sellerFilter(seller), dryRun, signal, onProgress });
  });
  await printResult(options, { dryRun, keepDays: retention, pruned }, () =>
    keepsEverything(retention) ? KEEPS_ALL : report(pruned, dryRun),
  );
}

const KEEPS_ALL =
  'Everything is kept forever: none of KEEP_RAW_DAYS, KEEP_RUNS_DAYS, KEEP_VERSIONS_DAYS and KEEP_AUDITS_DAYS is set.\n';

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
    ? `This would delete ${plural(rows, 'row')}, about ${size}. Nothing was deleted.\n`
    : `✓ deleted ${plural(rows, 'row')}, about ${size}; the database reuses the space\n`;
  return [
    rows === 0
      ? 'There is nothing to delete.\n'
      : `${table(found, COLUMNS, stdoutLook())}\n${ending}`,
    left === '' ? '' : `Skipped ${left}: a run is writing items. Try again later.\n`,
  ].join('');
}
