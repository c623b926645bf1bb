import { unguarded } from '../domain/csv-cell.js';
import { chooseColumn } from './choose-column.js';
import { uniqueNames } from './column-names.js';
import { cellsOf } from './csv-cells.js';
import {
  findDelimiter,
  findHeader,
  firstLines,
  firstRecords,
  isEmpty,
  mostFrequent,
} from './csv-layout.js';
import { RecordJoiner, type CsvRecord } from './csv-records.js';
import { IntakeError } from './error.js';
import { LineSplitter, type Line } from './lines.js';
import { rowOf, type Plan, type RowReader, type Sample } from './row.js';
import type { IntakeRow } from './types.js';

/**
 * A plan for a CSV file.
 * @throws IntakeError when there is nothing in it, or no telling where the codes are
 */
export function planCsv(sample: Sample): Plan {
  const { whole, column, most } = sample;
  const lines = firstLines(sample);
  const { delimiter, line: named, reason } = findDelimiter(lines, most);
  const records = firstRecords(lines.slice(named), delimiter, most, whole);
  const cells = records.map((record) => record.cells.map(unguarded));
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
  };
  const choice = chooseColumn(table, column);
  return {
    delimiter,
    header: header !== null,
    columns,
    codeColumn: choice.index,
    reasons: [
      reason,
      header ?? 'The first line is no header: it looks like the others.',
      choice.reason,
    ],
    reader: new CsvReader({
      delimiter,
      most,
      width,
      codeColumn: choice.index,
      skipped: header === null ? named : (records[0]?.lastLine ?? 0),
    }),
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
  readonly most: number;
  /** Cells of a record. */
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
  #short = 0;
  blankLines = 0;

  constructor(shape: CsvShape) {
    this.#shape = shape;
    this.#splitter = new LineSplitter(shape.most);
    this.#joiner = new RecordJoiner(shape.delimiter, shape.most);
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
    // Cells stay beside their records: a copy of a record by spread is old to the garbage collector
    // from its birth, and keeps everything it refers to until the next collection of old objects.
    for (const [index, record] of records.entries()) {
      if (record.line <= this.#shape.skipped) continue;
      const row = this.#row(record, cells[index] ?? []);
      if (row !== null) rows.push(row);
    }
    return rows;
  }

  /** Null where there is nothing in it. */
  #row(record: CsvRecord, cells: readonly string[]): IntakeRow | null {
    if (isEmpty(cells) && record.kind !== 'too long') {
      this.blankLines++;
      return null;
    }
    if (record.kind === 'literal') {
      this.#strayQuotes++;
      this.#firstStray ||= record.line;
    }
    const { codeColumn } = this.#shape;
    return this.#filled(record, cells.map(unguarded), withoutGuard(cells[codeColumn] ?? ''));
  }

  #filled(record: CsvRecord, cells: readonly string[], code: string): IntakeRow {
    const { width, codeColumn, delimiter, most } = this.#shape;
    const { line } = record;
    if (record.kind === 'too long') {
      const rejected = `is longer than the ${most} characters a record may have`;
      return { line, rejected, columns: fitted(cells, width, delimiter) };
    }
    if (cells.length > width && !isEmpty(cells.slice(width))) {
      // A separator too many may have moved the code to another column.
      const rejected = `has ${cells.length} cells instead of ${width}${extent(record)}`;
      return { line, rejected, columns: fitted(cells, width, delimiter) };
    }
    if (cells.length <= codeColumn) {
      const rejected = `ends before the column of codes${extent(record)}`;
      return { line, rejected, columns: fitted(cells, width, delimiter) };
    }
    if (cells.length < width) this.#short++;
    return rowOf(line, code, fitted(cells, width, delimiter));
  }
}

/** An apostrophe that has another at the end is a quote, which reading the code takes off with it. */
function withoutGuard(cell: string): string {
  return /'\s*$/.test(cell) ? cell : unguarded(cell);
}

/** So many cells: empty ones added, those too many put into the last, so that nothing is lost. */
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
