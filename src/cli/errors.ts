import { isUserError, UserError } from '../domain/user-error.js';
import { ConfigError } from '../config/index.js';
import { MarketplaceOptionsError } from '../marketplace/types.js';
import { explainDatabaseError } from '../db/errors.js';
import { errorCode } from '../domain/error-code.js';
import { EXIT, type ExitCode } from './exit-codes.js';

export function usageError(message: string, remedy: string | null): UserError {
  return new UserError(message, remedy ?? '', 'USAGE', 2);
}

/** Waits until a file is written. Its name was checked before, so an error is a failure, not wrong usage. */
export async function writtenOrFailed<T>(writing: Promise<T>): Promise<T> {
  return writing.catch((error: unknown) => {
    if (isUserError(error, 'FILE')) throw new UserError(error.message, error.remedy, 'FAILED');
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
  return { lines: remedy === '' ? [problem] : [problem, `→ ${remedy}`], exitCode };
}

const TOO_MANY_FILES = [
  'too many files are open',
  'raise the limit to 1024 or more: ulimit -n 1024 (systemd: LimitNOFILE, Docker: ulimits)',
] as const;

function explain(
  error: unknown,
  databaseUrl: string | null,
): readonly [problem: string, remedy: string, exitCode?: ExitCode] {
  if (error instanceof UserError) return [error.message, error.remedy, error.exit];
  if (error instanceof MarketplaceOptionsError) return [error.message, '', EXIT.usage];
  if (['EMFILE', 'ENFILE'].includes(errorCode(error))) return TOO_MANY_FILES;
  const store = explainDatabaseError(error, databaseUrl ?? 'embedded');
  if (store !== null) return [store.message, store.remedy];
  const message = error instanceof Error ? error.message : String(error);
  return [
    `unexpected: ${message.split('\n', 1)[0] ?? ''}`,
    'this is a bug in seller-mirror; LOG_LEVEL=debug shows where it happened',
  ];
}
