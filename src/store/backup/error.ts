import { StoreError } from '../errors.js';

/** A backup could not be made, read or restored; the store is as it was. */
export class BackupError extends StoreError {
  readonly code = 'BACKUP';

  /** The file can't be used. @param what a sentence about it, without its full stop */
  static damaged(what: string, options?: ErrorOptions): BackupError {
    return new BackupError(
      `the backup is damaged: ${what}`,
      'Nothing was changed. Take another backup.',
      options,
    );
  }
}

/** The file is something else than a backup. */
export class NotABackupError extends BackupError {
  constructor() {
    super(
      'the file is not a seller-mirror backup',
      'Name a file that `seller-mirror backup` wrote.',
    );
  }
}
