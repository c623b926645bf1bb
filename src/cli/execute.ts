import { loadConfig, processEnvironment } from '../config/index.js';
import type { Config } from '../config/index.js';
import { openApp, type App, type AppEvents } from '../app.js';
import { reportError } from './errors.js';
import { EXIT, type ExitCode } from './exit-codes.js';

/** Ends with SIGINT and SIGTERM; the commands pass it to everything that takes time. */
const interruption = new AbortController();
let interruptedBy: 'SIGINT' | 'SIGTERM' | null = null;

function onSignal(signal: 'SIGINT' | 'SIGTERM'): void {
  // A second one means: now. What is committed is safe; the rest was never visible.
  if (interruptedBy !== null) process.exit(EXIT.interrupted);
  interruptedBy = signal;
  interruption.abort(new Error('interrupted'));
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
    process.exitCode = interruptedBy === null ? explain(error) : interrupted();
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}

function interrupted(): ExitCode {
  process.stderr.write('interrupted; nothing is half done, run it again to go on\n');
  return EXIT.interrupted;
}

function explain(error: unknown): ExitCode {
  const environment = processEnvironment();
  const { lines, exitCode } = reportError(error, environment['DATABASE_URL'] ?? null);
  process.stderr.write(
    `${lines.map((line, i) => (i === 0 ? `error: ${line}` : `  ${line}`)).join('\n')}\n`,
  );
  const level = environment['LOG_LEVEL'];
  if ((level === 'debug' || level === 'trace') && error instanceof Error) {
    process.stderr.write(`${error.stack ?? ''}\n`);
  }
  return exitCode;
}

/** Opens the app for a command and closes it whatever happens. */
export async function withApp(
  command: string,
  needs: 'store' | 'sellers',
  signal: AbortSignal,
  work: (app: App) => Promise<ExitCode>,
  events?: (config: Config) => AppEvents,
): Promise<ExitCode> {
  const config = loadConfig(needs);
  for (const warning of config.warnings) process.stderr.write(`warning: ${warning}\n`);
  const app = await openApp(config, command, signal, events?.(config));
  try {
    return await work(app);
  } finally {
    await app.close();
  }
}
