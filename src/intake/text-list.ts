import { nameRank } from './columns.js';
import { FileError, quoted } from './types.js';
import type { Plan, Sample, Splitter } from './types.js';

export interface Line {
  /** From 1. */
  readonly number: number;
  readonly text: string;
  /** Its line end: LF, CRLF, CR, or empty at the end of the list. */
  readonly end: string;
  /** True if it was longer than allowed. `text` is its beginning then. */
  readonly tooLong: boolean;
}

/** UTF-16 units that remain of a line or record that is too long. */
export const KEPT_OF_TOO_LONG = 256;

/** Splits at LF, CRLF and CR, in any mixture. @param maxLength UTF-16 units; longer lines are cut */
export function lineSplitter(maxLength: number): Splitter<Line> {
  let rest = '';
  let isCut = false;
  let number = 1;
  const lineOf = (content: string, end: string): Line => {
    const tooLong = isCut || content.length > maxLength;
    const text = tooLong ? content.slice(0, KEPT_OF_TOO_LONG) : content;
    isCut = false;
    return { number: number++, text, end, tooLong };
  };
  return (piece, isLast) => {
    const lines: Line[] = [];
    const text = rest + piece;
    let start = 0;
    // After a CR at the end, an LF may follow in the next piece.
    const ends = text.matchAll(isLast ? /\r\n?|\n/g : /\r\n|\n|\r(?!$)/g);
    for (const { 0: end, index } of ends) {
      lines.push(lineOf(text.slice(start, index), end));
      start = index + end.length;
    }
    rest = text.slice(start);
    if (isLast && rest !== '') lines.push(lineOf(rest, ''));
    if (rest.length > maxLength) {
      isCut = true;
      rest = rest.slice(0, KEPT_OF_TOO_LONG) + (rest.endsWith('\r') ? '\r' : '');
    }
    return lines;
  };
}

export function isBlank({ text, tooLong }: Line): boolean {
  return text.trim() === '' && !tooLong;
}

/** Plans a list of one code a line. @throws FileError when the requested column does not exist */
export function planText({ text, column, maxLength }: Sample): Plan {
  const first = lineSplitter(maxLength)(text, true).find((line) => !isBlank(line));
  const header = first !== undefined && nameRank(first.text) !== null ? first : null;
  const name = header === null ? 'code' : detached(header.text.trim());
  if (column !== undefined && ![name.toLowerCase(), '1'].includes(column.trim().toLowerCase())) {
    throw new FileError(
      `there is no column ${quoted(column)}: the list is read as one code a line`,
      'Leave --column out, or use --input-format csv if the lines have several cells.',
    );
  }
  const rejected = `is longer than the ${maxLength} characters a line may have`;
  return {
    delimiter: null,
    header: header !== null,
    columns: [name],
    codeColumn: 0,
    reasons: [
      'Every line is a code.',
      ...(header === null ? [] : [`The first line is a header: ${quoted(name)} is not a code.`]),
    ],
    newReader: (tally) => {
      const split = lineSplitter(maxLength);
      return (piece, isLast) =>
        split(piece, isLast).flatMap((line) => {
          const columns = [line.text];
          if (isBlank(line)) tally.blankLines++;
          else if (line.number > (header?.number ?? 0)) {
            return line.tooLong
              ? { line: line.number, rejected, columns }
              : { line: line.number, text: line.text, columns };
          }
          return [];
        });
    },
  };
}

/** Copies a text, since a slice would keep the whole list in memory. */
function detached(text: string): string {
  return Buffer.from(text, 'utf16le').toString('utf16le');
}
