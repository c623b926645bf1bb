import { spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { processEnvironment } from '../config/index.js';
import { json, withColumnNames } from './output/formats.js';
import { type Look, lookOf, wrap } from './output/text.js';
import { writeAll } from './output/write.js';
import { asTyped } from './own-command.js';

/** Width and colours of stdout, for results, and of stderr, for everything else. */
export const stdoutLook = (): Look => lookOf(process.stdout, processEnvironment());
export const stderrLook = (): Look => lookOf(process.stderr, processEnvironment());

/**
 * Writes finished lines to stdout, wrapped on a terminal, their commands as they must be typed here;
 * returns when they have been taken.
 */
export async function print(...texts: readonly string[]): Promise<void> {
  await write(wrapped(asTyped(texts.join('')), stdoutLook()));
}

/** Writes a result as JSON, its members named as columns are. */
export async function printJson(value: unknown): Promise<void> {
  await write(json(withColumnNames(value)));
}

/** Writes finished lines to stderr, as `print` does to stdout. */
export function note(text: string): void {
  process.stderr.write(wrapped(asTyped(text), stderrLook()));
}

function wrapped(text: string, { columns }: Look): string {
  return columns === null ? text : wrap(text, columns);
}

/** Writes text to stdout as it is. */
export async function write(text: string): Promise<void> {
  await new Promise<void>((resolve) => {
    // guardStdout() handles a reader that went away.
    process.stdout.write(text, () => resolve());
  });
}

/** Options of commands that print tables. */
interface PagerOptions {
  /** False: `--no-pager`. */
  readonly pager?: boolean;
}

/**
 * Writes lines to stdout as fast as they are read; on a terminal through a pager once they are more
 * than it shows at a time. Returns when they have been taken, or nobody wants more of them.
 */
export async function page(
  lines: Iterable<string> | AsyncIterable<string>,
  { pager = true }: PagerOptions,
): Promise<void> {
  const command = pager && process.stdout.isTTY ? await pagerCommand() : null;
  if (command === null) {
    await writeAll(process.stdout, lines);
    return;
  }
  const screen = process.stdout.rows || 24;
  const source = iteratorOf(lines);
  try {
    let first = '';
    // One line is left for the prompt.
    while (linesIn(first) < screen) {
      const next = await source.next();
      if (next.done === true) {
        await write(first);
        return;
      }
      first += next.value;
    }
    await throughPager(command, startingWith(first, source));
  } finally {
    await source.return?.();
  }
}

function linesIn(text: string): number {
  return text.split('\n').length;
}

function iteratorOf(lines: Iterable<string> | AsyncIterable<string>) {
  return Symbol.asyncIterator in lines ? lines[Symbol.asyncIterator]() : lines[Symbol.iterator]();
}

async function* startingWith(
  first: string,
  rest: AsyncIterator<string> | Iterator<string>,
): AsyncGenerator<string> {
  yield first;
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value;
}

/** PAGER, which may have arguments, or less, as in git and psql; null when none is wanted or installed. */
async function pagerCommand(): Promise<string | null> {
  const { PAGER, PATH = '', TERM } = processEnvironment();
  const command = PAGER ?? 'less';
  const [program = ''] = command.trim().split(/\s+/);
  if (program === '' || program === 'cat' || TERM === 'dumb') return null;
  const places = program.includes('/') ? [''] : PATH.split(delimiter);
  const found = await Promise.all(
    places.map((place) =>
      access(join(place, program), constants.X_OK).then(
        () => true,
        () => false,
      ),
    ),
  );
  return found.includes(true) ? command : null;
}

/** Whether a pager has the terminal: Ctrl-C is for the pager then. */
let isPaging = false;
export const pagerHasTerminal = (): boolean => isPaging;

async function throughPager(command: string, lines: AsyncIterable<string>): Promise<void> {
  const env = processEnvironment();
  // less: quit if the text fits one screen, keep colours, don't clear the screen.
  const child = spawn(command, {
    shell: true,
    stdio: ['pipe', 'inherit', 'inherit'],
    env: { ...env, LESS: env['LESS'] ?? 'FRX' },
  });
  // A pager that is left early leaves the rest unread.
  child.stdin.on('error', () => undefined);
  isPaging = true;
  try {
    const ended = new Promise<void>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', () => resolve());
    });
    await writeAll(child.stdin, lines);
    child.stdin.end();
    await ended;
  } finally {
    isPaging = false;
  }
}
