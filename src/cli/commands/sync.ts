import { Argument, Option, type Command } from 'commander';
import type { SellerConfig } from '../../config/index.js';
import { syncAccount } from '../../catalogue/account.js';
import { syncItem } from '../../catalogue/sync-item.js';
import { syncItems, syncSeller } from '../../catalogue/sync-items.js';
import type { RunDeps, RunReport } from '../../catalogue/types.js';
import { print, printJson, printResult, stdoutLook } from '../console.js';
import { reportError, usageError } from '../errors.js';
import { action, type CommandApp, printError, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { askForRuns, followUp } from '../follow-up.js';
import {
  chosenSellers,
  describeCommand,
  idParser,
  positiveInteger,
  type CommonOptions,
} from '../options.js';
import { withRunnableCommands } from '../own-command.js';
import { act } from '../resource.js';
import { RUNS } from './runs.js';
import { SyncProgress, exitCodeOfRuns, runJson, runLines } from '../run-report.js';

interface SyncOptions extends CommonOptions {
  readonly acceptAccount?: boolean;
  readonly acceptRemovals?: bigint;
  readonly keepRemovals?: bigint;
  readonly queue?: boolean;
}

/** What to mirror. */
type Target =
  | { readonly kind: 'sync' | 'account' | 'items' }
  | { readonly kind: 'item'; readonly itemId: number };

const runNumber = idParser('Runs are numbered 1, 2, 3 and so on; `seller-mirror status` names it.');

export function add(program: Command): void {
  const [accept, keep] = [
    new Option('--accept-removals <run>', 'remove the items that this run shows as held and gone'),
    new Option('--keep-removals <run>', 'keep the items that this run shows as held as missing'),
  ].map((option) =>
    option.argParser(runNumber).conflicts(['acceptAccount', 'queue', 'seller']),
  ) as [...[Option, Option]];
  const queue = new Option('--queue', 'have a `worker` do it');
  const command = program
    .command('sync')
    .addArgument(new Argument('[what]', 'what to mirror').choices(['account', 'items', 'item']))
    .argument('[id]', 'the item’s id, after `item`', positiveInteger)
    .option('--accept-account', 'accept that the key now opens a different account')
    .addOption(queue.conflicts('acceptAccount'))
    .addOption(accept)
    .addOption(keep.conflicts('acceptRemovals'));
  describeCommand(command, {
    about:
      'Mirrors the account and all items of each seller. `account` or `items` mirrors only that part, `item ID` one item. With --accept-removals or --keep-removals it makes no request: it settles removals that were held.',
    examples: [
      'seller-mirror sync',
      'seller-mirror sync item 4711 --seller main',
      'seller-mirror sync --accept-removals 42',
    ],
    more: 'Exit codes: 0 done, 1 failed, 2 usage, 3 removals held, 130 interrupted',
    options: ['json', 'quiet', 'seller'],
  }).action(action(sync));
}

async function sync(
  signal: AbortSignal,
  kind: Target['kind'] | undefined,
  id: number | undefined,
  options: SyncOptions,
): Promise<ExitCode> {
  const { acceptRemovals: accepted, keepRemovals: kept } = options;
  if (accepted !== undefined || kept !== undefined) {
    if (kind !== undefined) throw usageError(`"${kind}" and held removals don’t go together`, HELP);
    const action = accepted === undefined ? 'keep' : 'accept';
    await withApp('sync', 'store', signal, (app) =>
      act(app, RUNS, action, String(accepted ?? kept), options),
    );
    return EXIT.done;
  }
  const target = targetOf(kind ?? 'sync', id);
  const progress = new SyncProgress();
  const onProgress = progress.show.bind(progress);
  try {
    return await withApp(
      'sync',
      'sellers',
      signal,
      (app) => {
        const sellers = chosenSellers(app.config, options.seller);
        if (target.kind === 'item' && sellers.length > 1) {
          throw usageError('an item belongs to one seller', 'name the seller with --seller');
        }
        return options.queue === true
          ? ask(app, sellers, target, options)
          : mirror(app, sellers, target, options, progress);
      },
      { onProgress },
    );
  } finally {
    if (signal.aborted) progress.noteInterrupted();
    progress.finish();
  }
}

const HELP = 'for example: `seller-mirror sync --accept-removals 42`';

function targetOf(kind: Target['kind'], id: number | undefined): Target {
  const example = 'for example: `seller-mirror sync item 4711`';
  if (kind === 'item') {
    if (id === undefined) throw usageError('which item? its id is missing', example);
    return { kind, itemId: id };
  }
  if (id === undefined) return { kind };
  throw usageError(`"${kind}" takes no id, but "${id}" was given`, example);
}

async function mirror(
  app: CommandApp,
  sellers: readonly SellerConfig[],
  target: Target,
  { acceptAccount = false, json }: SyncOptions,
  progress: SyncProgress,
): Promise<ExitCode> {
  const runs: RunReport[] = [];
  /** Why a seller's run did not start, for example because another process holds its lock. */
  const problems: object[] = [];
  const codes: ExitCode[] = [];
  for (const seller of sellers) {
    try {
      const own: RunReport[] = [];
      const onWait = progress.wait.bind(progress);
      await app.withMarketplace(seller, { acceptAccount, onWait }, async (deps) => {
        for await (const report of runsOf(deps, target, app.signal)) {
          progress.finish();
          runs.push(report);
          own.push(report);
          if (json !== true) await print(runLines(report, stdoutLook()));
        }
      });
      const isMirrored = own.some(({ state }) => state !== 'failed');
      await followUp(app, 'sync', isMirrored);
    } catch (error) {
      if (app.signal.aborted) throw error;
      progress.finish();
      codes.push(printError(error, seller.name));
      const problem = withRunnableCommands(reportError(error, null).lines.join(' '));
      problems.push({ sellerId: seller.name, problem });
    }
  }
  if (json === true) await printJson({ runs: runs.map(runJson), problems });
  if (codes.length === 0) return exitCodeOfRuns(runs);
  return codes.every((code) => code === EXIT.usage) ? EXIT.usage : EXIT.failed;
}

async function* runsOf(
  deps: RunDeps,
  target: Target,
  signal: AbortSignal,
): AsyncGenerator<RunReport> {
  if (target.kind === 'item') yield await syncItem(deps, target.itemId, signal);
  else if (target.kind === 'account') yield (await syncAccount(deps, signal)).report;
  else if (target.kind === 'items') yield await syncItems(deps, signal);
  else yield* syncSeller(deps, signal);
}

/** Asks for runs of each seller, which a worker performs, also one that is started later. */
async function ask(
  app: CommandApp,
  sellers: readonly SellerConfig[],
  target: Target,
  options: CommonOptions,
): Promise<ExitCode> {
  const asked = await askForRuns(
    app,
    sellers.map(({ name }) => name),
    target,
  );
  await printResult(options, asked, () =>
    asked.map(({ sellerId }) => `${sellerId} · asked for; a worker does it\n`).join(''),
  );
  return EXIT.done;
}
