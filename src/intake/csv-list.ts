import { unescapeFormula, uniqueNames } from '../domain/csv.js';
import { chooseColumn, kindOf, nameRank, plainName } from './columns.js';
import { cellsOf, recordJoiner, type CsvRecord } from './csv-records.js';
import { IntakeError } from './types.js';
import type { Columns, IntakeRow, Plan, Sample, Splitter, Tally } from './types.js';
import { lineSplitter, type Line } from './text-list.js';

type Cells = readonly string[];

/** @throws IntakeError when the list is empty, or the column of codes is not clear */
export function planCsv(sample: Sample): Plan {
  const { whole, column, maxLength, mask } = sample;
  const lines = firstLines(sample);
  const { delimiter, line: named, reason } = findDelimiter(lines, maxLength);
  const records = firstRecords(lines.slice(named), delimiter, maxLength, whole);
  const cells = records.map((record) => record.cells.map((cell) => mask(unescapeFormula(cell))));
  const { reasons, ...table } = planTable(cells, whole, column);
  const { header, columns, codeColumn } = table;
  const skipped = header ? (records[0]?.lastLine ?? 0) : named;
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
 * @param records the first ones that are not empty
 * @param whole there are no others
 * @throws IntakeError when there is no record, or the column of codes is not clear
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
    throw new IntakeError(
      header === null ? 'the list is empty' : 'the list has a header and nothing else',
      'Check that the right file was exported.',
    );
  }
  const width = header === null ? mostFrequent(records.map(({ length }) => length)) : first.length;
  if (width === 0) {
    throw new IntakeError(
      'the first lines are longer than a record may be',
      'Check that the right file was exported.',
    );
  }
  const names = header === null ? blank(width) : first;
  const columns = uniqueNames(names.map((name) => name.trim()));
  const choice = chooseColumn(
    {
      columns: header === null ? columns : names,
      named: header !== null,
      records: rows,
      ...(areNames(first) ? { likelyNames: first } : {}),
    },
    column,
  );
  return {
    header: header !== null,
    columns,
    codeColumn: choice.index,
    reasons: [header ?? 'The first line is not a header: it looks like the others.', choice.reason],
  };
}

interface CsvShape {
  readonly delimiter: string;
  readonly maxLength: number;
  readonly width: number;
  readonly codeColumn: number;
  /** The last line before the first row. */
  readonly skipped: number;
}

function csvReader(shape: CsvShape, tally: Tally): Splitter<IntakeRow> {
  const { delimiter, maxLength, width, skipped } = shape;
  const split = lineSplitter(maxLength);
  const join = recordJoiner(delimiter, maxLength);
  const literal = { count: 0, firstLine: 0 };
  const unclosed = { count: 0, firstLine: 0 };
  let short = 0;
  return (piece, isLast) => {
    const rows: IntakeRow[] = [];
    const records = join(split(piece, isLast), isLast);
    const cells = cellsOf(records, delimiter);
    // Records are not copied to add their cells: V8 puts copies made by spread among the old objects,
    // where they keep what they refer to until the next full garbage collection.
    for (const [index, record] of records.entries()) {
      const { kind, line } = record;
      const given = cells[index] ?? [];
      if (line <= skipped) continue;
      if (isEmpty(given) && kind !== 'too long') {
        tally.blankLines++;
        continue;
      }
      const faulty = kind === 'literal' ? literal : kind === 'unclosed' ? unclosed : null;
      if (faulty !== null && ++faulty.count === 1) faulty.firstLine = line;
      const row = rowOf(record, given, shape);
      if ('text' in row && given.length < width) short++;
      rows.push(row);
    }
    if (isLast) for (const note of notesOf(unclosed, literal, short)) tally.notes.push(note);
    return rows;
  };
}

interface Faulty {
  readonly count: number;
  readonly firstLine: number;
}

function notesOf(unclosed: Faulty, literal: Faulty, short: number): string[] {
  const notes: string[] = [];
  const alone = 'and each line stands for itself.';
  if (unclosed.count === 1) {
    notes.push(
      `The quote that opens in line ${unclosed.firstLine} is never closed: it counts as a character, ${alone}`,
    );
  } else if (unclosed.count > 1) {
    notes.push(
      `${unclosed.count} quotes are never closed, the first opens in line ${unclosed.firstLine}: they count as characters, ${alone}`,
    );
  }
  if (literal.count > 0) {
    notes.push(
      `Quotes make no sense in ${literal.count} of the lines (first in line ${literal.firstLine}): they are taken as characters.`,
    );
  }
  if (short > 0) {
    notes.push(`${short} of the records have fewer cells than others: the last are empty.`);
  }
  return notes;
}

function rowOf(record: CsvRecord, given: Cells, shape: CsvShape): IntakeRow {
  const { width, codeColumn, delimiter, maxLength } = shape;
  const { line, lastLine, kind } = record;
  const cells = given.map(unescapeFormula);
  const columns = fitted(cells, width, delimiter);
  const extent = lastLine > line ? ` and reaches to line ${lastLine}: is a quote left open?` : '';
  if (kind === 'too long') {
    const rejected = `is longer than the ${maxLength} characters a record may have`;
    return { line, rejected, columns };
  }
  if (!isEmpty(cells.slice(width))) {
    // An extra separator may have moved the code to another column.
    return { line, rejected: `has ${cells.length} cells instead of ${width}${extent}`, columns };
  }
  const code = given[codeColumn];
  if (code === undefined) {
    return { line, rejected: `ends before the column of codes${extent}`, columns };
  }
  // An apostrophe is no guard when another ends the cell: `readCode` removes such quotes.
  return { line, text: /'\s*$/.test(code) ? code : unescapeFormula(code), columns };
}

/** Exactly `width` cells: adds empty ones, or joins the surplus into the last, so that nothing is lost. */
function fitted(cells: Cells, width: number, delimiter: string): Cells {
  if (cells.length === width) return cells;
  if (cells.length < width) return [...cells, ...blank(width - cells.length)];
  const end = isEmpty(cells.slice(width)) ? width : cells.length;
  return [...cells.slice(0, width - 1), cells.slice(width - 1, end).join(delimiter)];
}

function blank(cells: number): string[] {
  return Array.from({ length: cells }, () => '');
}

/** Records at the beginning from which the delimiter and the header are found. */
const MAX_SAMPLE_RECORDS = 1000;

/** In order of preference when they fit equally well: commas are the most frequent in texts and numbers. */
const DELIMITERS: Readonly<Record<string, string>> = {
  '\t': 'tabs',
  ';': 'semicolons',
  '|': 'vertical bars',
  ',': 'commas',
};

/** Numbers that Excel has shortened with a decimal comma, which is not a separator. */
const SHORTENED = /(?<![\d.,])\d,\d{1,14}E\+\d{2,3}(?!\d)/gi;

/** True when most of the first records have several cells, or a name of a column of codes is one. */
export function hasCells(sample: Sample): boolean {
  const { maxLength, whole } = sample;
  const lines = firstLines(sample);
  const { delimiter, cutting, line } = findDelimiter(lines, maxLength);
  if (cutting >= SOME_CUT) return true;
  const [first] = firstRecords(lines.slice(line), delimiter, maxLength, whole);
  const cells = first?.cells ?? [];
  return cells.length > 1 && cells.some((cell) => nameRank(cell) !== null);
}

/**
 * Share of the first records that a separator must split for them to be CSV. Low, because a table
 * read as lines would have every line checked as a code; the opposite mistake is noticed at once.
 */
const SOME_CUT = 0.5;

function firstLines({ text, whole, maxLength }: Sample): Line[] {
  return lineSplitter(maxLength)(text, whole);
}

/**
 * The delimiter: named in Excel's first line `sep=;`, whose number is `line`, or the one that splits most
 * evenly. `cutting` is the share of the first records that it splits into several cells.
 */
function findDelimiter(lines: readonly Line[], maxLength: number) {
  const [first] = lines;
  const named = /^"?sep=([^\w\s"]|\t)"?$/i.exec(first?.text ?? '')?.[1];
  if (named !== undefined && first !== undefined) {
    const reason = `Cells are separated by ${nameOf(named)}, as the first line says.`;
    return { delimiter: named, cutting: 1, line: first.number, reason };
  }
  const plain = lines.map((line) => ({ ...line, text: line.text.replaceAll(SHORTENED, 'number') }));
  const best = Object.keys(DELIMITERS)
    .map((delimiter) => fitOf(plain, delimiter, maxLength))
    .reduce((a, b) => (isBetter(b, a) ? b : a));
  if (best.cells < 2) {
    const reason = 'There is one cell a line: no separator was found.';
    const hasCommas = lines.some(({ text }) => text.search(SHORTENED) >= 0);
    return { delimiter: hasCommas ? ';' : ',', cutting: 0, line: 0, reason };
  }
  const { delimiter, cutting, agreement, records, cells } = best;
  const agreeing = Math.round(agreement * records);
  const share = `${agreeing} of the first ${records} records have ${cells} cells`;
  const reason = `Cells are separated by ${nameOf(delimiter)}: ${share}.`;
  return { delimiter, cutting, line: 0, reason };
}

function nameOf(delimiter: string): string {
  return DELIMITERS[delimiter] ?? `the character ${delimiter}`;
}

type Fit = ReturnType<typeof fitOf>;

function fitOf(lines: readonly Line[], delimiter: string, maxLength: number) {
  const lengths = firstRecords(lines, delimiter, maxLength, false).map(({ cells }) => cells.length);
  const records = lengths.length;
  const [first = 0] = lengths;
  const cutsFirst = first > 1;
  // The first record is usually a header, which has all cells.
  const cells = cutsFirst ? first : mostFrequent(lengths);
  const agreement = lengths.filter((length) => length === cells).length / records;
  const cutting = lengths.filter((length) => length > 1).length / records;
  return { delimiter, records, cells, cutsFirst, agreement, cutting };
}

function isBetter(fit: Fit, than: Fit): boolean {
  if (fit.cells < 2 || than.cells < 2) return fit.cells >= 2 && than.cells < 2;
  if (fit.cutsFirst !== than.cutsFirst) return fit.cutsFirst;
  return fit.agreement === than.agreement ? fit.cells > than.cells : fit.agreement > than.agreement;
}

/** The most frequent number; the largest if there are several. */
function mostFrequent(numbers: readonly number[]): number {
  const counts = new Map<number, number>();
  for (const n of numbers) counts.set(n, (counts.get(n) ?? 0) + 1);
  const [best] = [...counts].sort(([a, timesA], [b, timesB]) => timesB - timesA || b - a);
  return best?.[0] ?? 0;
}

/** The first records that are not empty. @param whole no lines follow these */
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
  // A record that is open at the end is cut off, and used only when there is hardly another.
  if (whole || records.length <= 1) for (const record of join([], true)) records.push(record);
  const cells = cellsOf(records, delimiter);
  return records
    .map((record, index) => ({ ...record, cells: cells[index] ?? [] }))
    .filter((record) => !isEmpty(record.cells));
}

/** True for empty records, also `;;;`, which spreadsheets write for emptied rows. */
export function isEmpty(cells: Cells): boolean {
  return cells.every((cell) => cell.trim() === '');
}

/** Why the first record names the columns, as a sentence; null when it doesn't. */
function findHeader(records: readonly Cells[], column: string | undefined): string | null {
  const [first = [], ...others] = records;
  const wanted = column?.trim().toLowerCase();
  const isWanted = (cell: string): boolean =>
    cell.trim().toLowerCase() === wanted && kindOf(cell) === 'text';
  if (first.some(isWanted)) return 'The first line is a header: it names the column asked for.';
  if (first.some((cell) => nameRank(cell) !== null)) {
    return 'The first line is a header: it names a column of codes.';
  }
  return areNames(first) && first.some((_, index) => holdsCodes(others, index))
    ? 'The first line is a header: it holds a word where the others hold codes.'
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

/** True when most values are codes. Numbers or dates prove nothing: a wrong header would lose a code. */
function holdsCodes(records: readonly Cells[], index: number): boolean {
  const kinds = records.map((cells) => kindOf(cells[index] ?? '')).filter((k) => k !== 'empty');
  return kinds.length > 0 && kinds.filter((kind) => kind === 'code').length * 2 > kinds.length;
}
