import { closeSync, fstatSync, openSync, readSync, type Stats } from 'node:fs';
import type { Findings } from './problems.js';
import type { Given } from './values.js';

const MOST_BYTES = 64 * 1024;

/**
 * The trimmed content of a file that holds one secret; null, and a problem, when there is none. A
 * file everybody may read is a warning, except where container engines mount secrets: there the
 * engine sets the mode and nobody else lives in the container.
 */
export function readSecretFile(
  given: Given,
  path: string,
  what: string,
  findings: Findings,
): string | null {
  let text: string;
  try {
    text = readBounded(path, () => warnOfMode(given, path, findings));
  } catch (error) {
    findings.problem({
      where: given.where,
      value: given.text,
      what: `can't be read (${(error as NodeJS.ErrnoException).code ?? 'too large'})`,
      remedy: `name a file that holds ${what} and that this user may read`,
    });
    return null;
  }
  findings.hide(text);
  if (text.trim() === '') {
    findings.problem({
      where: given.where,
      value: given.text,
      what: 'is an empty file',
      remedy: `put ${what} into it`,
    });
    return null;
  }
  return text.trim();
}

/** Reads pipes as well as files, so that a password manager's output can be named. */
function readBounded(path: string, onOpenToAll: () => void): string {
  const file = openSync(path, 'r');
  try {
    const stat = fstatSync(file);
    if (isOpenToAll(stat)) onOpenToAll();
    const buffer = Buffer.alloc(MOST_BYTES + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < buffer.length; length += read) {
      read = readSync(file, buffer, length, buffer.length - length, null);
    }
    if (length > MOST_BYTES) throw new Error('larger than any secret');
    return buffer.toString('utf8', 0, length);
  } finally {
    closeSync(file);
  }
}

/** Whether every user of this machine may read the file; Windows has no such modes. */
export function isOpenToAll(file: Stats | undefined): boolean {
  return process.platform !== 'win32' && file?.isFile() === true && (file.mode & 0o004) !== 0;
}

function warnOfMode(given: Given, path: string, findings: Findings): void {
  if (path.startsWith('/run/secrets/')) return;
  findings.exposed({
    where: given.where,
    value: given.text,
    what: 'can be read by every user of this machine',
    remedy: `run chmod 600 ${path}`,
  });
}
