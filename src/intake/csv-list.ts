import { unguarded, uniqueNames } from '../domain/csv.js';
import { chooseColumn, kindOf, nameRank, plainName } from './columns.js';
import { cellsOf, RecordJoiner, type CsvRecord } from './csv-records.js';
import { IntakeError } from './types.js';
import type { IntakeRow, Plan, RowReader, Sample } from './types.js';
import { LineSplitter, type Line } from './text-list.js';

/**
 * A plan for a CSV file.
 * @throws IntakeError when it is empty, or the column of codes is not clear
 */
export function planCsv(sample: Sample): Plan {
  const { whole, column, maxLength, mask } = sample;
  const lines = firstLines(sample);
  const { delimiter, line: named, reason } = findDelimiter(lines, maxLength);
  const records = firstRecords(lines.slice(named), delimiter, maxLength, whole);
  const cells = records.map((record) => record.cells.map((cell) => mask(unguarded(cell))));
  const header = findHeader(cells, column);
  const [first = []] = cells;
  const rows = header === null ? cells : cells.slice(1);
  if (rows.length === 0 && whole) throw nothingIn(header !== null);
  const width = header === null ? mostFrequent(cells.map(({ length }) => length)) : first.length;
  const names = header === null ? blank(width) : first;
  const columns = uniqueNames(names.map((name) => name.trim()));
  const table = {
    columns: header === null ? columns : names,
    named: header !== null,
    records: rows,
    ...(areNames(first) ? { likelyNames: first } : {}),
  };
  const choice = chooseColumn(table, column);
  const skipped = header === null ? named : (records[0]?.lastLine ?? 0);
  const shape = { delimiter, maxLength, width, codeColumn: choice.index, skipped };
  return {
    delimiter,
    header: header !== null,
    columns,
    codeColumn: choice.index,
    reasons: [
      reason,
      header ?? 'The first line is not a header: it looks like the others.',
      choice.reason,
    ],
    newReader: () => new CsvReader(shape),
  };
}

function nothingIn(header: boolean): IntakeError {
  return new IntakeError(
    header ? 'the list has a header and nothing else' : 'the list is empty',
    'Check that the right file was exported.',
  );
}

interface CsvShape {
  readonly delimiter: string;
  readonly maxLength: number;
  /** Number of cells of a record. */
  readonly width: number;
  readonly codeColumn: number;
  /** The last line before the first row. */
  readonly skipped: number;
}

class CsvReader implements RowReader {
  readonly #shape: CsvShape;
  readonly #splitter: LineSplitter;
  readonly #joiner: RecordJoiner;
  #strayQuotes = 0;
  #firstStray = 0;
  #unclosed = 0;
  #firstUnclosed = 0;
  #short = 0;
  blankLines = 0;

  constructor(shape: CsvShape) {
    this.#shape = shape;
    this.#splitter = new LineSplitter(shape.maxLength);
    this.#joiner = new RecordJoiner(shape.delimiter, shape.maxLength);
  }

  push(piece: string): IntakeRow[] {
    return this.#rows(this.#splitter.push(piece));
  }

  end(): IntakeRow[] {
    const rows = this.#rows(this.#splitter.end());
    return [...rows, ...this.#rowsOf(this.#joiner.end())];
  }

  notes(): readonly string[] {
    const notes: string[] = [];
    if (this.#unclosed > 0) notes.push(unclosedNote(this.#unclosed, this.#firstUnclosed));
    if (this.#strayQuotes > 0) {
      notes.push(
        `Quotes make no sense in ${this.#strayQuotes} of the lines (first in line ${this.#firstStray}): they are taken as characters.`,
      );
    }
    if (this.#short > 0) {
      notes.push(`${this.#short} of the records have fewer cells than others: the last are empty.`);
    }
    return notes;
  }

  #rows(lines: readonly Line[]): IntakeRow[] {
    const records: CsvRecord[] = [];
    for (const line of lines) {
      for (const record of this.#joiner.push(line)) records.push(record);
    }
    return this.#rowsOf(records);
  }

  #rowsOf(records: readonly CsvRecord[]): IntakeRow[] {
    const rows: IntakeRow[] = [];
    const cells = cellsOf(records, this.#shape.delimiter);
    // Records are not copied to add their cells: V8 puts copies made by spread among the old objects,
    // where they keep what they refer to until the next full garbage collection.
    for (const [index, record] of records.entries()) {
      if (record.line <= this.#shape.skipped) continue;
      const row = this.#row(record, cells[index] ?? []);
      if (row !== null) rows.push(row);
    }
    return rows;
  }

  /** Null for an empty record. */
  #row(record: CsvRecord, cells: readonly string[]): IntakeRow | null {
    if (isEmpty(cells) && record.kind !== 'too long') {
      this.blankLines++;
      return null;
    }
    if (record.kind === 'literal') {
      this.#strayQuotes++;
      this.#firstStray ||= record.line;
    }
    if (record.kind === 'unclosed') {
      this.#unclosed++;
      this.#firstUnclosed ||= record.line;
    }
    const { codeColumn } = this.#shape;
    return this.#filled(record, cells.map(unguarded), withoutGuard(cells[codeColumn] ?? ''));
  }

  #filled(record: CsvRecord, cells: readonly string[], code: string): IntakeRow {
    const { width, codeColumn, delimiter, maxLength } = this.#shape;
    const { line } = record;
    if (record.kind === 'too long') {
      const rejected = `is longer than the ${maxLength} characters a record may have`;
      return { line, rejected, columns: fitted(cells, width, delimiter) };
    }
    if (cells.length > width && !isEmpty(cells.slice(width))) {
      // An extra separator may have moved the code to another column.
      const rejected = `has ${cells.length} cells instead of ${width}${extent(record)}`;
      return { line, rejected, columns: fitted(cells, width, delimiter) };
    }
    if (cells.length <= codeColumn) {
      const rejected = `ends before the column of codes${extent(record)}`;
      return { line, rejected, columns: fitted(cells, width, delimiter) };
    }
    if (cells.length < width) this.#short++;
    return { line, text: code, columns: fitted(cells, width, delimiter) };
  }
}

function unclosedNote(quotes: number, line: number): string {
  return quotes === 1
    ? `The quote that opens in line ${line} is never closed: it counts as a character, and each line stands for itself.`
    : `${quotes} quotes are never closed, the first opens in line ${line}: they count as characters, and each line stands for itself.`;
}

/** Removes a guarding apostrophe, unless there is another at the end: `readCode` removes such quotes. */
function withoutGuard(cell: string): string {
  return /'\s*$/.test(cell) ? cell : unguarded(cell);
}

/** Exactly `width` cells: adds empty ones, or joins the surplus into the last, so that nothing is lost. */
function fitted(cells: readonly string[], width: number, delimiter: string): readonly string[] {
  if (cells.length === width) return cells;
  if (cells.length < width) {
    return [...cells, ...blank(width - cells.length)];
  }
  const over = cells.slice(width);
  const last = isEmpty(over) ? cells[width - 1] : cells.slice(width - 1).join(delimiter);
  return [...cells.slice(0, width - 1), last ?? ''];
}

function blank(cells: number): string[] {
  return Array.from({ length: cells }, () => '');
}

function extent({ line, lastLine }: CsvRecord): string {
  return lastLine > line ? ` and reaches to line ${lastLine}: is a quote left open?` : '';
}

/** Records at the beginning from which the delimiter and the header are found. */
const MAX_SAMPLE_RECORDS = 1000;

/** In order of preference when they fit equally well: commas are the most frequent in texts and numbers. */
const DELIMITERS = ['\t', ';', '|', ','] as const;

const DELIMITER_NAMES: Readonly<Record<string, string>> = {
  '\t': 'tabs',
  ';': 'semicolons',
  '|': 'vertical bars',
  ',': 'commas',
};

/** Numbers that Excel has shortened with a decimal comma, which is not a separator. */
const SHORTENED = /(?<![\d.,])\d,\d{1,14}E\+\d{2,3}(?!\d)/gi;

interface DelimiterFound {
  readonly delimiter: string;
  /** Share of the first records that it splits into several cells. */
  readonly cutting: number;
  /** Number of the line `sep=` that names it; 0 without one. */
  readonly line: number;
  readonly reason: string;
}

/** The complete lines of the sample. */
export function firstLines({ text, whole, maxLength }: Sample): Line[] {
  const splitter = new LineSplitter(maxLength);
  const lines = splitter.push(text);
  return whole ? [...lines, ...splitter.end()] : lines;
}

/** Finds the delimiter: named in Excel's first line `sep=;`, or the one that splits most evenly. */
export function findDelimiter(lines: readonly Line[], maxLength: number): DelimiterFound {
  const [first] = lines;
  const named = /^"?sep=([^\w\s"]|\t)"?$/i.exec(first?.text ?? '')?.[1];
  if (named !== undefined && first !== undefined) {
    const reason = `Cells are separated by ${nameOf(named)}, as the first line says.`;
    return { delimiter: named, cutting: 1, line: first.number, reason };
  }
  const plain = lines.map((line) => ({ ...line, text: line.text.replaceAll(SHORTENED, 'number') }));
  const fits = DELIMITERS.map((delimiter) => fitOf(plain, delimiter, maxLength));
  const best = fits.reduce((a, b) => (isBetter(b, a) ? b : a));
  if (best.cells < 2) {
    const reason = 'There is one cell a line: no separator was found.';
    const hasCommas = lines.some(({ text }) => text.search(SHORTENED) >= 0);
    return { delimiter: hasCommas ? ';' : ',', cutting: 0, line: 0, reason };
  }
  const agreeing = Math.round(best.agreement * best.records);
  const share = `${agreeing} of the first ${best.records} records have ${best.cells} cells`;
  return {
    delimiter: best.delimiter,
    cutting: best.cutting,
    line: 0,
    reason: `Cells are separated by ${nameOf(best.delimiter)}: ${share}.`,
  };
}

interface Fit {
  readonly delimiter: string;
  readonly records: number;
  /** Cells of the first record, which is usually a header; if that has one, the most frequent number. */
  readonly cells: number;
  /** The first record has several. */
  readonly cutsFirst: boolean;
  /** Share of the records that have `cells`. */
  readonly agreement: number;
  /** Share of the records that have several. */
  readonly cutting: number;
}

function fitOf(lines: readonly Line[], delimiter: string, maxLength: number): Fit {
  const lengths = firstRecords(lines, delimiter, maxLength, false).map(({ cells }) => cells.length);
  const [first = 0] = lengths;
  const cutsFirst = first > 1;
  const cells = cutsFirst ? first : mostFrequent(lengths);
  const share = (fits: (length: number) => boolean): number =>
    lengths.filter(fits).length / lengths.length;
  return {
    delimiter,
    records: lengths.length,
    cells,
    cutsFirst,
    agreement: share((length) => length === cells),
    cutting: share((length) => length > 1),
  };
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
  let best = 0;
  for (const [n, count] of counts) {
    const bestCount = counts.get(best) ?? 0;
    if (count > bestCount || (count === bestCount && n > best)) best = n;
  }
  return best;
}

/** A record with its cells. */
interface CellRecord extends CsvRecord {
  readonly cells: readonly string[];
}

/**
 * The first records that are not empty.
 * @param whole no lines follow these
 */
export function firstRecords(
  lines: readonly Line[],
  delimiter: string,
  maxLength: number,
  whole: boolean,
): CellRecord[] {
  const joiner = new RecordJoiner(delimiter, maxLength);
  const records: CsvRecord[] = [];
  for (const line of lines) {
    if (records.length >= MAX_SAMPLE_RECORDS) break;
    for (const record of joiner.push(line)) records.push(record);
  }
  // A record that is open at the end is cut off, and used only when there is hardly another.
  if (whole || records.length <= 1) for (const record of joiner.end()) records.push(record);
  const cells = cellsOf(records, delimiter);
  return records
    .map((record, index) => ({ ...record, cells: cells[index] ?? [] }))
    .filter((record) => !isEmpty(record.cells));
}

/** True for empty records, also `;;;`, which spreadsheets write for emptied rows. */
function isEmpty(cells: readonly string[]): boolean {
  return cells.every((cell) => cell.trim() === '');
}

/** Why the first record names the columns, as a sentence; null when it doesn't. */
function findHeader(
  records: readonly (readonly string[])[],
  column: string | number | undefined,
): string | null {
  const [first = [], ...others] = records;
  const wanted = typeof column === 'string' ? column.trim().toLowerCase() : null;
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

/** True when all cells are words and no word repeats. */
function areNames(cells: readonly string[]): boolean {
  const named = cells.filter((cell) => kindOf(cell) !== 'empty');
  const differ = new Set(named.map((cell) => plainName(cell))).size === named.length;
  return named.length > 0 && differ && named.every((cell) => isName(cell));
}

function isName(cell: string): boolean {
  return kindOf(cell) === 'text' && cell.trim().length <= 64 && !/[\r\n]/.test(cell.trim());
}

/** True when most values are codes. Numbers or dates prove nothing: a wrong header would lose a code. */
function holdsCodes(records: readonly (readonly string[])[], index: number): boolean {
  const kinds = records.map((cells) => kindOf(cells[index] ?? '')).filter((k) => k !== 'empty');
  return kinds.length > 0 && kinds.filter((kind) => kind === 'code').length * 2 > kinds.length;
}

function nameOf(delimiter: string): string {
  return DELIMITER_NAMES[delimiter] ?? `the character ${delimiter}`;
}
