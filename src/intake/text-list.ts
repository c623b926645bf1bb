import { nameRank } from './columns.js';
import { IntakeError, shown } from './types.js';
import type { Plan, Sample, Splitter } from './types.js';

export interface Line {
  /** From 1. */
  readonly number: number;
  readonly text: string;
  /** How it ended: LF, CRLF, CR, or not at all. */
  readonly end: string;
  /** It was longer than allowed; `text` is its beginning. */
  readonly tooLong: boolean;
}

/** UTF-16 units kept of a line or record that is too long. */
export const KEPT_OF_TOO_LONG = 256;

/** LF, CRLF and CR end a line, in any mixture. @param maxLength UTF-16 units; longer lines are cut */
export function lineSplitter(maxLength: number): Splitter<Line> {
  let rest = '';
  let isCut = false;
  let number = 1;
  const lineOf = (given: string, end: string): Line => {
    const tooLong = isCut || given.length > maxLength;
    const text = tooLong ? given.slice(0, KEPT_OF_TOO_LONG) : given;
    isCut = false;
    return { number: number++, text, end, tooLong };
  };
  return (piece, isLast) => {
    const lines: Line[] = [];
    const text = rest + piece;
    let start = 0;
    // The LF of a CR at the end may be in the next piece.
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

/** One code a line. @throws IntakeError when another column than its only one is asked for */
export function planText({ text, column, maxLength }: Sample): Plan {
  const first = lineSplitter(maxLength)(text, true).find((line) => !isBlank(line));
  const header = first !== undefined && nameRank(first.text) !== null ? first : null;
  const name = header === null ? 'code' : detached(header.text.trim());
  if (column !== undefined && ![name.toLowerCase(), '1'].includes(column.trim().toLowerCase())) {
    throw new IntakeError(
      `there is no column ${shown(column)}: the list is read as one code a line`,
      'Leave --column out, or say --input-format csv if the lines have several cells.',
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
      ...(header === null ? [] : [`The first line is a header: ${shown(name)} is not a code.`]),
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

/** A copy: a slice would keep the whole text in memory. */
function detached(text: string): string {
  return Buffer.from(text, 'utf16le').toString('utf16le');
}
