import { closeSync, openSync } from 'node:fs';

/** Files and connections that a process needs at a time: pools, calls, and modules being loaded. */
const NEEDED = 256;

/**
 * Describes an error that is caused by the limit of open files; null for any other. Many modules report
 * the limit as something else, such as a missing file: any error counts while no file can be opened.
 */
export function describeOutOfFiles(error: unknown): [problem: string, remedy: string] | null {
  if (!isOutOfFiles(error) && !isFull()) return null;
  return [
    `too few open files are allowed (ulimit -n ${openFilesLimit()}); seller-mirror needs at least ${NEEDED}`,
    'raise the limit: `ulimit -n 1024` in the shell that starts it, nofile in /etc/security/limits.conf, or LimitNOFILE=1024 in its systemd unit',
  ];
}

/** Describes an error of loading the program; null when it has another cause. */
export function describeLoadError(error: unknown): [problem: string, remedy: string] | null {
  const outOfFiles = describeOutOfFiles(error);
  if (outOfFiles !== null || codeOf(error) !== 'ERR_MODULE_NOT_FOUND') return outOfFiles;
  return [
    `the program can’t be loaded: ${(error as Error).message}`,
    `install it again (npm ci); if nothing is missing, allow it more than ${openFilesLimit()} open files (ulimit -n)`,
  ];
}

/** As `errorCode`, which may be missing with the rest of the program: this module loads before it. */
function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : null;
}

/** Whether the error, or one within it, says that no more files can be opened. */
function isOutOfFiles(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeOf(error);
  if (code === 'EMFILE' || code === 'ENFILE') return true;
  const inner: unknown[] = error instanceof AggregateError ? error.errors : [];
  return isOutOfFiles(error.cause) || inner.some(isOutOfFiles);
}

function isFull(): boolean {
  try {
    closeSync(openSync(process.execPath, 'r'));
    return false;
  } catch (error) {
    return isOutOfFiles(error);
  }
}

/** The limit, read without opening a file. */
function openFilesLimit(): string {
  const { userLimits } = process.report.getReport() as {
    userLimits?: { open_files?: { soft: number | string } };
  };
  return String(userLimits?.open_files?.soft ?? 'unknown');
}
