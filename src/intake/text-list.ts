import { nameRank } from './columns.js';
import { IntakeError, shown } from './types.js';
import type { IntakeRow, Plan, RowReader, Sample } from './types.js';

/** One line of a text. */
export interface Line {
  /** From 1. */
  readonly number: number;
  readonly text: string;
  /** How it ended: LF, CRLF, CR, or not at all. */
  readonly end: string;
  /** It was longer than allowed; `text` is its beginning. */
  readonly tooLong: boolean;
}

const KEPT_OF_TOO_LONG = 256;

/** Cuts text into lines as it arrives; LF, CRLF and CR end a line, in any mixture. */
export class LineSplitter {
  readonly #maxLength: number;
  #rest = '';
  #dropping = false;
  #number = 1;

  /** @param maxLength longest line, in UTF-16 units; longer ones are cut */
  constructor(maxLength: number) {
    this.#maxLength = maxLength;
  }

  /** The lines that end in this piece of the text. */
  push(piece: string): Line[] {
    const lines: Line[] = [];
    const text = this.#rest + piece;
    let start = 0;
    let [lf, cr] = [text.indexOf('\n'), text.indexOf('\r')];
    while (lf >= 0 || cr >= 0) {
      const isCr = cr >= 0 && (lf < 0 || cr < lf);
      // The LF of this CR may be in the next piece.
      if (isCr && cr + 1 === text.length) break;
      const end = !isCr ? '\n' : lf === cr + 1 ? '\r\n' : '\r';
      const at = isCr ? cr : lf;
      lines.push(this.#line(text.slice(start, at), end));
      start = at + end.length;
      if (lf >= 0 && lf < start) lf = text.indexOf('\n', start);
      if (cr >= 0 && cr < start) cr = text.indexOf('\r', start);
    }
    this.#keep(text.slice(start));
    return lines;
  }

  /** The last line, if it has no line end. */
  end(): Line[] {
    if (this.#rest === '') return [];
    const cr = this.#rest.endsWith('\r');
    const line = this.#line(cr ? this.#rest.slice(0, -1) : this.#rest, cr ? '\r' : '');
    this.#rest = '';
    return [line];
  }

  #line(text: string, end: string): Line {
    const tooLong = this.#dropping || text.length > this.#maxLength;
    this.#dropping = false;
    return {
      number: this.#number++,
      text: tooLong ? text.slice(0, KEPT_OF_TOO_LONG) : text,
      end,
      tooLong,
    };
  }

  #keep(rest: string): void {
    if (rest.length <= this.#maxLength) {
      this.#rest = rest;
      return;
    }
    this.#dropping = true;
    this.#rest = rest.slice(0, KEPT_OF_TOO_LONG) + (rest.endsWith('\r') ? '\r' : '');
  }
}

/**
 * A plan for a list of one code a line.
 * @throws IntakeError when another column than its only one is asked for
 */
export function planText({ text, column, maxLength }: Sample): Plan {
  const splitter = new LineSplitter(maxLength);
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
      'Leave --column out, or say --input-format csv if the lines have several cells.',
    );
  }
  return {
    delimiter: null,
    header: header !== null,
    columns: [name],
    codeColumn: 0,
    reasons: [
      'Every line is a code.',
      ...(header === null ? [] : [`The first line is a header: ${shown(name)} is not a code.`]),
    ],
    newReader: () => new TextReader(maxLength, header?.number ?? 0),
  };
}

function isBlank(line: Line): boolean {
  return line.text.trim() === '' && !line.tooLong;
}

class TextReader implements RowReader {
  readonly #splitter: LineSplitter;
  readonly #maxLength: number;
  readonly #skipped: number;
  blankLines = 0;

  /** @param skipped the last line before the codes */
  constructor(maxLength: number, skipped: number) {
    this.#splitter = new LineSplitter(maxLength);
    this.#maxLength = maxLength;
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
    if (!line.tooLong) return [{ line: line.number, text, columns: [text] }];
    const rejected = `is longer than the ${this.#maxLength} characters a line may have`;
    return [{ line: line.number, rejected, columns: [text] }];
  }
}

/** A copy: a slice would keep the whole text in memory. */
function detached(text: string): string {
  return Buffer.from(text, 'utf16le').toString('utf16le');
}
