/** Reads what `codes check` is given: lists, or codes as arguments; and says how it was read. */

import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { addAbortSignal } from 'node:stream';
import { reportOf } from '../../codes/enter-list.js';
import { readList } from '../../codes/lists/read-list.js';
import { openFile, readBytes } from '../../codes/lists/source.js';
import type { List, ListOptions } from '../../codes/lists/types.js';
import { count, plural } from '../../domain/text.js';
import { readCell } from '../../marketplace/code.js';
import { usageError } from '../errors.js';
import { STDOUT } from '../out-file.js';
import { safeLine } from '../output/text.js';

/** A list on stdin, in place of a file name. */
export const STDIN = STDOUT;

export type CheckInput =
  /** Paths of files, and `-` for stdin, in their order. */
  | { readonly kind: 'lists'; readonly paths: readonly string[] }
  /** The codes, without repetitions. */
  | { readonly kind: 'codes'; readonly codes: readonly string[] };

/** File endings. No known code ends in one. */
const FILE_ENDING = /\.(?:csv|tsv|tab|psv|txt|json|ndjson|jsonl|xls[xmb]?|ods|zip|gz|log|bak)$/i;

/**
 * Decides whether the arguments are lists or codes. Existing files and `-` are lists. Everything else is a code,
 * because codes have no known format; but a path to a missing file is an error.
 * @throws {UserError} when a file is missing, or some arguments are lists and others codes
 */
export function classifyArguments(args: readonly string[]): CheckInput {
  const lists = args.filter((text) => text === STDIN || existsSync(text));
  const missing = args.find((text) => !lists.includes(text) && looksLikePath(text));
  if (missing !== undefined) {
    throw usageError(
      `there is no file ${JSON.stringify(missing)}`,
      'check the path; give a code that looks like a path on stdin, to `seller-mirror codes check -`',
    );
  }
  if (lists.length === 0) return { kind: 'codes', codes: parseCodes(args) };
  if (lists.length < args.length) {
    throw usageError(
      'some arguments are lists and others are codes',
      'check the spelling of the file names, or check lists and codes one after the other',
    );
  }
  if (new Set(lists).size < lists.length) {
    throw usageError('a list is named twice', 'name each list once');
  }
  return { kind: 'lists', paths: lists };
}

function looksLikePath(text: string): boolean {
  return /[/\\]/.test(text) || FILE_ENDING.test(text);
}

function parseCodes(args: readonly string[]): readonly string[] {
  const codes = args.map((text, index) => {
    return codeIn(text, args.length === 1 ? 'the code' : `code ${index + 1}`);
  });
  return [...new Set(codes)];
}

/**
 * The purchase code in an argument or an option.
 * @throws {UserError} when there is none; it does not repeat the text, which may be a secret
 */
export function codeIn(text: string, what = 'the code'): string {
  const read = readCell(text);
  if ('code' in read) return read.code;
  throw usageError(`${what} ${read.fault}`, EXAMPLE);
}

const EXAMPLE = 'for example: `seller-mirror codes check customers.csv --column code`';

/**
 * Reads lists that make one audit, and detects their layouts.
 * @throws {UserError} when one can't be read
 * @throws {UserError} when they have different columns: their result has one header
 */
export async function readLists(
  paths: readonly string[],
  options: Omit<ListOptions, 'name'>,
  signal: AbortSignal,
): Promise<readonly List[]> {
  const lists: List[] = [];
  for (const path of paths) {
    const list = await readOne(path, options, signal);
    const [first = list] = lists;
    if (JSON.stringify(list.layout.columns) !== JSON.stringify(first.layout.columns)) {
      throw usageError(
        `${JSON.stringify(list.name)} has other columns than ${JSON.stringify(first.name)}`,
        'several lists make one result, so their columns must be the same; check the lists one by one',
      );
    }
    lists.push(list);
  }
  return lists;
}

async function readOne(
  path: string,
  options: Omit<ListOptions, 'name'>,
  signal: AbortSignal,
): Promise<List> {
  const isStdin = path === STDIN;
  const name = isStdin ? 'stdin' : basename(path);
  const bytes = addAbortSignal(signal, isStdin ? process.stdin : await openFile(path));
  if (isStdin && process.stdin.isTTY) process.stderr.write(TYPE_CODES);
  return readList(() => readBytes(bytes), { ...options, name, signal });
}

const TYPE_CODES = 'reading codes from the terminal, one per line; end with Ctrl-D\n';

/** Says how each list is read and why, what was tolerated or skipped, and which lines have no code. */
export function readingLines(lists: readonly List[]): readonly string[] {
  const { firstRejected, rejected, blankLines, notes } = reportOf(lists);
  const more = rejected - firstRejected.length;
  const layouts = lists.flatMap(({ name, layout: { reasons } }) =>
    reasons.length === 0 ? [] : [`${name}:`, ...reasons.map((reason) => `  ${reason}`)],
  );
  return [
    ...layouts,
    ...notes.map((note) => `  ${note}`),
    ...(blankLines === 0 ? [] : [`  ${plural(blankLines, 'blank line')} skipped`]),
    ...(rejected === 0 ? [] : [`  ${plural(rejected, 'line')} can’t be checked:`]),
    ...firstRejected.map(({ list, place, why }) => {
      const where = lists.length === 1 ? place : `${list}, ${place}`;
      return `    ${where}: ${why}`;
    }),
    ...(more > 0
      ? [`    and ${count(more)} more; all of them are in the result as "rejected"`]
      : []),
  ].map(safeLine);
}
