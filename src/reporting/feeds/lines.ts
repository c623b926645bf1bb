import type { TextRow } from '../../db/text-cursor.js';
import type { Lines, ViewShape } from './target.js';

const LINE_END = 10;

export function countLines(lines: Buffer): number {
  let count = 0;
  for (let at = lines.indexOf(LINE_END); at >= 0; at = lines.indexOf(LINE_END, at + 1)) count += 1;
  return count;
}

/**
 * Parses complete lines. Each line becomes a separate string, because V8 keeps the whole parent string of a
 * substring in memory, and Parquet keeps the least and greatest value of each group.
 */
export function rowsOf(lines: Buffer): TextRow[] {
  const rows: TextRow[] = [];
  for (let start = 0; start < lines.length;) {
    const end = lines.indexOf(LINE_END, start);
    rows.push(rowOf(lines.toString('utf8', start, end)));
    start = end + 1;
  }
  return rows;
}

function rowOf(line: string): TextRow {
  const cells: (string | null)[] = line.split('\t');
  if (!line.includes('\\')) return cells;
  return cells.map((cell) => (cell === '\\N' ? null : (cell?.replace(ESCAPE, unescape) ?? null)));
}

const ESCAPE = /\\([\s\S])/g;
const MEANINGS: Readonly<Record<string, string>> = {
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

function unescape(_: string, letter: string): string {
  return MEANINGS[letter] ?? letter;
}

/** A part of a load's lines. Read it completely before requesting the next one. */
export interface Part {
  readonly lines: Lines;
  /** Returns the key of the last row after the lines were read; null if there is none. */
  readonly after: () => readonly string[] | null;
}

/** Splits lines into parts of about `bytes` bytes. Yields at least one part. */
export async function* partsOf(
  lines: Lines,
  { columns, key }: ViewShape,
  bytes: number,
): AsyncGenerator<Part> {
  const chunks = lines[Symbol.asyncIterator]();
  let step = await chunks.next();
  try {
    do {
      let last: Buffer | null = null;
      const part = async function* (): AsyncGenerator<Buffer> {
        for (let left = bytes; step.done !== true && left > 0; step = await chunks.next()) {
          last = step.value;
          left -= last.length;
          yield last;
        }
      };
      const after = (): readonly string[] | null => {
        const chunk = last;
        if (chunk === null || key === null) return null;
        const row = rowOf(
          chunk.toString('utf8', chunk.lastIndexOf(LINE_END, -2) + 1, chunk.length - 1),
        );
        return key.map((name) => row[columns.findIndex((column) => column.name === name)] ?? '');
      };
      yield { lines: part(), after };
    } while (step.done !== true);
  } finally {
    await chunks.return?.();
  }
}

/** Returns the same lines, or null if there are none. */
export async function nullIfEmpty(lines: Lines): Promise<Lines | null> {
  const chunks = lines[Symbol.asyncIterator]();
  const first = await chunks.next();
  if (first.done === true) return null;
  return (async function* (): AsyncGenerator<Buffer> {
    yield first.value;
    yield* { [Symbol.asyncIterator]: () => chunks };
  })();
}

/** Passes lines on, and calls `onChunk` with each chunk. */
export async function* tap(lines: Lines, onChunk: (chunk: Buffer) => void): Lines {
  for await (const chunk of lines) {
    onChunk(chunk);
    yield chunk;
  }
}

/** Lines on their way to a server. Distinguishes failures of the source from failures of the server. */
export class LineSource {
  #error: unknown = null;

  constructor(readonly lines: Lines) {}

  async *read(): Lines {
    try {
      yield* this.lines;
    } catch (error) {
      this.#error = error;
      throw error;
    }
  }

  /** Waits for the server. @throws the error of the source, if reading the lines failed */
  async awaitServer<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      throw this.#error instanceof Error ? this.#error : error;
    }
  }
}

export async function* noLines(): Lines {}
