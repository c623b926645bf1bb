import { UserError } from '../../domain/user-error.js';
import { errorCode } from '../../domain/error-code.js';
import { diskFull } from '../errors.js';

/** Why the embedded database can't be created or started. */
export function cannotStart(message: string, remedy: string, cause?: unknown): UserError {
  return new UserError(message, remedy, 'EMBEDDED_START', 1, { cause });
}

/** The embedded database, as messages name it. */
export function databaseIn(path: string): string {
  return `the database in ${path}`;
}

/** @param path the data folder, or one in it */
export function explainFileError(error: unknown, path: string): UserError {
  if (error instanceof UserError) return error;
  const code = errorCode(error);
  if (code === 'ENOSPC' || code === 'EDQUOT') return diskFull(databaseIn(path), error);
  // Leave out the path of the error, which may be an internal one.
  const reason = error instanceof Error ? error.message.replace(/, \w+ '.*$/s, '') : String(error);
  const isFile = code === 'ENOTDIR' || code === 'EEXIST';
  return cannotStart(
    `the data folder ${path} cannot be used: ${isFile ? 'a part of the path is a file, not a folder' : reason}`,
    'Set DATA_DIR to a folder that this user can write to, or set DATABASE_URL.',
    error,
  );
}
