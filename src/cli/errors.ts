import { ConfigError } from '../config/index.js';
import { FileError } from '../listing/file-error.js';
import { MarketplaceOptionsError } from '../marketplace/types.js';
import { explainDatabaseError } from '../db/errors.js';
import { errorCode } from '../domain/error-code.js';
import { SellerBusyError } from '../db/locks.js';
import { EXIT, type ExitCode } from './exit-codes.js';

export class CommandError extends Error {
  override readonly name = 'CommandError';

  constructor(
    message: string,
    readonly remedy: string | null = null,
    readonly exitCode: ExitCode = EXIT.failed,
  ) {
    super(message);
  }
}

export function usageError(message: string, remedy: string | null): CommandError {
  return new CommandError(message, remedy, EXIT.usage);
}

/** Waits until a file is written. Its name was checked before, so an error is a failure, not wrong usage. */
export async function writtenOrFailed<T>(writing: Promise<T>): Promise<T> {
  return writing.catch((error: unknown) => {
    if (error instanceof FileError) throw new CommandError(error.message, error.remedy);
    throw error;
  });
}

interface ErrorReport {
  readonly lines: readonly string[];
  readonly exitCode: ExitCode;
}

/**
 * Formats an error: one line for the problem, one for the remedy, never a stack trace.
 * @param databaseUrl used to explain errors of the database driver; never shown
 */
export function reportError(error: unknown, databaseUrl: string | null): ErrorReport {
  if (error instanceof ConfigError) {
    return { lines: error.message.split('\n'), exitCode: EXIT.usage };
  }
  const [problem, remedy, exitCode = EXIT.failed] = explain(error, databaseUrl);
  return { lines: remedy === null ? [problem] : [problem, `→ ${remedy}`], exitCode };
}

const TOO_MANY_FILES = [
  'too many files are open',
  'raise the limit to 1024 or more: ulimit -n 1024 (systemd: LimitNOFILE, Docker: ulimits)',
] as const;

function explain(
  error: unknown,
  databaseUrl: string | null,
): readonly [problem: string, remedy: string | null, exitCode?: ExitCode] {
  if (error instanceof CommandError) return [error.message, error.remedy, error.exitCode];
  if (error instanceof FileError) return [error.message, error.remedy, EXIT.usage];
  if (error instanceof MarketplaceOptionsError) return [error.message, null, EXIT.usage];
  if (error instanceof SellerBusyError) {
    return [error.message, 'wait until it has ended; `seller-mirror status` shows it'];
  }
  if (['EMFILE', 'ENFILE'].includes(errorCode(error))) return TOO_MANY_FILES;
  // StoreError, QueueError, ListenError and others.
  if (error instanceof Error && 'remedy' in error) return [error.message, String(error.remedy)];
  const store = explainDatabaseError(error, databaseUrl ?? 'embedded');
  if (store !== null) return [store.message, store.remedy];
  const message = error instanceof Error ? error.message : String(error);
  return [
    `unexpected: ${message.split('\n', 1)[0] ?? ''}`,
    'this is a bug in seller-mirror; LOG_LEVEL=debug shows where it happened',
  ];
}
