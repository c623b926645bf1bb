import { basename, dirname, relative, resolve } from 'node:path';
import { processEnvironment } from '../config/index.js';

const DEFAULT_DATA_DIR = 'data';

/**
 * Returns the command line that starts this program again in the current folder, such as `npx seller-mirror`.
 * Printed commands work when pasted. @param dataDir default: the DATA_DIR of the environment
 */
export function ownCommand(dataDir: string = resolve(givenDataDir())): string {
  const isDefault = dataDir === resolve(DEFAULT_DATA_DIR);
  const dataDirPart = isDefault ? '' : `DATA_DIR=${shellWord(shorterPath(dataDir))} `;
  // An empty DATABASE_URL in the environment overrides .env.
  const databasePart = processEnvironment()['DATABASE_URL'] === '' ? 'DATABASE_URL= ' : '';
  return `${databasePart}${dataDirPart}${program()}`;
}

/** Replaces commands in a message, such as `seller-mirror sync`, by ones that work when pasted. */
export function withRunnableCommands(message: string): string {
  return message.includes('`seller-mirror ')
    ? message.replaceAll(/`seller-mirror (?=[a-z])/g, () => `\`${ownCommand()} `)
    : message;
}

function givenDataDir(): string {
  return processEnvironment()['DATA_DIR']?.trim() || DEFAULT_DATA_DIR;
}

function program(): string {
  const script = process.argv[1] ?? '';
  const installed = basename(script) === 'seller-mirror';
  if (installed && basename(dirname(script)) !== '.bin') return 'seller-mirror';
  // Also for scripts of package.json, whose arguments are theirs to know.
  const byNpm = processEnvironment()['npm_lifecycle_event'] !== undefined;
  return installed || byNpm ? 'npx seller-mirror' : `node ${shellWord(shorterPath(script))}`;
}

/** The path, or the path relative to the current folder if that is shorter. */
function shorterPath(path: string): string {
  const near = relative('.', path) || '.';
  return near.length < path.length ? near : path;
}

/** Quotes a word for a shell if necessary. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
