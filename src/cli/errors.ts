import { ConfigError } from '../config/index.js';
import { IntakeError } from '../intake/index.js';
import { MarketplaceOptionsError } from '../marketplace/types.js';
import { StoreError, explainDatabaseError } from '../store/errors.js';
import { SellerBusyError } from '../store/lock.js';
import { QueueError } from '../queue/errors.js';
import { HealthListenError } from '../web/listen.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import { describeOutOfFiles } from './open-files.js';

/** Ends a command with a message for a person. */
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

/** An error of the command line or the settings: the command ends with 2. */
export function usageError(message: string, remedy: string | null): CommandError {
  return new CommandError(message, remedy, EXIT.usage);
}

/** An error as a person should see it. */
interface ErrorReport {
  readonly lines: readonly string[];
  readonly exitCode: ExitCode;
}

/**
 * Describes an error: one line for the problem, one for the remedy, never a stack trace. An unexpected
 * error is reported as a defect.
 * @param databaseUrl to explain the database driver's errors; never shown
 */
export function reportError(error: unknown, databaseUrl: string | null): ErrorReport {
  const outOfFiles = describeOutOfFiles(error);
  if (outOfFiles !== null) {
    const [problem, remedy] = outOfFiles;
    return { lines: withRemedy(problem, remedy), exitCode: EXIT.failed };
  }
  if (error instanceof ConfigError) {
    return { lines: error.message.split('\n'), exitCode: EXIT.usage };
  }
  if (error instanceof CommandError) {
    return { lines: withRemedy(error.message, error.remedy), exitCode: error.exitCode };
  }
  if (error instanceof MarketplaceOptionsError) {
    return { lines: [error.message], exitCode: EXIT.usage };
  }
  if (error instanceof IntakeError) {
    return { lines: withRemedy(error.message, error.remedy), exitCode: EXIT.usage };
  }
  if (error instanceof SellerBusyError) {
    const remedy = 'wait for it to end; `seller-mirror status` shows it';
    return { lines: withRemedy(error.message, remedy), exitCode: EXIT.failed };
  }
  if (error instanceof QueueError || error instanceof HealthListenError) {
    return { lines: withRemedy(error.message, error.remedy), exitCode: EXIT.failed };
  }
  const store =
    error instanceof StoreError ? error : explainDatabaseError(error, databaseUrl ?? 'embedded');
  if (store !== null) {
    return { lines: withRemedy(store.message, store.remedy), exitCode: EXIT.failed };
  }
  const message = error instanceof Error ? error.message : String(error);
  return {
    lines: [
      `unexpected: ${message.split('\n', 1)[0] ?? ''}`,
      '→ this is a defect of seller-mirror; LOG_LEVEL=debug shows where it happened',
    ],
    exitCode: EXIT.failed,
  };
}

function withRemedy(message: string, remedy: string | null): string[] {
  return remedy === null ? [message] : [message, `→ ${remedy}`];
}
