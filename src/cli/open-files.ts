import { closeSync, openSync } from 'node:fs';

/** Open files and connections that a process needs: for pools, requests, and loading modules. */
const NEEDED = 256;

/**
 * Describes an error caused by the limit of open files. Modules often report it as another error, such as a
 * missing file. So every error counts while the process can't open a file. @returns null for other errors
 */
export function describeOutOfFiles(error: unknown): [problem: string, remedy: string] | null {
  if (!isOutOfFiles(error) && canOpenFiles()) return null;
  return [
    `too few open files are allowed (ulimit -n ${openFilesLimit()}); seller-mirror needs at least ${NEEDED}`,
    'raise the limit: `ulimit -n 1024` in the shell that starts it, nofile in /etc/security/limits.conf, or LimitNOFILE=1024 in its systemd unit',
  ];
}

/** Describes an error of loading the program's modules. @returns null for other errors */
export function describeLoadError(error: unknown): [problem: string, remedy: string] | null {
  const outOfFiles = describeOutOfFiles(error);
  if (outOfFiles !== null || codeOf(error) !== 'ERR_MODULE_NOT_FOUND') return outOfFiles;
  return [
    `the program can’t be loaded: ${(error as Error).message}`,
    `install it again (npm ci); if nothing is missing, allow it more than ${openFilesLimit()} open files (ulimit -n)`,
  ];
}

/** Like `errorCode` of the domain, which may be missing: this module must load without other modules. */
function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : null;
}

/** True if the error or an inner error says that no more files can be opened. */
function isOutOfFiles(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeOf(error);
  if (code === 'EMFILE' || code === 'ENFILE') return true;
  const inner: unknown[] = error instanceof AggregateError ? error.errors : [];
  return isOutOfFiles(error.cause) || inner.some(isOutOfFiles);
}

function canOpenFiles(): boolean {
  try {
    closeSync(openSync(process.execPath, 'r'));
    return true;
  } catch (error) {
    return !isOutOfFiles(error);
  }
}

/** Returns the limit, without opening a file. */
function openFilesLimit(): string {
  const { userLimits } = process.report.getReport() as {
    userLimits?: { open_files?: { soft: number | string } };
  };
  return String(userLimits?.open_files?.soft ?? 'unknown');
}
