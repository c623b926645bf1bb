import { nameRank } from './columns.js';
import { isEmpty, MOST_TITLES, mostFrequent } from './table.js';
import { roomCounter, type Row } from './types.js';

/*
 * Reads CSV as RFC 4180 describes it. Libraries lose the rest of a file after a quote that is never closed. Here such a
 * quote is an ordinary character, and each line is a record of its own.
 */

/** Longest record with quoted cells, in UTF-16 units. In a longer one a quote was left open. */
const LONGEST_RECORD = 1024 * 1024;

interface CsvRecord {
  /** Numbers of its first and last line, from 1. */
  readonly line: number;
  readonly lastLine: number;
  readonly cells: readonly string[];
  /** Its quotes are read as characters: text follows a closing quote, or a closing quote is missing. */
  readonly fault: 'literal' | 'unclosed' | null;
}

/** Splits a text into lines, which end with LF, CRLF or CR, in any mixture. @throws FileError when there are too many */
export function linesOf(text: string): string[] {
  const count = roomCounter();
  const lineEnd = /\r\n?|\n/g;
  const lines: string[] = [];
  let start = 0;
  for (let found = lineEnd.exec(text); found !== null; found = lineEnd.exec(text)) {
    count(1);
    lines.push(text.slice(start, found.index));
    start = lineEnd.lastIndex;
  }
  if (start < text.length) lines.push(text.slice(start));
  return lines;
}

/** Splits a text into records. Lines end with LF, CRLF or CR, in any mixture. */
export function* csvRecords(
  text: string,
  delimiter: string,
): Generator<CsvRecord, void, undefined> {
  const lineEnd = /\r\n?|\n/g;
  let line = 1;
  // Lines before this position were joined in vain. Joining some of them again could take forever in a hostile file.
  let aloneUntil = 0;
  for (let start = 0; start < text.length; line++) {
    lineEnd.lastIndex = start;
    const found = lineEnd.exec(text);
    const end = found?.index ?? text.length;
    const content = text.slice(start, end);
    const next = end + (found?.[0].length ?? 0);
    if (!content.includes('"')) {
      const cells = content.trim() === '' ? [''] : content.split(delimiter);
      yield { line, lastLine: line, cells, fault: null };
      start = next;
      continue;
    }
    const joined = start < aloneUntil ? null : quotedCells(text, start, delimiter);
    if (joined !== null && 'cells' in joined) {
      const lines = joined.end > end ? countLines(text, start, joined.end) : 0;
      yield { line, lastLine: line + lines, cells: joined.cells, fault: null };
      line += lines;
      start = joined.end + (text.startsWith('\r\n', joined.end) ? 2 : 1);
      continue;
    }
    if (joined !== null) aloneUntil = joined.end;
    const alone = quotedCells(content, 0, delimiter);
    yield 'cells' in alone
      ? { line, lastLine: line, cells: alone.cells, fault: null }
      : { line, lastLine: line, cells: content.split(delimiter), fault: alone.fault };
    start = next;
  }
}

/**
 * The cells of a record with quotes, up to its end. Without cells: what is wrong with its quotes, and where.
 * A quote that opens in one line and closes within a cell of another one was never closed.
 */
function quotedCells(
  text: string,
  start: number,
  delimiter: string,
):
  | { readonly cells: readonly string[]; readonly end: number }
  | { readonly fault: 'literal' | 'unclosed'; readonly end: number } {
  const cells: string[] = [];
  for (let at = start; ; at++) {
    let end = at;
    if (text[at] === '"') {
      const close = closingQuote(text, at + 1);
      if (close < 0) return { fault: 'unclosed', end: text.length };
      if (close - start > LONGEST_RECORD) return { fault: 'unclosed', end: close };
      cells.push(text.slice(at + 1, close).replaceAll('""', '"'));
      end = close + 1;
    } else {
      end = endOfCell(text, at, delimiter);
      cells.push(text.slice(at, end));
    }
    const next = text[end];
    if (next === undefined || next === '\r' || next === '\n') return { cells, end };
    if (next !== delimiter) return { fault: 'literal', end };
    at = end;
  }
}

/** The next quote that is not doubled. */
function closingQuote(text: string, from: number): number {
  let at = text.indexOf('"', from);
  while (at >= 0 && text[at + 1] === '"') at = text.indexOf('"', at + 2);
  return at;
}

function endOfCell(text: string, from: number, delimiter: string): number {
  for (let at = from; at < text.length; at++) {
    const char = text[at];
    if (char === delimiter || char === '\r' || char === '\n') return at;
  }
  return text.length;
}

function countLines(text: string, start: number, end: number): number {
  return text.slice(start, end).match(/\r\n?|\n/g)?.length ?? 0;
}

/** Characters at the beginning of a text that decide how it is written. */
const SAMPLE = 256 * 1024;
const MAX_SAMPLE_RECORDS = 1000;

/** By preference if they fit equally well. Commas come last, since texts and numbers have them too. */
const DELIMITERS: Readonly<Record<string, string>> = {
  '\t': 'tabs',
  ';': 'semicolons',
  '|': 'vertical bars',
  ',': 'commas',
};

/** Numbers that Excel shortened with a decimal comma, which is not a delimiter. */
const SHORTENED = /(?<![\d.,])\d,\d{1,14}E\+\d{2,3}(?!\d)/gi;

/** Share of the first records that a delimiter must split for a list to be CSV. A table read as text would have every
 * line checked as a code, while text read as a table is noticed at once. */
const CSV_SHARE = 0.5;

/** True if most of the first records have several cells, or one of the first cells names a column of codes. */
export function hasCells(text: string): boolean {
  const { delimiter, splitShare } = findDelimiter(text);
  if (splitShare >= CSV_SHARE) return true;
  const records = firstRecords(text, delimiter).slice(0, MOST_TITLES);
  return records.some((cells) => cells.length > 1 && cells.some((cell) => nameRank(cell) !== null));
}

/**
 * Finds the delimiter: the one in Excel's first line `sep=;`, or the one that splits records most evenly.
 * @returns also `splitShare`, the share of the first records that it splits into several cells, and `isNamed`: the
 *   first line names it
 */
export function findDelimiter(text: string) {
  const named = /^"?sep=([^\w\s"]|\t)"?(?=[\r\n]|$)/i.exec(text)?.[1];
  if (named !== undefined) {
    const reason = `Cells are separated by ${nameOf(named)}, as the first line says.`;
    return { delimiter: named, splitShare: 1, isNamed: true, reason };
  }
  const plain = text.slice(0, SAMPLE).replaceAll(SHORTENED, 'number');
  const best = Object.keys(DELIMITERS)
    .map((delimiter) => fitOf(plain, delimiter, text.length <= SAMPLE))
    .reduce((a, b) => (isBetter(b, a) ? b : a));
  if (best.cells < 2) {
    const reason = 'Each line has one cell: no delimiter was found.';
    const hasCommas = plain.length !== Math.min(text.length, SAMPLE);
    return { delimiter: hasCommas ? ';' : ',', splitShare: 0, isNamed: false, reason };
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
function fitOf(text: string, delimiter: string, whole: boolean) {
  const lengths = firstRecords(text, delimiter, whole).map(({ length }) => length);
  const records = lengths.length;
  // Titles above the table have one cell. The first record with several is usually the header, which has all cells.
  const first = lengths.slice(0, MOST_TITLES).find((length) => length > 1);
  const counted = [first ?? 1, mostFrequent(lengths)].map((cells) => ({
    cells,
    agreement: lengths.filter((length) => length === cells).length / records,
  }));
  const [a, b] = counted as [(typeof counted)[0], (typeof counted)[0]];
  const { cells, agreement } = a.cells > 1 && (b.cells < 2 || a.agreement >= b.agreement) ? a : b;
  const splitShare = lengths.filter((length) => length > 1).length / records;
  return { delimiter, records, cells, agreement, splitShare, splitsFirst: (lengths[0] ?? 0) > 1 };
}

function isBetter(a: Fit, b: Fit): boolean {
  if (a.cells < 2 || b.cells < 2) return a.cells >= 2 && b.cells < 2;
  if (a.agreement !== b.agreement) return a.agreement > b.agreement;
  return a.splitsFirst === b.splitsFirst ? a.cells > b.cells : a.splitsFirst;
}

/** The cells of the first records that are not empty. @param whole false if the last record may be cut off */
function firstRecords(
  text: string,
  delimiter: string,
  whole = text.length <= SAMPLE,
): (readonly string[])[] {
  const found: (readonly string[])[] = [];
  for (const { cells } of csvRecords(text.slice(0, SAMPLE), delimiter)) {
    if (found.length >= MAX_SAMPLE_RECORDS) break;
    if (!isEmpty(cells)) found.push(cells);
  }
  // The sample may cut off its last record.
  return whole || found.length <= 1 ? found : found.slice(0, -1);
}

/** Reads a table in CSV. */
export function readCsv(text: string) {
  const { delimiter, isNamed, reason } = findDelimiter(text);
  const rows: Row[] = [];
  const faults = { literal: { count: 0, line: 0 }, unclosed: { count: 0, line: 0 } };
  const count = roomCounter();
  for (const { line, lastLine, cells, fault } of csvRecords(text, delimiter)) {
    if (line === 1 && isNamed) continue;
    count(cells.length);
    if (fault !== null && ++faults[fault].count === 1) faults[fault].line = line;
    rows.push(lastLine > line ? { line, lastLine, cells } : { line, cells });
  }
  return { delimiter, rows, reason, notes: quoteNotes(faults) };
}

type Faults = Readonly<Record<'literal' | 'unclosed', { count: number; line: number }>>;

function quoteNotes({ unclosed, literal }: Faults): string[] {
  const notes: string[] = [];
  if (unclosed.count === 1) {
    notes.push(
      `The quote that opens in line ${unclosed.line} is never closed: it is read as a character, and each line as a record.`,
    );
  } else if (unclosed.count > 1) {
    notes.push(
      `${unclosed.count} quotes are never closed, the first opens in line ${unclosed.line}: they are read as characters, and each line as a record.`,
    );
  }
  if (literal.count > 0) {
    notes.push(
      `${literal.count} of the lines have misplaced quotes (first in line ${literal.line}): they are read as characters.`,
    );
  }
  return notes;
}
