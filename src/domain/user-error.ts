import { oneLine } from './text.js';

/** Stable names of problems, for callers that handle one of them in a way of their own. */
export type UserErrorCode =
  /** A command could not do what it was asked. */
  | 'FAILED'
  | 'USAGE'
  | 'NOT_FOUND'
  /** Another process does the same now. */
  | 'BUSY'
  | 'FILE'
  | 'LISTEN'
  | 'QUEUE'
  /** The target of a feed can't be used, or one of its tables. */
  | 'TARGET'
  | 'VIEW'
  | 'BACKUP'
  | 'NO_ROWS'
  | 'NO_MIRROR'
  | 'DATABASE_URL'
  | 'EMBEDDED_START'
  | 'POWERFUL_ROLE'
  | 'MIGRATION'
  | 'SCHEMA_AHEAD'
  | 'SCHEMA_DIFFERS'
  | 'STORE_CONNECTION'
  | 'STORE_READ_ONLY'
  | 'STORE_TOO_OLD'
  | 'STORE_ENCODING'
  | 'STORE_POOLER'
  | 'DISK_FULL'
  | 'SHARED_MEMORY';

/** A problem that a person can solve. Message and remedy are a sentence each, without passwords and keys. */
export class UserError extends Error {
  override readonly name: string = 'UserError';

  /**
   * @param remedy what to do about it; empty if the message says so
   * @param exit code of a command that ends with it: 1 it failed, 2 wrong usage
   */
  constructor(
    message: string,
    readonly remedy: string,
    readonly code: UserErrorCode,
    readonly exit: 1 | 2 = 1,
    options?: ErrorOptions,
  ) {
    super(oneLine(message), options);
  }
}

/** Whether an error is this problem. */
export function isUserError(error: unknown, code: UserErrorCode): error is UserError {
  return error instanceof UserError && error.code === code;
}
