import { Argument, Option, type Command } from 'commander';
import type { App } from '../../app.js';
import type { SellerConfig } from '../../config/index.js';
import { silentLog } from '../../domain/log.js';
import { syncAccount } from '../../jobs/sync-account.js';
import { syncCatalogue } from '../../jobs/sync-catalogue.js';
import { syncItem } from '../../jobs/sync-item.js';
import type { JobDeps, RunReport } from '../../jobs/types.js';
import type { MirrorTask } from '../../queue/tasks.js';
import { print, printJson, stdoutLook } from '../console.js';
import { reportError, usageError } from '../errors.js';
import { complain, execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import {
  chosenSellers,
  positiveInteger,
  type CommonOptions,
  withCommonOptions,
} from '../options.js';
import { asTyped } from '../own-command.js';
import { SyncProgress, exitCodeOf, runJson, runLines } from '../run-report.js';

interface SyncOptions extends CommonOptions {
  readonly acceptAccount?: true;
  readonly queue?: true;
}

type What = 'all' | 'account' | 'items' | 'item';

/** `sync [account|items|item ID]`: mirrors account and items. */
export function addSync(program: Command): void {
  const command = program
    .command('sync')
    .description(
      'Mirrors the account and all items of each seller. With `account` or `items` only that part; with `item ID` one item.',
    )
    .addArgument(new Argument('[what]', 'what to mirror').choices(['account', 'items', 'item']))
    .argument('[id]', 'the item’s id, after `item`', positiveInteger)
    .option('--accept-account', 'accept that the key opens another account than before')
    .addOption(
      new Option('--queue', 'put a job into the queue for a `worker` instead').conflicts(
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
          throw usageError('an item belongs to one seller', 'name it with --seller');
        }
        if (options.queue === true) {
          await putIntoQueue(app, sellers, what, id, options.json === true);
          return EXIT.done;
        }
        const reports: RunReport[] = [];
        const failures: Failure[] = [];
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
            failures.push({ seller: seller.name, exitCode: complain(error, seller.name), error });
          }
        }
        if (options.json === true)
          await printJson({ runs: reports.map(runJson), problems: failures.map(failureJson) });
        return failures.length > 0 ? worstOf(failures) : exitCodeOf(reports);
      },
      () => ({ onProgress: (seller, step) => progress.show(seller, step) }),
    );
  } finally {
    if (signal.aborted) progress.noteInterrupted();
    progress.finish();
  }
}

/** Why no run of a seller started, such as another process that holds its lock. */
interface Failure {
  readonly seller: string;
  readonly error: unknown;
  readonly exitCode: ExitCode;
}

function failureJson({ seller: sellerId, error }: Failure): object {
  return { sellerId, problem: asTyped(reportError(error, null).lines.join(' ')) };
}

function worstOf(failures: readonly Failure[]): ExitCode {
  return failures.every(({ exitCode }) => exitCode === EXIT.usage) ? EXIT.usage : EXIT.failed;
}

function checkArguments(what: What, id: number | null): void {
  const example = 'for example: `seller-mirror sync item 4711`';
  if (what === 'item' && id === null) throw usageError('which item? its id is missing', example);
  if (what !== 'item' && id !== null) {
    throw usageError(`"${id}" is not understood after "${what}"`, example);
  }
}

/** Does one seller's runs. After a failed account run, the items are not mirrored. */
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

/** Puts a job for each seller into the queue. @throws {QueueError} when the queue can't be reached */
async function putIntoQueue(
  app: App,
  sellers: readonly SellerConfig[],
  what: What,
  itemId: number | null,
  json: boolean,
): Promise<void> {
  const { redis, queuePrefix, keepJobsDays } = app.config;
  const { openQueues } = await import('../../queue/queues.js'); // takes long to load
  const queues = await openQueues({
    target: redis,
    databaseUrl: app.database.url,
    prefix: queuePrefix,
    keepJobsDays,
    applicationName: 'seller-mirror sync --queue',
    log: silentLog,
  });
  const jobs: { readonly sellerId: string; readonly jobId: string }[] = [];
  try {
    for (const { name: seller } of sellers) {
      const asked = { seller, tick: null, askedAt: new Date().toISOString() };
      const task: MirrorTask =
        what === 'item'
          ? { ...asked, kind: what, itemId: itemId ?? 0 }
          : { ...asked, kind: what === 'all' ? 'sync' : what };
      const { jobId } = await queues.addMirror(task);
      jobs.push({ sellerId: seller, jobId });
    }
  } finally {
    await queues.close();
  }
  if (json) await printJson(jobs);
  else
    for (const { sellerId, jobId } of jobs) await print(`${sellerId} · in the queue as ${jobId}\n`);
}
