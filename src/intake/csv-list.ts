import { unescapeFormula, uniqueNames } from '../domain/csv.js';
import { chooseColumn, kindOf, nameRank, plainName } from './columns.js';
import { cellsOf, recordJoiner, type CsvRecord } from './csv-records.js';
import { wrongFile } from './types.js';
import type { Columns, UncheckedRow, Plan, Sample, Splitter, Tally } from './types.js';
import { lineSplitter, type Line } from './text-list.js';

type Cells = readonly string[];

/** Finds delimiter, header and columns. @throws FileError when the list is empty or the column of codes is unclear */
export function planCsv(sample: Sample): Plan {
  const { whole, column, maxLength, mask } = sample;
  const lines = firstLines(sample);
  const { delimiter, sepLine, reason } = findDelimiter(lines, maxLength);
  const records = firstRecords(lines.slice(sepLine), delimiter, maxLength, whole);
  const cells = records.map((record) => record.cells.map((cell) => mask(unescapeFormula(cell))));
  const { reasons, ...table } = planTable(cells, whole, column);
  const { header, columns, codeColumn } = table;
  const skipped = header ? (records[0]?.lastLine ?? 0) : sepLine;
  const shape = { delimiter, maxLength, width: columns.length, codeColumn, skipped };
  return {
    ...table,
    delimiter,
    reasons: [reason, ...reasons],
    newReader: (tally) => csvReader(shape, tally),
  };
}

/**
 * Finds the header and the column of codes.
 * @param records the first records that are not empty
 * @param whole true if these are all records
 * @param column the requested column
 * @throws FileError when there is no record, or the column of codes is unclear
 */
export function planTable(
  records: readonly Cells[],
  whole: boolean,
  column: string | undefined,
): Omit<Columns, 'delimiter'> {
  const header = findHeader(records, column);
  const [first = []] = records;
  const rows = header === null ? records : records.slice(1);
  if (rows.length === 0 && whole) {
    throw wrongFile(header === null ? 'the list is empty' : 'the list has only a header');
  }
  const width = header === null ? mostFrequent(records.map(({ length }) => length)) : first.length;
  if (width === 0) throw wrongFile('the first lines are longer than a record may be');
  const named = header !== null;
  const names = named ? first : blank(width);
  const columns = uniqueNames(names.map((name) => name.trim()));
  const likelyNames = areNames(first) ? first : undefined;
  const table = { columns: named ? names : columns, named, records: rows, likelyNames };
  const { index, reason } = chooseColumn(table, column);
  return {
    header: named,
    columns,
    codeColumn: index,
    reasons: [header ?? 'The first line is not a header: it looks like the others.', reason],
  };
}

interface CsvShape {
  readonly delimiter: string;
  readonly maxLength: number;
  readonly width: number;
  readonly codeColumn: number;
  /** Number of the last line before the first row. */
  readonly skipped: number;
}

function csvReader(shape: CsvShape, tally: Tally): Splitter<UncheckedRow> {
  const { delimiter, maxLength, width, skipped } = shape;
  const split = lineSplitter(maxLength);
  const join = recordJoiner(delimiter, maxLength);
  const faults = { literal: { count: 0, firstLine: 0 }, unclosed: { count: 0, firstLine: 0 } };
  let short = 0;
  return (piece, isLast) => {
    const rows: UncheckedRow[] = [];
    const records = join(split(piece, isLast), isLast);
    const cells = cellsOf(records, delimiter);
    // Records are not copied to add their cells: V8 allocates spread copies in its old generation, where they keep
    // their strings until the next full garbage collection.
    for (const [index, record] of records.entries()) {
      const { kind, line } = record;
      const rawCells = cells[index] ?? [];
      if (line <= skipped) continue;
      if (isEmpty(rawCells) && kind !== 'too long') {
        tally.blankLines++;
        continue;
      }
      const fault = kind === 'literal' || kind === 'unclosed' ? faults[kind] : null;
      if (fault !== null && ++fault.count === 1) fault.firstLine = line;
      const row = rowOf(record, rawCells, shape);
      if ('text' in row && rawCells.length < width) short++;
      rows.push(row);
    }
    if (isLast) for (const note of notesOf(faults, short)) tally.notes.push(note);
    return rows;
  };
}

type Faults = Readonly<Record<'literal' | 'unclosed', { count: number; firstLine: number }>>;

function notesOf({ unclosed, literal }: Faults, short: number): string[] {
  const notes: string[] = [];
  if (unclosed.count === 1) {
    notes.push(
      `The quote that opens in line ${unclosed.firstLine} is never closed: it is read as a character, and each line as a record.`,
    );
  } else if (unclosed.count > 1) {
    notes.push(
      `${unclosed.count} quotes are never closed, the first opens in line ${unclosed.firstLine}: they are read as characters, and each line as a record.`,
    );
  }
  if (literal.count > 0) {
    notes.push(
      `${literal.count} of the lines have misplaced quotes (first in line ${literal.firstLine}): they are read as characters.`,
    );
  }
  if (short > 0) {
    notes.push(`${short} of the records have fewer cells than others: the last cells are empty.`);
  }
  return notes;
}

function rowOf(record: CsvRecord, rawCells: Cells, shape: CsvShape): UncheckedRow {
  const { width, codeColumn, delimiter, maxLength } = shape;
  const { line, lastLine, kind } = record;
  const cells = rawCells.map(unescapeFormula);
  const columns = fitToWidth(cells, width, delimiter);
  const extent = lastLine > line ? ` and extends to line ${lastLine}: is a quote left open?` : '';
  if (kind === 'too long') {
    const rejected = `is longer than the ${maxLength} characters a record may have`;
    return { line, rejected, columns };
  }
  if (!isEmpty(cells.slice(width))) {
    // An extra separator may have moved the code to another column.
    return { line, rejected: `has ${cells.length} cells instead of ${width}${extent}`, columns };
  }
  const code = rawCells[codeColumn];
  if (code === undefined) {
    return { line, rejected: `ends before the column of codes${extent}`, columns };
  }
  // An apostrophe does not guard a formula if another one ends the cell: `readCode` removes such quotes.
  return { line, text: /'\s*$/.test(code) ? code : unescapeFormula(code), columns };
}

/** Exactly `width` cells: adds empty ones, or joins surplus cells into the last one, so that no text is lost. */
function fitToWidth(cells: Cells, width: number, delimiter: string): Cells {
  if (cells.length === width) return cells;
  if (cells.length < width) return [...cells, ...blank(width - cells.length)];
  const end = isEmpty(cells.slice(width)) ? width : cells.length;
  return [...cells.slice(0, width - 1), cells.slice(width - 1, end).join(delimiter)];
}

function blank(cells: number): string[] {
  return Array.from({ length: cells }, () => '');
}

/** Records at the beginning that decide delimiter and header. */
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

/** True if most of the first records have several cells, or a cell of the first one names a column of codes. */
export function hasCells(sample: Sample): boolean {
  const { maxLength, whole } = sample;
  const lines = firstLines(sample);
  const { delimiter, splitShare, sepLine } = findDelimiter(lines, maxLength);
  if (splitShare >= CSV_SHARE) return true;
  const [first] = firstRecords(lines.slice(sepLine), delimiter, maxLength, whole);
  const cells = first?.cells ?? [];
  return cells.length > 1 && cells.some((cell) => nameRank(cell) !== null);
}

/**
 * Share of the first records that a delimiter must split for a list to be CSV. It is low: a table read as text would
 * have every line checked as a code, while text read as a table is noticed at once.
 */
const CSV_SHARE = 0.5;

function firstLines({ text, whole, maxLength }: Sample): Line[] {
  return lineSplitter(maxLength)(text, whole);
}

/**
 * Finds the delimiter: the one in Excel's first line `sep=;`, or the one that splits records most evenly.
 * @returns also `splitShare`, the share of the first records that it splits into several cells, and `sepLine`, the
 *   number of the line `sep=;` (0: none)
 */
function findDelimiter(lines: readonly Line[], maxLength: number) {
  const [first] = lines;
  const named = /^"?sep=([^\w\s"]|\t)"?$/i.exec(first?.text ?? '')?.[1];
  if (named !== undefined && first !== undefined) {
    const reason = `Cells are separated by ${nameOf(named)}, as the first line says.`;
    return { delimiter: named, splitShare: 1, sepLine: first.number, reason };
  }
  const plain = lines.map((line) => ({ ...line, text: line.text.replaceAll(SHORTENED, 'number') }));
  const best = Object.keys(DELIMITERS)
    .map((delimiter) => fitOf(plain, delimiter, maxLength))
    .reduce((a, b) => (isBetter(b, a) ? b : a));
  if (best.cells < 2) {
    const reason = 'Each line has one cell: no delimiter was found.';
    const hasCommas = lines.some(({ text }) => text.search(SHORTENED) >= 0);
    return { delimiter: hasCommas ? ';' : ',', splitShare: 0, sepLine: 0, reason };
  }
  const { delimiter, splitShare, agreement, records, cells } = best;
  const share = `${Math.round(agreement * records)} of the first ${records} records have ${cells} cells`;
  const reason = `Cells are separated by ${nameOf(delimiter)}: ${share}.`;
  return { delimiter, splitShare, sepLine: 0, reason };
}

function nameOf(delimiter: string): string {
  return DELIMITERS[delimiter] ?? `the character ${delimiter}`;
}

type Fit = ReturnType<typeof fitOf>;

/** How evenly a delimiter splits the first records. `agreement` is the share of records with `cells` cells. */
function fitOf(lines: readonly Line[], delimiter: string, maxLength: number) {
  const lengths = firstRecords(lines, delimiter, maxLength, false).map(({ cells }) => cells.length);
  const records = lengths.length;
  const [first = 0] = lengths;
  const splitsFirst = first > 1;
  // The first record is usually a header, which has all cells.
  const cells = splitsFirst ? first : mostFrequent(lengths);
  const agreement = lengths.filter((length) => length === cells).length / records;
  const splitShare = lengths.filter((length) => length > 1).length / records;
  return { delimiter, records, cells, splitsFirst, agreement, splitShare };
}

function isBetter(a: Fit, b: Fit): boolean {
  if (a.cells < 2 || b.cells < 2) return a.cells >= 2 && b.cells < 2;
  if (a.splitsFirst !== b.splitsFirst) return a.splitsFirst;
  return a.agreement === b.agreement ? a.cells > b.cells : a.agreement > b.agreement;
}

/** The most frequent number, or the largest of several. */
function mostFrequent(numbers: readonly number[]): number {
  const counts = new Map<number, number>();
  for (const n of numbers) counts.set(n, (counts.get(n) ?? 0) + 1);
  const [best] = [...counts].sort(([a, timesA], [b, timesB]) => timesB - timesA || b - a);
  return best?.[0] ?? 0;
}

/** The first records that are not empty. @param whole true if these are all lines */
function firstRecords(
  lines: readonly Line[],
  delimiter: string,
  maxLength: number,
  whole: boolean,
): (CsvRecord & { readonly cells: Cells })[] {
  const join = recordJoiner(delimiter, maxLength);
  const records: CsvRecord[] = [];
  for (const line of lines) {
    if (records.length >= MAX_SAMPLE_RECORDS) break;
    for (const record of join([line], false)) records.push(record);
  }
  // The sample may cut off the record that is open at its end. Use it only if there is hardly another.
  if (whole || records.length <= 1) for (const record of join([], true)) records.push(record);
  const cells = cellsOf(records, delimiter);
  return records
    .map((record, index) => ({ ...record, cells: cells[index] ?? [] }))
    .filter((record) => !isEmpty(record.cells));
}

/** True for records without text, such as `;;;`, which spreadsheets write for cleared rows. */
export function isEmpty(cells: Cells): boolean {
  return cells.every((cell) => cell.trim() === '');
}

/** A sentence that says why the first record is a header, or null if it isn't. */
function findHeader(records: readonly Cells[], column: string | undefined): string | null {
  const [first = [], ...others] = records;
  const wanted = column?.trim().toLowerCase();
  const isWanted = (cell: string): boolean =>
    cell.trim().toLowerCase() === wanted && kindOf(cell) === 'text';
  if (first.some(isWanted)) return 'The first line is a header: it names the requested column.';
  if (first.some((cell) => nameRank(cell) !== null)) {
    return 'The first line is a header: it names a column of codes.';
  }
  return areNames(first) && first.some((_, index) => holdsCodes(others, index))
    ? 'The first line is a header: it has a word where the others have codes.'
    : null;
}

function areNames(cells: Cells): boolean {
  const named = cells.filter((cell) => kindOf(cell) !== 'empty');
  const differ = new Set(named.map(plainName)).size === named.length;
  return named.length > 0 && differ && named.every(isName);
}

function isName(cell: string): boolean {
  return kindOf(cell) === 'text' && cell.trim().length <= 64 && !/[\r\n]/.test(cell.trim());
}

/** True if most values look like codes. Numbers or dates don't suffice: a wrong header would lose a code. */
function holdsCodes(records: readonly Cells[], index: number): boolean {
  const kinds = records.map((cells) => kindOf(cells[index] ?? '')).filter((k) => k !== 'empty');
  return kinds.length > 0 && kinds.filter((kind) => kind === 'code').length * 2 > kinds.length;
}
