import { basename, dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { processEnvironment } from '../config/index.js';

const PACKAGE = fileURLToPath(new URL('../..', import.meta.url));
const DEFAULT_DATA_DIR = 'data';

/**
 * How to type this program in the current folder, as it was started and with the same data folder,
 * for lines that work when pasted. What `.env` says needs no repeating.
 * @param dataDir by default the one of the environment
 */
export function ownCommand(dataDir: string = resolve(givenDataDir())): string {
  const isDefault = dataDir === resolve(DEFAULT_DATA_DIR);
  const own = isDefault ? '' : `DATA_DIR=${shellWord(relativeTo(dataDir))} `;
  // Set to nothing, it takes back what .env says.
  const none = processEnvironment()['DATABASE_URL'] === '' ? 'DATABASE_URL= ' : '';
  return `${none}${own}${program()}`;
}

/** The same for `$(…)`, where npm must not print what it runs. */
export function quietCommand(dataDir?: string): string {
  return ownCommand(dataDir).replace(/(?<=\bnpm (?:start|run \S+)) --$/, ' --silent --');
}

/** A message whose commands, such as `seller-mirror sync`, are as they must be typed here. */
export function asTyped(message: string): string {
  return message.includes('`seller-mirror ')
    ? message.replaceAll(/`seller-mirror (?=[a-z])/g, () => `\`${ownCommand()} `)
    : message;
}

function givenDataDir(): string {
  return processEnvironment()['DATA_DIR']?.trim() || DEFAULT_DATA_DIR;
}

/** The end of a script of npm's that takes the program's arguments. */
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

/** The shorter of the path as it is and from here. */
function relativeTo(path: string): string {
  const near = relative('.', path) || '.';
  return near.length < path.length ? near : path;
}

/** A word that a POSIX shell takes as it is. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
