import { nameRank } from './kinds.js';
import { isEmpty, MOST_TITLES, mostFrequent } from './table.js';
import { assertCell, assertLine, assertSize, MOST_COLUMNS, type Row } from './types.js';

/*
 * Reads CSV as RFC 4180 describes it. Libraries lose the rest of a list after a quote that is never closed, or refuse the
 * list. Here such a quote is an ordinary character, and each line is a record of its own.
 */

/** Rows of a text, which is split as they are taken. */
interface TextRows {
  readonly rows: Iterable<Row>;
  /** Null if each line is one value. */
  readonly delimiter: string | null;
  /** A sentence that says why the text is split like this. */
  readonly reason: string;
  /** Sentences about tolerated faults, once all rows were taken. */
  readonly notes: () => readonly string[];
}

/** Lines end with LF, CRLF or CR, in any mixture. */
const LINE_END = /\r\n?|\n/g;

/** Reads each line as one value. */
export function readLines(text: string): TextRows {
  return {
    rows: {
      *[Symbol.iterator]() {
        for (let at = 0, line = 1; at < text.length; line++) {
          const { end, next } = lineAt(text, at, line);
          yield { line, cells: [text.slice(at, end)] };
          at = next;
        }
      },
    },
    delimiter: null,
    reason: 'Each line is one value.',
    notes: () => [],
  };
}

/**
 * Finds the end of the line that begins at a position.
 * @param line its number, from 1
 * @returns also where the next line begins
 * @throws UserError when the line is too long, or there are too many
 */
function lineAt(text: string, start: number, line: number) {
  LINE_END.lastIndex = start;
  const found = LINE_END.exec(text);
  const end = found?.index ?? text.length;
  assertSize(line - 1, 0);
  assertLine(end - start, line);
  return { end, next: end + (found?.[0].length ?? 0) };
}

/** The rows of a CSV text. @param onWrongQuotes called for each line with quotes that are misplaced or never closed */
function* recordsOf(
  text: string,
  delimiter: string,
  onWrongQuotes: (line: number) => void = () => undefined,
): Generator<Row, void, undefined> {
  // Lines before this position were joined in vain. Joining some of them again could take forever in a hostile file.
  let aloneUntil = 0;
  for (let start = 0, line = 1; start < text.length; line++) {
    const { end, next: nextLine } = lineAt(text, start, line);
    const content = text.slice(start, end);
    let next = nextLine;
    let row: Row = { line, cells: content.trim() === '' ? [''] : content.split(delimiter) };
    if (content.includes('"')) {
      const joined = start < aloneUntil ? null : quotedCells(text, start, delimiter, line);
      if (joined !== null && joined.cells !== null) {
        const lines = text.slice(start, joined.end).match(LINE_END)?.length ?? 0;
        row = { line, cells: joined.cells, ...(lines > 0 && { lastLine: line + lines }) };
        line += lines;
        next = joined.end + (text.startsWith('\r\n', joined.end) ? 2 : 1);
      } else {
        if (joined !== null) aloneUntil = joined.end;
        const { cells } = quotedCells(content, 0, delimiter, line);
        if (cells === null) onWrongQuotes(line);
        else row = { line, cells };
      }
    }
    yield row;
    start = next;
  }
}

/**
 * The cells of a record with quotes, and where it ends. Null if a quote is never closed, or if text follows a closing
 * quote: a quote that opens in one line and closes within a cell of another one was never closed.
 */
function quotedCells(
  text: string,
  start: number,
  delimiter: string,
  line: number,
): { readonly cells: readonly string[] | null; readonly end: number } {
  const cells: string[] = [];
  for (let at = start; ; at++) {
    let end = at;
    if (text[at] === '"') {
      const close = closingQuote(text, at + 1);
      if (close < 0) return { cells: null, end: text.length };
      if (isEnd(text[close + 1], delimiter)) assertCell(close - at, `line ${line}`);
      // In a record of so many cells, a quote was left open.
      if (cells.length >= MOST_COLUMNS) return { cells: null, end: close };
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

/** Into which cells a text is divided. */
export interface Split {
  readonly delimiter: string;
  /** True if it divides the records; else each line has one cell. */
  readonly isFound: boolean;
  /** True if the first line names it. */
  readonly isNamed: boolean;
  /** A sentence that says why. */
  readonly reason: string;
}

/** Finds the delimiter: the one in Excel's first line `sep=;`, or the one that divides records most evenly. */
export function splitOf(text: string): Split {
  const named = /^"?sep=([^\w\s"]|\t)"?(?=[\r\n]|$)/i.exec(text)?.[1];
  if (named !== undefined) {
    const reason = `Cells are separated by ${nameOf(named)}, as the first line says.`;
    return { delimiter: named, isFound: true, isNamed: true, reason };
  }
  const sample = text.slice(0, SAMPLE);
  const plain = sample.replaceAll(SHORTENED, 'number');
  const fits = Object.keys(DELIMITERS).flatMap((delimiter) => fitOf(plain, delimiter));
  const [best, ...others] = fits;
  if (best === undefined) {
    const reason = 'Each line has one cell: no delimiter was found.';
    return { delimiter: plain === sample ? ',' : ';', isFound: false, isNamed: false, reason };
  }
  const { delimiter, even, records, cells } = others.reduce(
    (a, b) => (isBetter(b, a) ? b : a),
    best,
  );
  const share = `${even} of the first ${records} records have ${cells} cells`;
  const reason = `Cells are separated by ${nameOf(delimiter)}: ${share}.`;
  return { delimiter, isFound: true, isNamed: false, reason };
}

function nameOf(delimiter: string): string {
  return DELIMITERS[delimiter] ?? `the character ${delimiter}`;
}

interface Fit {
  readonly delimiter: string;
  readonly records: number;
  /** How many of these have `cells` cells. */
  readonly even: number;
  readonly cells: number;
  readonly dividesFirst: boolean;
}

/** How evenly a delimiter divides the first records, if it divides half of them, or one that names a column of codes. */
function fitOf(text: string, delimiter: string): readonly Fit[] {
  const found = firstRecords(text, delimiter);
  const lengths = found.map(({ length }) => length);
  const countOf = (cells: number): number => lengths.filter((length) => length === cells).length;
  // Titles above the table have one cell. The first record with several is usually the header, which has all cells.
  const titles = found.slice(0, MOST_TITLES).filter((record) => record.length > 1);
  const namesCodes = titles.some((record) => record.some((cell) => nameRank(cell) !== null));
  const isOften = (lengths.length - countOf(1)) * 2 >= lengths.length;
  const [first = null] = titles.map(({ length }) => length);
  const usual = mostFrequent(lengths);
  const isHeader = first !== null && (usual < 2 || countOf(first) >= countOf(usual));
  const cells = isHeader ? first : usual;
  if (cells < 2 || !(isOften || namesCodes)) return [];
  const dividesFirst = (lengths[0] ?? 0) > 1;
  return [{ delimiter, records: lengths.length, even: countOf(cells), cells, dividesFirst }];
}

function isBetter(a: Fit, b: Fit): boolean {
  const [share, other] = [a.even / a.records, b.even / b.records];
  if (share !== other) return share > other;
  return a.dividesFirst === b.dividesFirst ? a.cells > b.cells : a.dividesFirst;
}

/** The cells of the first records that are not empty. */
function firstRecords(text: string, delimiter: string): (readonly string[])[] {
  const rows = [...recordsOf(text.slice(0, SAMPLE), delimiter)];
  const found = rows.map(({ cells }) => cells).filter((cells) => !isEmpty(cells));
  // The sample may cut off its last record.
  return text.length <= SAMPLE || found.length <= 1 ? found : found.slice(0, -1);
}

/** Reads a table in CSV. */
export function readCsv(text: string, { delimiter, isNamed, reason }: Split): TextRows {
  let wrongQuotes = { lines: 0, first: 0 };
  const onWrongQuotes = (line: number): void => {
    wrongQuotes = { lines: wrongQuotes.lines + 1, first: wrongQuotes.first || line };
  };
  return {
    delimiter,
    rows: {
      *[Symbol.iterator]() {
        wrongQuotes = { lines: 0, first: 0 };
        const records = recordsOf(text, delimiter, onWrongQuotes);
        if (isNamed) records.next();
        for (const row of records) {
          for (const { length } of row.cells) assertCell(length, `line ${row.line}`);
          yield row;
        }
      },
    },
    reason,
    notes: () => (wrongQuotes.lines === 0 ? [] : [quoteNote(wrongQuotes)]),
  };
}

function quoteNote({ lines, first }: { readonly lines: number; readonly first: number }): string {
  const where = lines === 1 ? `Line ${first} has` : `${lines} lines have`;
  const which = lines === 1 ? '' : ` (first in line ${first})`;
  return `${where} a quote that is misplaced or never closed${which}: it is read as a character, and each line as a record.`;
}
