import { basename } from 'node:path';
import { addAbortSignal } from 'node:stream';
import { readCode } from '../../marketplace/code.js';
import { openFile, readBytes } from '../../codes/lists/bytes.js';
import { readList } from '../../codes/lists/read-list.js';
import type { List, ListOptions } from '../../codes/lists/types.js';
import { usageError } from '../errors.js';
import { Progress } from '../output/progress.js';

export const STDIN = '-';

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
 * @param exists returns true if there is a file at a path
 * @throws {CommandError} when a file is missing, or some arguments are lists and others codes
 */
export function classifyArguments(
  args: readonly string[],
  exists: (path: string) => boolean,
): CheckInput {
  const lists = args.filter((text) => text === STDIN || exists(text));
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
    const read = readCode(text);
    if ('code' in read) return read.code;
    const subject = args.length === 1 ? 'the code' : `code ${index + 1}`;
    throw usageError(`${subject} ${read.fault}`, EXAMPLE);
  });
  return [...new Set(codes)];
}

const EXAMPLE = 'for example: `seller-mirror codes check customers.csv --column code`';

/**
 * Reads lists that make one audit, and detects their layouts.
 * @throws {FileError} when one can't be read
 * @throws {CommandError} when they have different columns: their result has one header
 */
export async function readLists(
  paths: readonly string[],
  options: Omit<ListOptions, 'name'>,
  signal: AbortSignal,
): Promise<readonly List[]> {
  const lists: List[] = [];
  for (const path of paths) {
    lists.push(await readOne(path, options, signal));
    checkColumns(lists);
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
  const { bytes, size } = isStdin
    ? { bytes: addAbortSignal(signal, process.stdin), size: null }
    : await openFile(path, signal);
  if (isStdin && process.stdin.isTTY) process.stderr.write(TYPE_CODES);
  const bar = new Progress(`reading ${name}`, { unit: 'bytes', total: size });
  try {
    const content = await readBytes(bytes, (read) => bar.update(read));
    return await readList(content, { ...options, name, signal });
  } finally {
    bar.finish();
  }
}

const TYPE_CODES = 'reading codes from the terminal, one per line; end with Ctrl-D\n';

function checkColumns(lists: readonly List[]): void {
  const [first, last] = [lists[0], lists.at(-1)];
  if (first === undefined || last === undefined) return;
  const [expected, columns] = [first.layout.columns, last.layout.columns];
  const same =
    columns.length === expected.length && columns.every((name, i) => name === expected[i]);
  if (same) return;
  throw usageError(
    `${JSON.stringify(last.name)} has other columns than ${JSON.stringify(first.name)}`,
    'several lists make one result, so their columns must be the same; check the lists one by one',
  );
}
