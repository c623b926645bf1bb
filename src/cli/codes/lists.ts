import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { addAbortSignal, Readable } from 'node:stream';
import type { Json } from '../../domain/item.js';
import type { Secret } from '../../domain/secret.js';
import { openSource, readCodes, type Format, type Intake } from '../../intake/index.js';
import { CommandError } from '../errors.js';
import { EXIT } from '../exit-codes.js';
import { STDIN } from './arguments.js';

/** A list that is open and understood; none of its rows has been taken. */
export interface OpenList {
  /** File name, or `stdin`. */
  readonly name: string;
  readonly intake: Intake;
  readonly isStdin: boolean;
  /** Bytes of the file; null when nobody knows. */
  readonly size: number | null;
  /** Bytes taken so far. */
  read(): number;
}

export interface ListOptions {
  readonly format?: Format;
  readonly column?: string;
  /** API keys, which are masked. */
  readonly keys: readonly Secret[];
}

/**
 * Opens several lists as one. All of them are understood before a row of any is read.
 * @throws {IntakeError} when one can't be read
 * @throws {CommandError} when they have different columns, since a result has one header
 */
export async function openLists(
  places: readonly string[],
  options: ListOptions,
  signal: AbortSignal,
): Promise<readonly OpenList[]> {
  const lists: OpenList[] = [];
  try {
    for (const place of places) {
      lists.push(await openList(place, options, signal));
      checkColumns(lists);
    }
    return lists;
  } catch (error) {
    await closeLists(lists);
    throw error;
  }
}

/** Codes that were given as arguments, as a list. They are taken as they are, without a question. */
export function listOf(codes: readonly string[]): OpenList {
  const rows = codes.map((text, index) => ({ line: index + 1, text, columns: [text] }));
  const intake: Intake = {
    layout: {
      ...{ format: 'json', encoding: 'utf-8', bom: false, compressed: false, delimiter: null },
      ...{ header: false, columns: ['code'], codeColumn: 0, reasons: [] },
    },
    first: [],
    rows: Readable.from([rows]),
    tally: { rows: rows.length, rejected: 0, blankLines: 0, notes: [] },
    close: () => Promise.resolve(),
  };
  return { name: 'arguments', intake, isStdin: false, size: null, read: () => 0 };
}

export async function closeLists(lists: readonly OpenList[]): Promise<void> {
  for (const { intake } of lists) await intake.close();
}

async function openList(
  place: string,
  options: ListOptions,
  signal: AbortSignal,
): Promise<OpenList> {
  const isStdin = place === STDIN;
  const name = isStdin ? 'stdin' : basename(place);
  const source = isStdin ? addAbortSignal(signal, process.stdin) : await openSource(place);
  if (isStdin && process.stdin.isTTY) process.stderr.write(TYPE_CODES);
  const counter = { bytes: 0 };
  const size = isStdin ? null : await sizeOf(place);
  const intake = await readCodes(counted(source, counter), { name, ...options });
  return { name, intake, isStdin, size, read: () => counter.bytes };
}

const TYPE_CODES = 'reading codes from the terminal, one a line; end with Ctrl-D\n';

/** Of a pipe or device the size says nothing. */
async function sizeOf(path: string): Promise<number | null> {
  const found = await stat(path);
  return found.isFile() ? found.size : null;
}

async function* counted(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  counter: { bytes: number },
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const chunk of source) {
    counter.bytes += chunk.length;
    yield chunk;
  }
}

function checkColumns(lists: readonly OpenList[]): void {
  const [first, last] = [lists[0], lists.at(-1)];
  if (first === undefined || last === undefined) return;
  const [expected, columns] = [first.intake.layout.columns, last.intake.layout.columns];
  const same =
    columns.length === expected.length && columns.every((name, i) => name === expected[i]);
  if (same) return;
  throw new CommandError(
    `${JSON.stringify(last.name)} has other columns than ${JSON.stringify(first.name)}`,
    'several lists make one result, so their columns must be the same; check them one by one',
    EXIT.usage,
  );
}

/** How the lists were read, as it is kept with the audit. */
export function layoutJson(lists: readonly OpenList[]): Json {
  return {
    lists: lists.map(({ name, intake: { layout } }) => ({
      name,
      format: layout.format,
      encoding: layout.encoding,
      bom: layout.bom,
      compressed: layout.compressed,
      delimiter: layout.delimiter,
      header: layout.header,
      column: layout.columns[layout.codeColumn] ?? null,
      reasons: [...layout.reasons],
    })),
  };
}
