import type { Command } from 'commander';
import { processEnvironment, type Config } from '../config/index.js';
import { loadConfig } from '../config/load.js';
import { silentLog, type Log } from '../domain/log.js';
import type { Queues } from '../service/queue/queues.js';
import { openApp, type App, type AppEvents } from '../app.js';
import type { DatabaseOptions } from '../db/open.js';
import { pagerHasTerminal, printNote, printProblem } from './console.js';
import { describeEmbedded } from '../db/embedded/index.js';
import { reportError, usageError } from './errors.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import { safeLine } from './output/text.js';
import { plural } from '../domain/text.js';

/** Time that a command has to end after Ctrl-C. */
const GRACE_MS = 5_000;

/** Aborted by SIGINT and SIGTERM. Commands pass its signal to everything that takes time. */
const interruption = new AbortController();

function exitNow(): never {
  if (process.exitCode === undefined) {
    process.stderr.write('interrupted; nothing is left half done; run it again to continue\n');
  }
  process.exit(process.exitCode ?? EXIT.interrupted);
}

/**
 * Runs a command: sets the exit code of the process, prints errors on stderr, and ends the command on Ctrl-C.
 * @param graceMs time that the command has to end after Ctrl-C; null: no limit
 */
async function execute(
  work: (signal: AbortSignal) => Outcome,
  graceMs: number | null = GRACE_MS,
): Promise<void> {
  const onSignal = (signal: NodeJS.Signals): void => {
    if (signal === 'SIGINT' && pagerHasTerminal()) return;
    // A second signal ends the process at once. The database rolls back what was not committed.
    if (interruption.signal.aborted) exitNow();
    interruption.abort(new Error('interrupted'));
    // Some operations can't be aborted, such as connecting to a host that does not answer.
    if (graceMs !== null) setTimeout(exitNow, graceMs).unref();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  try {
    process.exitCode = (await work(interruption.signal)) ?? EXIT.done;
  } catch (error) {
    // Without waiting for what is still open, such as a pending connection.
    if (interruption.signal.aborted) exitNow();
    process.exitCode = printError(error);
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}

/** Waits for a promise until the signal aborts. The work behind it continues, so it must be safe to kill. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const aborted = new Promise<never>((_, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
  });
  return await Promise.race([work, aborted]);
}

/** Used to explain errors of the database driver; never shown. */
let databaseUrl: string | null = null;

/** Prints an error on stderr. @param who the seller, if other sellers are not affected @returns its exit code */
export function printError(error: unknown, who?: string): ExitCode {
  const { lines, exitCode } = reportError(error, databaseUrl);
  const head = who === undefined ? 'error' : `error: ${who}`;
  const shown = lines.map((line, i) => `${i === 0 ? `${head}: ` : '  '}${safeLine(line)}\n`);
  printProblem(shown.join(''));
  const level = processEnvironment()['LOG_LEVEL'];
  if ((level === 'debug' || level === 'trace') && error instanceof Error) {
    process.stderr.write(`${error.stack ?? ''}\n`);
  }
  return exitCode;
}

/** Reads the settings without printing warnings. @throws ConfigError that lists all problems */
export function readSettings(needs: 'store' | 'sellers'): Config {
  return loadConfig(needs);
}

/** Maximum number of warnings to print: each of a thousand sellers may have one. */
const MAX_WARNINGS = 20;

/** Reads the settings and prints their warnings. @throws ConfigError that lists all problems */
export function configFor(needs: 'store' | 'sellers'): Config {
  const config = readSettings(needs);
  const { warnings } = config;
  for (const warning of warnings.slice(0, MAX_WARNINGS)) {
    printNote(`warning: ${safeLine(warning)}\n`);
  }
  const more = warnings.length - MAX_WARNINGS;
  if (more > 0) printNote(`warning: ${plural(more, 'more warning')} not shown\n`);
  databaseUrl = config.databaseUrl?.reveal() ?? null;
  return config;
}

/**
 * What a command works on: `store`, an existing one, so that a command that reads makes none in a wrong folder; `new store`
 * is made if there is none; `sellers`, too, and needs sellers in the settings.
 */
export type Needs = 'store' | 'new store' | 'sellers';

/** The app as commands use it. */
export interface CommandApp extends App {
  /** Opens the queues, unless they are open. They are closed with the app. */
  queues(): Promise<Queues>;
}

/** Opens the app, and closes it after the work, also after an error. @throws {UserError} if there is no store */
export async function withApp<T>(
  command: string,
  needs: Needs,
  signal: AbortSignal,
  work: (app: CommandApp) => Promise<T>,
  events?: AppEvents,
): Promise<T> {
  const config = configFor(needs === 'sellers' ? 'sellers' : 'store');
  if (needs === 'store') await assertStore(config);
  // Preloads the client while the store is opened.
  if (needs === 'sellers') void import('../marketplace/client.js');
  const onWarning = (warning: string): void => printNote(`warning: ${warning}\n`);
  const app = await unlessAborted(
    openApp(config, command, signal, { onWarning, ...events }),
    signal,
  );
  let queues: Promise<Queues> | null = null;
  const close = async (): Promise<void> => {
    await queues?.then((opened) => opened.close());
    await app.close();
  };
  let result: T;
  try {
    result = await work({ ...app, queues: () => (queues ??= openQueuesOf(app, command)) });
  } catch (error) {
    // The error of the work matters more than an error of closing.
    await close().catch(() => undefined);
    throw error;
  }
  await close();
  return result;
}

/** @throws {UserError} when there is no store yet */
export async function assertStore({ databaseUrl, dataDir }: Config): Promise<void> {
  if (databaseUrl !== null || (await describeEmbedded(dataDir)) !== null) return;
  throw usageError(
    `there is no store in ${dataDir}`,
    'run this in the folder of your store, or set DATA_DIR; `seller-mirror sync` makes a new store',
  );
}

/** Returns the options for opening the store alone. @param name of the command, shown as the session name */
export function databaseOptions(name: string, signal: AbortSignal): Required<DatabaseOptions> {
  const { databaseUrl, dataDir } = configFor('store');
  return { databaseUrl, dataDir, applicationName: `seller-mirror ${name}`, signal };
}

/** Opens the queues. The caller closes them. @param name of the command, shown as the database's session name */
export async function openQueuesOf(
  { config, database }: App,
  name: string,
  log: Log = silentLog,
): Promise<Queues> {
  const { openQueues } = await import('../service/queue/queues.js'); // slow to load
  return openQueues({
    target: config.redis,
    databaseUrl: database.url,
    prefix: config.queuePrefix,
    keepJobsDays: config.keepJobsDays,
    applicationName: `seller-mirror ${name}`,
    log,
  });
}

/** The result of an action. No exit code means EXIT.done. */
type Outcome = Promise<ExitCode | void>;

/** Wraps a function as an action for Commander. @param work receives the signal, then Commander's arguments */
export function action<A extends unknown[]>(
  work: (signal: AbortSignal, ...args: A) => Outcome,
): (...args: A) => Promise<void> {
  return (...args) => execute((signal) => work(signal, ...args));
}

/**
 * As `action`, for a service. The first signal stops it without a time limit; then the process exits, even if
 * something is still open. A second signal ends it at once: the next worker repeats the unfinished jobs.
 */
export function serviceAction<A extends unknown[]>(
  work: (signal: AbortSignal, ...args: A) => Outcome,
): (...args: A) => Promise<void> {
  return async (...args) => {
    await execute((signal) => work(signal, ...args), null);
    process.exit();
  };
}

/** As `action`, for a function that works with the app: opens it before, and closes it afterwards. */
export function appAction<A extends unknown[]>(
  needs: Needs,
  work: (app: CommandApp, ...args: A) => Outcome,
): (...args: A) => Promise<void> {
  return action((signal, ...args: A) =>
    // Commander passes the command itself as the last argument.
    withApp(pathOf(args.at(-1) as Command), needs, signal, (app) => work(app, ...args)),
  );
}

/** The full name of a command, such as `codes check`. */
function pathOf(command: Command): string {
  const { parent } = command;
  const isOuter = parent === null || parent.parent === null;
  return isOuter ? command.name() : `${pathOf(parent)} ${command.name()}`;
}
