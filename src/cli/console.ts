import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { userInfo } from 'node:os';
import { processEnvironment } from '../config/index.js';
import type { OnWait } from '../domain/budget.js';
import { json, withColumnNames } from './output/formats.js';
import { isQuiet, waitingText } from './output/progress.js';
import { type Look, lookOf, safeLine, wrap } from './output/text.js';
import { writeAll } from './output/write.js';
import { withRunnableCommands } from './own-command.js';

/** Width and colours of stdout (for results) and of stderr (for everything else). */
export const stdoutLook = (): Look => lookOf(process.stdout, processEnvironment());
export const stderrLook = (): Look => lookOf(process.stderr, processEnvironment());

/**
 * Prints lines to stdout, wrapped on a terminal. Commands in them become runnable (see `withRunnableCommands`).
 * @returns false if the reader of stdout went away
 */
export function print(...texts: readonly string[]): Promise<boolean> {
  return write(shownText(texts.join('')));
}

/** Text as `print` writes it. */
export function shownText(text: string): string {
  return wrapped(withRunnableCommands(text), stdoutLook());
}

/** Prints JSON to stdout, with member names in snake case. */
export async function printJson(value: unknown): Promise<void> {
  await write(json(withColumnNames(value)));
}

/** Prints lines to stderr, as `print` does to stdout, unless --quiet was given. */
export function printNote(text: string): void {
  if (!isQuiet()) printProblem(text);
}

/** Prints lines to stderr, also with --quiet. */
export function printProblem(text: string): void {
  process.stderr.write(wrapped(withRunnableCommands(text), stderrLook()));
}

/** Returns what prints a long wait for a seller’s request budget, for commands that show no progress then. */
export function noteWait(seller: string): OnWait {
  return (ms) => {
    if (ms !== null) printNote(`${safeLine(seller)} · ${waitingText(ms)}\n`);
  };
}

function wrapped(text: string, { columns }: Look): string {
  return columns === null ? text : wrap(text, columns);
}

/** Writes text to stdout as it is. @returns false if the reader of stdout went away */
export function write(text: string): Promise<boolean> {
  return new Promise((resolve) => {
    // guardStdout() handles errors.
    process.stdout.write(text, (error) => resolve(!error));
  });
}

export async function printResult(
  { json }: { readonly json?: boolean },
  value: unknown,
  text: () => string,
): Promise<void> {
  await (json === true ? printJson(value) : print(text()));
}

/** The name of the user who runs this command. */
export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // In containers, users may have no name.
    return `user ${process.getuid?.() ?? 'unknown'}`;
  }
}

/**
 * Writes lines to stdout, on a terminal through a pager if they don't fit the screen.
 * @param options `pager` is false with `--no-pager`
 */
export async function printPaged(
  lines: Iterable<string> | AsyncIterable<string>,
  { pager = true }: { readonly pager?: boolean },
): Promise<void> {
  const command = pager && process.stdout.isTTY ? pagerCommand() : null;
  if (command === null) {
    await writeAll(process.stdout, lines);
    return;
  }
  const source = concat(lines);
  try {
    let first = '';
    // One line of the screen is for the prompt.
    while (first.split('\n').length < (process.stdout.rows || 24)) {
      const next = await source.next();
      if (next.done === true) {
        await write(first);
        return;
      }
      first += next.value;
    }
    await throughPager(command, concat([first], source));
  } finally {
    await source.return();
  }
}

async function* concat(
  ...parts: (Iterable<string> | AsyncIterable<string>)[]
): AsyncGenerator<string, void, undefined> {
  for (const part of parts) yield* part;
}

/** Returns PAGER, which may have arguments, or `less`. Null if no pager is wanted or installed. */
function pagerCommand(): string | null {
  const { PAGER: command = 'less', TERM } = processEnvironment();
  const [program = ''] = command.trim().split(/\s+/);
  if (program === '' || program === 'cat' || TERM === 'dumb') return null;
  return spawnSync('sh', ['-c', 'command -v "$0"', program]).status === 0 ? command : null;
}

/** While a pager runs, Ctrl-C is for the pager. */
let isPaging = false;
export const pagerHasTerminal = (): boolean => isPaging;

async function throughPager(command: string, lines: AsyncIterable<string>): Promise<void> {
  // less: quit if the text fits one screen, keep colours, don't clear the screen.
  const env = { LESS: 'FRX', ...processEnvironment() };
  const child = spawn(command, { shell: true, stdio: ['pipe', 'inherit', 'inherit'], env });
  // Expected: the user may quit the pager before it has read everything.
  child.stdin.on('error', () => undefined);
  isPaging = true;
  try {
    const ended = once(child, 'close');
    await writeAll(child.stdin, lines);
    child.stdin.end();
    await ended;
  } finally {
    isPaging = false;
  }
}
