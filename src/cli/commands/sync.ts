import { Argument, Option, type Command } from 'commander';
import type { App } from '../../app.js';
import type { SellerConfig } from '../../config/index.js';
import { syncAccount } from '../../jobs/sync-account.js';
import { syncCatalogue } from '../../jobs/sync-catalogue.js';
import { syncItem } from '../../jobs/sync-item.js';
import type { JobDeps, RunReport } from '../../jobs/types.js';
import { print, printJson, stdoutLook } from '../console.js';
import { enqueue } from '../enqueue.js';
import { CommandError, reportError } from '../errors.js';
import { complain, execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import {
  chosenSellers,
  positiveInteger,
  withCommonOptions,
  type CommonOptions,
} from '../options.js';
import { asTyped } from '../own-command.js';
import { exitCodeOf, runJson, runLines } from '../run-report.js';
import { SyncProgress } from '../sync-progress.js';

interface SyncOptions extends CommonOptions {
  readonly acceptAccount?: true;
  readonly queue?: true;
}

type What = 'all' | 'account' | 'items' | 'item';

/** `sync [account|items|item ID]`: the main job. */
export function addSync(program: Command): void {
  const command = program
    .command('sync')
    .description(
      'Mirrors the account and all items of each seller. With `account` or `items` only that part; with `item ID` one item.',
    )
    .addArgument(new Argument('[what]', 'what to mirror').choices(['account', 'items', 'item']))
    .argument('[id]', 'the item’s id, after `item`', positiveInteger)
    .option('--accept-account', 'go on although the key opens another account than before')
    .addOption(
      new Option('--queue', 'put it into the queue for a `worker` instead').conflicts(
        'acceptAccount',
      ),
    )
    .addHelpText(
      'after',
      '\nExamples:\n  $ seller-mirror sync\n  $ seller-mirror sync item 4711 --seller main\n\nExit codes: 0 done, 1 failed, 2 usage, 3 held by the removal guard, 130 interrupted',
    );
  withCommonOptions(command, { seller: true }).action(
    (what: Exclude<What, 'all'> | undefined, id: number | undefined, options: SyncOptions) =>
      execute((signal) => sync(what ?? 'all', id ?? null, options, signal)),
  );
}

async function sync(
  what: What,
  id: number | null,
  options: SyncOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  checkArguments(what, id);
  const progress = new SyncProgress();
  try {
    return await withApp(
      'sync',
      'sellers',
      signal,
      async (app) => {
        const sellers = chosenSellers(app.config, options.seller);
        if (what === 'item' && sellers.length > 1) {
          throw new CommandError(
            'an item belongs to one seller',
            'name it with --seller',
            EXIT.usage,
          );
        }
        if (options.queue === true) return await putIntoQueue(app, sellers, what, id, options);
        const reports: RunReport[] = [];
        const obstacles: Obstacle[] = [];
        for (const seller of sellers) {
          try {
            const acceptAccount = options.acceptAccount === true;
            await app.withJobs(seller, { acceptAccount }, async (deps) => {
              for await (const report of runsOf(deps, what, id, signal)) {
                progress.finish();
                reports.push(report);
                if (options.json !== true) await print(runLines(report, stdoutLook()));
              }
            });
          } catch (error) {
            if (signal.aborted) throw error;
            progress.finish();
            obstacles.push({ seller: seller.name, exitCode: complain(error, seller.name), error });
          }
        }
        if (options.json === true)
          await printJson({ runs: reports.map(runJson), problems: obstacles.map(told) });
        return obstacles.length > 0 ? worstOf(obstacles) : exitCodeOf(reports);
      },
      () => ({ onProgress: (seller, step) => progress.show(seller, step) }),
    );
  } finally {
    if (signal.aborted) progress.tellInterrupted();
    progress.finish();
  }
}

async function putIntoQueue(
  app: App,
  sellers: readonly SellerConfig[],
  what: What,
  id: number | null,
  options: SyncOptions,
): Promise<ExitCode> {
  const jobs = await enqueue(app, sellers, what === 'all' ? 'sync' : what, id);
  if (options.json === true)
    await printJson(jobs.map(({ seller: sellerId, jobId }) => ({ sellerId, jobId })));
  else for (const { seller, jobId } of jobs) await print(`${seller} · in the queue as ${jobId}\n`);
  return EXIT.done;
}

/** What kept a seller from being run at all, such as another process at work on it. */
interface Obstacle {
  readonly seller: string;
  readonly error: unknown;
  readonly exitCode: ExitCode;
}

function told({ seller: sellerId, error }: Obstacle): object {
  return { sellerId, problem: asTyped(reportError(error, null).lines.join(' ')) };
}

function worstOf(obstacles: readonly Obstacle[]): ExitCode {
  return obstacles.every(({ exitCode }) => exitCode === EXIT.usage) ? EXIT.usage : EXIT.failed;
}

function checkArguments(what: What, id: number | null): void {
  const usage = (message: string): CommandError =>
    new CommandError(message, 'for example: `seller-mirror sync item 4711`', EXIT.usage);
  if (what === 'item' && id === null) throw usage('which item? its id is missing');
  if (what !== 'item' && id !== null) throw usage(`"${id}" is not understood after "${what}"`);
}

/** One seller's runs. One that fails ends this seller's, not the others'. */
async function* runsOf(
  deps: JobDeps,
  what: What,
  id: number | null,
  signal: AbortSignal,
): AsyncGenerator<RunReport> {
  if (what === 'item' && id !== null) {
    yield await syncItem(deps, id, signal);
    return;
  }
  if (what === 'items') {
    yield await syncCatalogue(deps, signal);
    return;
  }
  const { report, proof } = await syncAccount(deps, signal);
  yield report;
  if (what === 'all' && proof !== null && report.state === 'succeeded') {
    yield await syncCatalogue(deps, signal, proof);
  }
}
