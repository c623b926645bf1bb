import { basename, dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { processEnvironment } from '../config/index.js';

const PACKAGE = fileURLToPath(new URL('../..', import.meta.url));
const DEFAULT_DATA_DIR = 'data';

/**
 * The command that starts this program from the current folder as it was started, with its data folder, so
 * that printed lines work when pasted. @param dataDir by default the one of the environment
 */
export function ownCommand(dataDir: string = resolve(givenDataDir())): string {
  const isDefault = dataDir === resolve(DEFAULT_DATA_DIR);
  const own = isDefault ? '' : `DATA_DIR=${shellWord(relativeTo(dataDir))} `;
  // An empty DATABASE_URL overrides .env.
  const none = processEnvironment()['DATABASE_URL'] === '' ? 'DATABASE_URL= ' : '';
  return `${none}${own}${program()}`;
}

/** The same for `$(…)`: npm must not print the script it runs. */
export function quietCommand(dataDir?: string): string {
  return ownCommand(dataDir).replace(/(?<=\bnpm (?:start|run \S+)) --$/, ' --silent --');
}

/** Replaces commands in a message, such as `seller-mirror sync`, by what must be typed here. */
export function asTyped(message: string): string {
  return message.includes('`seller-mirror ')
    ? message.replaceAll(/`seller-mirror (?=[a-z])/g, () => `\`${ownCommand()} `)
    : message;
}

function givenDataDir(): string {
  return processEnvironment()['DATA_DIR']?.trim() || DEFAULT_DATA_DIR;
}

/** The end of an npm script that passes arguments on to this program. */
const RUNS_PROGRAM = /(?:^|[\s/\\'"])(?:seller-mirror|main\.js)['"]?$/;

function program(): string {
  const { npm_lifecycle_event: event, npm_lifecycle_script: line = '' } = processEnvironment();
  if (event !== undefined && event !== 'npx' && RUNS_PROGRAM.test(line)) {
    return event === 'start' ? 'npm start --' : `npm run ${shellWord(event)} --`;
  }
  const script = process.argv[1] ?? '';
  const installed = basename(script).startsWith('seller-mirror');
  if (installed && basename(dirname(script)) !== '.bin') return 'seller-mirror';
  const byNpm = event !== undefined && resolve('.') === resolve(PACKAGE);
  return installed || byNpm ? 'npx seller-mirror' : `node ${shellWord(relativeTo(script))}`;
}

/** The path as given or relative to the current folder, whichever is shorter. */
function relativeTo(path: string): string {
  const near = relative('.', path) || '.';
  return near.length < path.length ? near : path;
}

export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
