import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { addAbortSignal } from 'node:stream';
import { describeCodeFault, readCode } from '../../domain/codes/code.js';
import type { Secret } from '../../domain/secret.js';
import { readCodes } from '../../intake/read-codes.js';
import { openSource } from '../../intake/source.js';
import type { Format } from '../../intake/types.js';
import { listOfCodes, type NamedList } from '../../jobs/codes/enter-list.js';
import { usageError } from '../errors.js';

const STDIN = '-';

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
    throw usageError(`${subject} ${describeCodeFault(read.reason)}`, EXAMPLE);
  });
  return [...new Set(codes)];
}

const EXAMPLE = 'for example: `seller-mirror codes check customers.csv --column code`';

/** An open list with a known layout. Its rows are not read yet. */
export interface OpenList extends NamedList {
  readonly isStdin: boolean;
  /** Size of the file in bytes; null if unknown. */
  readonly size: number | null;
  /** Returns the number of bytes read so far. */
  readonly read: () => number;
}

export interface ListOptions {
  readonly format?: Format;
  readonly column?: string;
  readonly sheet?: string;
  readonly keys: readonly Secret[];
}

/**
 * Opens lists that make one audit, and detects their layouts.
 * @throws {FileError} when one can't be read
 * @throws {CommandError} when they have different columns: their result has one header
 */
export async function openLists(
  paths: readonly string[],
  options: ListOptions,
  signal: AbortSignal,
): Promise<readonly OpenList[]> {
  const lists: OpenList[] = [];
  try {
    for (const path of paths) {
      lists.push(await openList(path, options, signal));
      checkColumns(lists);
    }
    return lists;
  } catch (error) {
    await closeLists(lists);
    throw error;
  }
}

async function openList(
  path: string,
  options: ListOptions,
  signal: AbortSignal,
): Promise<OpenList> {
  const isStdin = path === STDIN;
  const name = isStdin ? 'stdin' : basename(path);
  const source = isStdin ? addAbortSignal(signal, process.stdin) : await openSource(path);
  if (isStdin && process.stdin.isTTY) process.stderr.write(TYPE_CODES);
  const file = isStdin ? null : await stat(path);
  let read = 0;
  async function* counted(): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const chunk of source as AsyncIterable<Uint8Array>) {
      read += chunk.length;
      yield chunk;
    }
  }
  const intake = await readCodes(counted(), { name, ...options });
  // Pipes and devices have no size.
  const size = file?.isFile() ? file.size : null;
  return { name, intake, isStdin, size, read: () => read };
}

const TYPE_CODES = 'reading codes from the terminal, one per line; end with Ctrl-D\n';

function checkColumns(lists: readonly OpenList[]): void {
  const [first, last] = [lists[0], lists.at(-1)];
  if (first === undefined || last === undefined) return;
  const [expected, columns] = [first.intake.layout.columns, last.intake.layout.columns];
  const same =
    columns.length === expected.length && columns.every((name, i) => name === expected[i]);
  if (same) return;
  throw usageError(
    `${JSON.stringify(last.name)} has other columns than ${JSON.stringify(first.name)}`,
    'several lists make one result, so their columns must be the same; check the lists one by one',
  );
}

/** Makes a list of codes that were given as arguments. */
export function listFromArguments(codes: readonly string[]): OpenList {
  return { ...listOfCodes(codes), isStdin: false, size: null, read: () => 0 };
}

export async function closeLists(lists: readonly OpenList[]): Promise<void> {
  for (const { intake } of lists) await intake.close();
}
