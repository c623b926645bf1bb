import { lstat, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { loadConfig, processEnvironment } from '../config/index.js';
import type { Config } from '../config/index.js';
import { writeWhole } from '../intake/index.js';
import { cronFault } from '../queue/cron.js';
import { openApp, type App, type AppEvents } from '../app.js';
import { pagerHasTerminal, note } from './console.js';
import { reportError } from './errors.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import { safeLine } from './output/text.js';

/** Time for an orderly end after Ctrl-C. */
const GRACE_MS = 5_000;

/** Aborted by SIGINT and SIGTERM; commands pass its signal to everything that takes time. */
const interruption = new AbortController();

function onSignal(signal: NodeJS.Signals): void {
  if (signal === 'SIGINT' && pagerHasTerminal()) return;
  // A second signal ends it at once. Committed data is safe; the rest was never visible.
  if (interruption.signal.aborted) endNow();
  interruption.abort(new Error('interrupted'));
  // Ends also when something can't be aborted, such as the wait for a host that never answers.
  setTimeout(endNow, GRACE_MS).unref();
}

function endNow(): never {
  process.exit(process.exitCode ?? interrupted());
}

/**
 * Runs a command and sets the exit code of the process: turns errors into lines on stderr, and
 * Ctrl-C into an orderly end.
 */
export async function execute(work: (signal: AbortSignal) => Promise<ExitCode>): Promise<void> {
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  try {
    process.exitCode = await work(interruption.signal);
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

/**
 * Writes an error to stderr for a person, its stack only with LOG_LEVEL=debug.
 * @param who the seller it is about, when others are not affected
 * @returns the exit code for it
 */
export function complain(error: unknown, who?: string): ExitCode {
  const environment = processEnvironment();
  const { lines, exitCode } = reportError(error, databaseUrl);
  const head = who === undefined ? 'error' : `error: ${who}`;
  const shown = lines.map((line, i) => `${i === 0 ? `${head}: ` : '  '}${safeLine(line)}\n`);
  note(shown.join(''));
  const level = environment['LOG_LEVEL'];
  if ((level === 'debug' || level === 'trace') && error instanceof Error) {
    process.stderr.write(`${error.stack ?? ''}\n`);
  }
  return exitCode;
}

/**
 * Reads the configuration of this process and checks its schedules.
 * @throws ConfigError with everything that is wrong with it
 */
export function readSettings(needs: 'store' | 'sellers'): Config {
  return loadConfig(needs, cronFault);
}

/** At most this many warnings are shown: a thousand sellers may have one each. */
const MOST_WARNINGS = 20;

/** Reads the configuration for a command and shows its warnings. */
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
 * keeps the last warning; without it, the warning is shown each time. A link in its place is replaced,
 * as for any other output.
 */
async function isNewWarning(config: Config): Promise<boolean> {
  const { dataDir, databaseUrl: external, exposedSecrets } = config;
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
    if (external !== null) await mkdir(dataDir, { recursive: true });
    await writeWhole(path, [text]);
  } catch {
    // The next command shows it again.
  }
  return true;
}

/** Opens the app for a command, and closes it also after an error. */
export async function withApp(
  command: string,
  needs: 'store' | 'sellers',
  signal: AbortSignal,
  work: (app: App) => Promise<ExitCode>,
  events?: (config: Config) => AppEvents,
): Promise<ExitCode> {
  const config = await configFor(needs);
  const app = await unlessAborted(openApp(config, command, signal, events?.(config)), signal);
  let exitCode: ExitCode;
  try {
    exitCode = await work(app);
  } catch (error) {
    // The command's error matters more than one of closing.
    await app.close().catch(() => undefined);
    throw error;
  }
  await app.close();
  return exitCode;
}
