import { nameRank } from './column-names.js';
import { IntakeError } from './error.js';
import { LineSplitter, type Line } from './lines.js';
import { rowOf, type Plan, type RowReader, type Sample } from './row.js';
import { shown } from './shown.js';
import type { IntakeRow } from './types.js';

/**
 * A plan for a list of one code a line.
 * @throws IntakeError when another column than its only one is asked for
 */
export function planText({ text, column, most }: Sample): Plan {
  const splitter = new LineSplitter(most);
  const lines = [...splitter.push(text), ...splitter.end()];
  const first = lines.find((line) => !isBlank(line));
  const header = first !== undefined && nameRank(first.text) !== null ? first : null;
  const name = header === null ? 'code' : detached(header.text.trim());
  if (
    column !== undefined &&
    ![name.toLowerCase(), '1'].includes(String(column).trim().toLowerCase())
  ) {
    throw new IntakeError(
      `there is no column ${shown(String(column))}: the list is read as one code a line`,
      'Leave --column out, or say --format csv if the lines have several cells.',
    );
  }
  return {
    delimiter: null,
    header: header !== null,
    columns: [name],
    codeColumn: 0,
    reasons: [
      'Every line is a code.',
      ...(header === null ? [] : [`The first line is a header: ${shown(name)} is no code.`]),
    ],
    reader: new TextReader(most, header?.number ?? 0),
  };
}

function isBlank(line: Line): boolean {
  return line.text.trim() === '' && !line.tooLong;
}

class TextReader implements RowReader {
  readonly #splitter: LineSplitter;
  readonly #most: number;
  readonly #skipped: number;
  blankLines = 0;

  /** @param skipped the last line before the codes */
  constructor(most: number, skipped: number) {
    this.#splitter = new LineSplitter(most);
    this.#most = most;
    this.#skipped = skipped;
  }

  push(piece: string): IntakeRow[] {
    return this.#splitter.push(piece).flatMap((line) => this.#row(line));
  }

  end(): IntakeRow[] {
    return this.#splitter.end().flatMap((line) => this.#row(line));
  }

  notes(): readonly string[] {
    return [];
  }

  #row(line: Line): IntakeRow[] {
    if (isBlank(line)) {
      this.blankLines++;
      return [];
    }
    if (line.number <= this.#skipped) return [];
    const { text } = line;
    if (!line.tooLong) return [rowOf(line.number, text, [text])];
    const rejected = `is longer than the ${this.#most} characters a line may have`;
    return [{ line: line.number, rejected, columns: [text] }];
  }
}

/** A copy: a slice would keep the whole text that it was cut from in memory. */
function detached(text: string): string {
  return Buffer.from(text, 'utf16le').toString('utf16le');
}
