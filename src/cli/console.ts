import { spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { processEnvironment } from '../config/index.js';
import { json, lookOf, withColumnNames, wrap, writeAll, type Look } from './output/index.js';
import { asTyped } from './own-command.js';

/** Where commands write: results to stdout, all else to stderr. */
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
    // A reader that went away is dealt with where stdout is guarded.
    process.stdout.write(text, () => resolve());
  });
}

/** What commands that print tables can be told about it. */
export interface PagerOptions {
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
    // A line is left to the prompt.
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

/** As users of git and psql know it: PAGER, which may have arguments, else less. Null: none is wanted or there. */
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

/** Ctrl-C is the pager's while it has the terminal: it would be left without its own end otherwise. */
let isPaging = false;
export const pagerHasTerminal = (): boolean => isPaging;

async function throughPager(command: string, lines: AsyncIterable<string>): Promise<void> {
  const env = processEnvironment();
  // Colours as they are, no clearing of the screen.
  const child = spawn(command, {
    shell: true,
    stdio: ['pipe', 'inherit', 'inherit'],
    env: { ...env, LESS: env['LESS'] ?? 'FRX' },
  });
  // What it did not take before it ended is lost, and nobody minds.
  child.stdin.on('error', () => undefined);
  isPaging = true;
  try {
    const ended = new Promise<void>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', () => resolve());
    });
    // Whoever leaves the pager early has seen enough.
    await writeAll(child.stdin, lines);
    child.stdin.end();
    await ended;
  } finally {
    isPaging = false;
  }
}
