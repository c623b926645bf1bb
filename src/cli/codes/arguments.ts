import { describeCodeFault, readCode } from '../../domain/codes/code.js';
import { CommandError } from '../errors.js';
import { EXIT } from '../exit-codes.js';

/** What a person gave to be checked. */
export type CheckInput =
  /** Files and `-`, which is stdin, in their order. */
  | { readonly kind: 'lists'; readonly places: readonly string[] }
  /** Codes themselves, each once. */
  | { readonly kind: 'codes'; readonly codes: readonly string[] };

export const STDIN = '-';

/** Nothing that codes are known to end in; `backup.csv.gz` too. */
const FILE_ENDING = /\.(?:csv|tsv|tab|psv|txt|json|ndjson|jsonl|xlsx?|ods|zip|gz|log|bak)$/i;

/**
 * Tells lists from codes: what exists as a file is one, and what looks like a path was meant to be
 * one; anything else is a code, since codes have no format.
 * @param exists whether there is anything at a path
 * @throws {CommandError} when an argument is neither, or some are lists and others codes
 */
export function sortArguments(
  given: readonly string[],
  exists: (path: string) => boolean,
): CheckInput {
  const lists = given.filter((text) => text === STDIN || exists(text));
  const missing = given.find((text) => !lists.includes(text) && looksLikePath(text));
  if (missing !== undefined) {
    throw usage(
      `there is no file ${JSON.stringify(missing)}`,
      'check the path; a code that looks like one can be given on stdin, to `seller-mirror codes check -`',
    );
  }
  if (lists.length === 0) return { kind: 'codes', codes: codesIn(given) };
  if (lists.length < given.length) {
    throw usage(
      'some arguments are lists and others are codes',
      'check them one after the other; is one of the names misspelt?',
    );
  }
  if (new Set(lists).size < lists.length) throw usage('a list is named twice', 'name it once');
  return { kind: 'lists', places: lists };
}

function looksLikePath(text: string): boolean {
  return /[/\\]/.test(text) || FILE_ENDING.test(text);
}

function codesIn(given: readonly string[]): readonly string[] {
  const codes = given.map((text, index) => {
    const read = readCode(text);
    if ('code' in read) return read.code;
    const place = given.length === 1 ? 'the code' : `code ${index + 1}`;
    throw usage(`${place} ${describeCodeFault(read.reason)}`, EXAMPLE);
  });
  return [...new Set(codes)];
}

const EXAMPLE = 'for example: `seller-mirror codes check customers.csv --column code`';

function usage(message: string, remedy: string): CommandError {
  return new CommandError(message, remedy, EXIT.usage);
}
