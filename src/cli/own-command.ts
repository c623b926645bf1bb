import { basename, dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { processEnvironment } from '../config/index.js';

const PACKAGE = fileURLToPath(new URL('../..', import.meta.url));
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

/** Like ownCommand, for `$(…)`: npm must not print the script that it runs. */
export function quietCommand(dataDir?: string): string {
  return ownCommand(dataDir).replace(/(?<=\bnpm (?:start|run \S+)) --$/, ' --silent --');
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

/** Matches an npm script that passes its arguments on to this program. */
const RUNS_PROGRAM = /(?:^|[\s/\\'"])(?:seller-mirror|main\.js)['"]?$/;

function program(): string {
  const { npm_lifecycle_event: event, npm_lifecycle_script: line = '' } = processEnvironment();
  if (event !== undefined && event !== 'npx' && RUNS_PROGRAM.test(line)) {
    return event === 'start' ? 'npm start --' : `npm run ${shellWord(event)} --`;
  }
  const script = process.argv[1] ?? '';
  const installed = basename(script) === 'seller-mirror';
  if (installed && basename(dirname(script)) !== '.bin') return 'seller-mirror';
  const byNpm = event !== undefined && resolve('.') === resolve(PACKAGE);
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
