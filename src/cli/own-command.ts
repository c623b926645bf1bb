import { basename, dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { processEnvironment } from '../config/index.js';

const PACKAGE = fileURLToPath(new URL('../..', import.meta.url));

/**
 * How to type this program in the current folder, for lines that work when pasted: installed or
 * not, and with the same data folder.
 */
export function ownCommand(dataDir: string = resolve('data')): string {
  const own = dataDir === resolve('data') ? '' : `DATA_DIR=${shellWord(relativeTo(dataDir))} `;
  // Set to nothing, it takes back what .env says.
  const none = processEnvironment()['DATABASE_URL'] === '' ? 'DATABASE_URL= ' : '';
  return `${none}${own}${program()}`;
}

function program(): string {
  const script = process.argv[1] ?? '';
  const installed = basename(script).startsWith('seller-mirror');
  if (installed && basename(dirname(script)) !== '.bin') return 'seller-mirror';
  if (resolve('.') === resolve(PACKAGE) || installed) return 'npx seller-mirror';
  return `node ${shellWord(relativeTo(script))}`;
}

/** The shorter of the path as it is and from here. */
function relativeTo(path: string): string {
  const near = relative('.', path) || '.';
  return near.length < path.length ? near : path;
}

/** A word that a POSIX shell takes as it is. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
