import { nameRank } from './columns.js';
import { isEmpty, MOST_TITLES, mostFrequent } from './table.js';
import { assertSize, MOST_LINES, type Row } from './types.js';

/*
 * Reads CSV as RFC 4180 describes it. Libraries lose the rest of a list after a quote that is never closed, or refuse the
 * list. Here such a quote is an ordinary character, and each line is a record of its own.
 */

/** Splits a text into lines, which end with LF, CRLF or CR, in any mixture. @throws FileError when there are too many */
export function linesOf(text: string): string[] {
  const lines = text.split(/\r\n?|\n/, MOST_LINES + 1);
  assertSize(lines.length, 0);
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

/** Longest record with quoted cells, in UTF-16 units. In a longer one a quote was left open. */
const LONGEST_RECORD = 1024 * 1024;

/** The rows of a CSV text, and the lines with quotes that are misplaced or never closed. */
function readRecords(text: string, delimiter: string) {
  const rows: Row[] = [];
  const wrongQuotes: number[] = [];
  const lineEnd = /\r\n?|\n/g;
  // Lines before this position were joined in vain. Joining some of them again could take forever in a hostile file.
  let aloneUntil = 0;
  for (let start = 0, line = 1; start < text.length; line++) {
    lineEnd.lastIndex = start;
    const found = lineEnd.exec(text);
    const end = found?.index ?? text.length;
    const content = text.slice(start, end);
    let next = end + (found?.[0].length ?? 0);
    let row: Row = { line, cells: content.trim() === '' ? [''] : content.split(delimiter) };
    if (content.includes('"')) {
      const joined = start < aloneUntil ? null : quotedCells(text, start, delimiter);
      if (joined !== null && joined.cells !== null) {
        const lines = text.slice(start, joined.end).match(lineEnd)?.length ?? 0;
        row = { line, cells: joined.cells, ...(lines > 0 && { lastLine: line + lines }) };
        line += lines;
        next = joined.end + (text.startsWith('\r\n', joined.end) ? 2 : 1);
      } else {
        if (joined !== null) aloneUntil = joined.end;
        const { cells } = quotedCells(content, 0, delimiter);
        if (cells === null) wrongQuotes.push(line);
        else row = { line, cells };
      }
    }
    rows.push(row);
    assertSize(rows.length, 0);
    start = next;
  }
  return { rows, wrongQuotes };
}

/**
 * The cells of a record with quotes, and where it ends. Null if a quote is never closed, or if text follows a closing
 * quote: a quote that opens in one line and closes within a cell of another one was never closed.
 */
function quotedCells(
  text: string,
  start: number,
  delimiter: string,
): { readonly cells: readonly string[] | null; readonly end: number } {
  const cells: string[] = [];
  for (let at = start; ; at++) {
    let end = at;
    if (text[at] === '"') {
      const close = closingQuote(text, at + 1);
      if (close < 0 || close - start > LONGEST_RECORD) {
        return { cells: null, end: close < 0 ? text.length : close };
      }
      cells.push(text.slice(at + 1, close).replaceAll('""', '"'));
      end = close + 1;
    } else {
      while (end < text.length && !isEnd(text[end], delimiter)) end++;
      cells.push(text.slice(at, end));
    }
    if (text[end] !== delimiter) return { cells: isEnd(text[end], delimiter) ? cells : null, end };
    at = end;
  }
}

/** True if a cell ends at this character. */
function isEnd(character: string | undefined, delimiter: string): boolean {
  return (
    character === delimiter || character === '\r' || character === '\n' || character === undefined
  );
}

/** The next quote that is not doubled. */
function closingQuote(text: string, from: number): number {
  let at = text.indexOf('"', from);
  while (at >= 0 && text[at + 1] === '"') at = text.indexOf('"', at + 2);
  return at;
}

/** Characters at the beginning of a text that decide how it is written. */
const SAMPLE = 64 * 1024;

/** By preference if they fit equally well. Commas come last, since texts and numbers have them too. */
const DELIMITERS: Readonly<Record<string, string>> = {
  '\t': 'tabs',
  ';': 'semicolons',
  '|': 'vertical bars',
  ',': 'commas',
};

/** Numbers that Excel shortened with a decimal comma, which is not a delimiter. */
const SHORTENED = /(?<![\d.,])\d,\d{1,14}E\+\d{2,3}(?!\d)/gi;

/**
 * True if at least half of the first records have several cells, or one of the first cells names a column of codes.
 * A table read as text would have every line checked as a code, while text read as a table is noticed at once.
 */
export function hasCells(text: string): boolean {
  const { delimiter, splitShare } = findDelimiter(text);
  if (splitShare >= 0.5) return true;
  const records = firstRecords(text, delimiter).slice(0, MOST_TITLES);
  return records.some((cells) => cells.length > 1 && cells.some((cell) => nameRank(cell) !== null));
}

/**
 * Finds the delimiter: the one in Excel's first line `sep=;`, or the one that splits records most evenly.
 * @returns also `splitShare`, the share of the first records that it splits into several cells, and `isNamed`: the
 *   first line names it
 */
function findDelimiter(text: string) {
  const named = /^"?sep=([^\w\s"]|\t)"?(?=[\r\n]|$)/i.exec(text)?.[1];
  if (named !== undefined) {
    const reason = `Cells are separated by ${nameOf(named)}, as the first line says.`;
    return { delimiter: named, splitShare: 1, isNamed: true, reason };
  }
  const sample = text.slice(0, SAMPLE);
  const plain = sample.replaceAll(SHORTENED, 'number');
  const best = Object.keys(DELIMITERS)
    .map((delimiter) => fitOf(plain, delimiter))
    .reduce((a, b) => (isBetter(b, a) ? b : a));
  if (best.cells < 2) {
    const reason = 'Each line has one cell: no delimiter was found.';
    return { delimiter: plain === sample ? ',' : ';', splitShare: 0, isNamed: false, reason };
  }
  const { delimiter, splitShare, agreement, records, cells } = best;
  const share = `${Math.round(agreement * records)} of the first ${records} records have ${cells} cells`;
  const reason = `Cells are separated by ${nameOf(delimiter)}: ${share}.`;
  return { delimiter, splitShare, isNamed: false, reason };
}

function nameOf(delimiter: string): string {
  return DELIMITERS[delimiter] ?? `the character ${delimiter}`;
}

type Fit = ReturnType<typeof fitOf>;

/** How evenly a delimiter splits the first records. `agreement` is the share of records with `cells` cells. */
function fitOf(text: string, delimiter: string) {
  const lengths = firstRecords(text, delimiter).map(({ length }) => length);
  const records = lengths.length;
  const agreementOf = (cells: number): number =>
    lengths.filter((length) => length === cells).length / records;
  // Titles above the table have one cell. The first record with several is usually the header, which has all cells.
  const first = lengths.slice(0, MOST_TITLES).find((length) => length > 1) ?? 1;
  const usual = mostFrequent(lengths);
  const cells =
    first > 1 && (usual < 2 || agreementOf(first) >= agreementOf(usual)) ? first : usual;
  const splitShare = lengths.filter((length) => length > 1).length / records;
  const splitsFirst = (lengths[0] ?? 0) > 1;
  return { delimiter, records, cells, agreement: agreementOf(cells), splitShare, splitsFirst };
}

function isBetter(a: Fit, b: Fit): boolean {
  if (a.cells < 2 || b.cells < 2) return a.cells >= 2 && b.cells < 2;
  if (a.agreement !== b.agreement) return a.agreement > b.agreement;
  return a.splitsFirst === b.splitsFirst ? a.cells > b.cells : a.splitsFirst;
}

/** The cells of the first records that are not empty. */
function firstRecords(text: string, delimiter: string): (readonly string[])[] {
  const { rows } = readRecords(text.slice(0, SAMPLE), delimiter);
  const found = rows.map(({ cells }) => cells).filter((cells) => !isEmpty(cells));
  // The sample may cut off its last record.
  return text.length <= SAMPLE || found.length <= 1 ? found : found.slice(0, -1);
}

/** Reads a table in CSV. */
export function readCsv(text: string) {
  const { delimiter, isNamed, reason } = findDelimiter(text);
  const { rows, wrongQuotes } = readRecords(text, delimiter);
  return {
    delimiter,
    rows: isNamed ? rows.slice(1) : rows,
    reason,
    notes: wrongQuotes.length === 0 ? [] : [quoteNote(wrongQuotes)],
  };
}

function quoteNote([first, ...others]: readonly number[]): string {
  const where = others.length === 0 ? `Line ${first} has` : `${others.length + 1} lines have`;
  const which = others.length === 0 ? '' : ` (first in line ${first})`;
  return `${where} a quote that is misplaced or never closed${which}: it is read as a character, and each line as a record.`;
}
