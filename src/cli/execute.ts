import { lstat, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { loadConfig, processEnvironment, type Config } from '../config/index.js';
import { silentLog, type Log } from '../domain/log.js';
import { writeWhole } from '../intake/write-whole.js';
import { cronFault } from '../queue/cron.js';
import type { Queues } from '../queue/queues.js';
import { openApp, type App, type AppEvents } from '../app.js';
import type { DatabaseOptions } from '../store/open.js';
import { pagerHasTerminal, note } from './console.js';
import { reportError } from './errors.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import { safeLine } from './output/text.js';

/** Time for an orderly end after Ctrl-C. */
const GRACE_MS = 5_000;

/** Aborted by SIGINT and SIGTERM; commands pass its signal to everything that takes time. */
const interruption = new AbortController();

function endNow(): never {
  process.exit(process.exitCode ?? interrupted());
}

/**
 * Sets the exit code of the process; turns errors into lines on stderr, Ctrl-C into an orderly end.
 * @param graceMs time for that end; null: it takes as long as it takes
 */
async function execute(
  work: (signal: AbortSignal) => Outcome,
  graceMs: number | null = GRACE_MS,
): Promise<void> {
  const onSignal = (signal: NodeJS.Signals): void => {
    if (signal === 'SIGINT' && pagerHasTerminal()) return;
    // A second signal ends it at once. Committed data is safe; the rest was never visible.
    if (interruption.signal.aborted) endNow();
    interruption.abort(new Error('interrupted'));
    // Ends also when something can't be aborted, such as the wait for a host that never answers.
    if (graceMs !== null) setTimeout(endNow, graceMs).unref();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  try {
    process.exitCode = (await work(interruption.signal)) ?? EXIT.done;
  } catch (error) {
    // At once: what is still open, such as a pending connection, ends with the process.
    if (interruption.signal.aborted) endNow();
    process.exitCode = complain(error);
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}

/** Waits for work that can't be aborted, until the signal. The work must leave nothing half done. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const aborted = new Promise<never>((_, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
  });
  return await Promise.race([work, aborted]);
}

function interrupted(): ExitCode {
  process.stderr.write('interrupted; nothing is half done, run it again to go on\n');
  return EXIT.interrupted;
}

/** Used to explain the database driver's errors; never shown. */
let databaseUrl: string | null = null;

/** @param who the seller it is about, when others are not affected @returns the exit code for it */
export function complain(error: unknown, who?: string): ExitCode {
  const { lines, exitCode } = reportError(error, databaseUrl);
  const head = who === undefined ? 'error' : `error: ${who}`;
  const shown = lines.map((line, i) => `${i === 0 ? `${head}: ` : '  '}${safeLine(line)}\n`);
  note(shown.join(''));
  const level = processEnvironment()['LOG_LEVEL'];
  if ((level === 'debug' || level === 'trace') && error instanceof Error) {
    process.stderr.write(`${error.stack ?? ''}\n`);
  }
  return exitCode;
}

/** @throws ConfigError with everything that is wrong with the configuration of this process */
export function readSettings(needs: 'store' | 'sellers'): Config {
  return loadConfig(needs, cronFault);
}

/** At most this many warnings are shown: a thousand sellers may have one each. */
const MOST_WARNINGS = 20;

export async function configFor(needs: 'store' | 'sellers'): Promise<Config> {
  const config = readSettings(needs);
  const exposed = needs === 'sellers' && (await isNewWarning(config)) ? config.exposedSecrets : [];
  const warnings = [...config.warnings, ...exposed];
  for (const warning of warnings.slice(0, MOST_WARNINGS)) {
    note(`warning: ${safeLine(warning)}\n`);
  }
  const more = warnings.length - MOST_WARNINGS;
  if (more > 0) note(`warning: and ${more} more like these\n`);
  databaseUrl = config.databaseUrl?.reveal() ?? null;
  return config;
}

const DAY_MS = 86_400_000;

/**
 * Whether the warning about secrets that others can read was not shown within a day. A file in DATA_DIR
 * keeps the last warning; without it, the warning is shown each time. A link in its place is replaced.
 */
async function isNewWarning({ dataDir, databaseUrl, exposedSecrets }: Config): Promise<boolean> {
  if (exposedSecrets.length === 0) return false;
  const path = join(dataDir, 'exposed-secrets.txt');
  const text = exposedSecrets.map((sentence) => `${sentence}\n`).join('');
  try {
    const found = await lstat(path);
    const isRecent = found.isFile() && Math.abs(Date.now() - found.mtimeMs) < DAY_MS;
    if (isRecent && (await readFile(path, 'utf8')) === text) return false;
  } catch {
    // Not shown yet.
  }
  try {
    // The embedded server makes its folder itself, as the user it runs as.
    if (databaseUrl !== null) await mkdir(dataDir, { recursive: true });
    await writeWhole(path, [text]);
  } catch {
    // The next command shows it again.
  }
  return true;
}

/** Opens the app for a command, and closes it also after an error. */
export async function withApp<T>(
  command: string,
  needs: 'store' | 'sellers',
  signal: AbortSignal,
  work: (app: App) => Promise<T>,
  events?: AppEvents,
): Promise<T> {
  const config = await configFor(needs);
  // Loads while the store is opened, and is there when the first request is made.
  if (needs === 'sellers') void import('../marketplace/client.js');
  const app = await unlessAborted(openApp(config, command, signal, events), signal);
  let result: T;
  try {
    result = await work(app);
  } catch (error) {
    // The command's error matters more than one of closing.
    await app.close().catch(() => undefined);
    throw error;
  }
  await app.close();
  return result;
}

/**
 * How to open the configured store without the rest of the app.
 * @param name of the command, for the sessions in the database
 */
export async function databaseOptions(
  name: string,
  signal: AbortSignal,
): Promise<Required<DatabaseOptions>> {
  const { databaseUrl, dataDir } = await configFor('store');
  return { databaseUrl, dataDir, applicationName: `seller-mirror ${name}`, signal };
}

/** Opens the queues of an app. @param name of the command, for the sessions in the database */
export async function queuesOf(
  { config, database }: App,
  name: string,
  log: Log = silentLog,
): Promise<Queues> {
  const { redis: target, queuePrefix: prefix, keepJobsDays } = config;
  const { openQueues } = await import('../queue/queues.js'); // takes long to load
  const applicationName = `seller-mirror ${name}`;
  return openQueues({
    target,
    databaseUrl: database.url,
    prefix,
    keepJobsDays,
    applicationName,
    log,
  });
}

/** What an action returns: no exit code means that it is done. */
type Outcome = Promise<ExitCode | void>;

/** Makes an action of Commander of a function that takes the signal, arguments and options. */
export function action<A extends unknown[]>(
  work: (signal: AbortSignal, ...args: A) => Outcome,
): (...args: A) => Promise<void> {
  return (...args) => execute((signal) => work(signal, ...args));
}

/**
 * The same for a service. After a signal it stops in order, then the process ends, also when something is
 * still open. A second signal ends it at once: the next worker repeats the unfinished jobs.
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
  needs: 'store' | 'sellers',
  work: (app: App, ...args: A) => Outcome,
): (...args: A) => Promise<void> {
  return action((signal, ...args: A) =>
    // Commander passes the command itself as the last argument.
    withApp(pathOf(args.at(-1) as Command), needs, signal, (app) => work(app, ...args)),
  );
}

/** `codes check`: the command as it is typed. */
function pathOf(command: Command): string {
  const { parent } = command;
  const isOuter = parent === null || parent.parent === null;
  return isOuter ? command.name() : `${pathOf(parent)} ${command.name()}`;
}
