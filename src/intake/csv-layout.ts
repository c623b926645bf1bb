import { cellsOf } from './csv-cells.js';
import { RecordJoiner, type CsvRecord } from './csv-records.js';
import { nameRank, plainName } from './column-names.js';
import { LineSplitter, type Line } from './lines.js';
import type { Sample } from './row.js';
import { kindOf } from './value-kind.js';

/** Records looked at. */
const MOST_RECORDS = 1000;

/** In this order where they serve equally well: commas stand in texts and numbers most often. */
const DELIMITERS = ['\t', ';', '|', ','] as const;

const DELIMITER_NAMES: Readonly<Record<string, string>> = {
  '\t': 'tabs',
  ';': 'semicolons',
  '|': 'vertical bars',
  ',': 'commas',
};

export interface DelimiterFound {
  readonly delimiter: string;
  /** Share of the first records that it cuts into several cells. */
  readonly cutting: number;
  /** The line `sep=` that names it; 0 without one. */
  readonly line: number;
  readonly reason: string;
}

/** The lines at the beginning that are there completely. */
export function firstLines({ text, whole, most }: Sample): Line[] {
  const splitter = new LineSplitter(most);
  const lines = splitter.push(text);
  return whole ? [...lines, ...splitter.end()] : lines;
}

/** What separates the cells: named in Excel's first line `sep=;`, or what cuts most evenly. */
export function findDelimiter(lines: readonly Line[], most: number): DelimiterFound {
  const [first] = lines;
  const named = /^"?sep=([^\w\s"]|\t)"?$/i.exec(first?.text ?? '')?.[1];
  if (named !== undefined && first !== undefined) {
    const reason = `Cells are separated by ${nameOf(named)}, as the first line says.`;
    return { delimiter: named, cutting: 1, line: first.number, reason };
  }
  const fits = DELIMITERS.map((delimiter) => fitOf(lines, delimiter, most));
  const best = fits.reduce((a, b) => (isBetter(b, a) ? b : a));
  if (best.cells < 2) {
    const reason = 'There is one cell a line: no separator was found.';
    return { delimiter: ',', cutting: 0, line: 0, reason };
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
  /** Cells of the first record, most often a header; the usual number where that is no table yet. */
  readonly cells: number;
  /** The first record has several. */
  readonly cutsFirst: boolean;
  /** Share of the records that have `cells`. */
  readonly agreement: number;
  /** Share of the records that have several. */
  readonly cutting: number;
}

function fitOf(lines: readonly Line[], delimiter: string, most: number): Fit {
  const lengths = firstRecords(lines, delimiter, most, false).map(({ cells }) => cells.length);
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

/** The most frequent number, the largest of several. */
export function mostFrequent(numbers: readonly number[]): number {
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
export interface CellRecord extends CsvRecord {
  readonly cells: readonly string[];
}

/**
 * The first records that have something in them.
 * @param whole there are no lines after these
 */
export function firstRecords(
  lines: readonly Line[],
  delimiter: string,
  most: number,
  whole: boolean,
): CellRecord[] {
  const joiner = new RecordJoiner(delimiter, most);
  const records: CsvRecord[] = [];
  for (const line of lines) {
    if (records.length >= MOST_RECORDS) break;
    records.push(...joiner.push(line));
  }
  // What still waits at the end is cut off, and no good guide unless there is nothing else.
  if (whole || records.length <= 1) records.push(...joiner.end());
  const cells = cellsOf(records, delimiter);
  return records
    .map((record, index) => ({ ...record, cells: cells[index] ?? [] }))
    .filter((record) => !isEmpty(record.cells));
}

/** Nothing in it, such as the `;;;` that spreadsheets leave of emptied rows. */
export function isEmpty(cells: readonly string[]): boolean {
  return cells.every((cell) => cell.trim() === '');
}

/** Why the first record names the columns, as a sentence; null when it doesn't. */
export function findHeader(
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
  const named = first.filter((cell) => kindOf(cell) !== 'empty');
  const areNames = named.length > 0 && named.every((cell) => isName(cell));
  const differ = new Set(named.map((cell) => plainName(cell))).size === named.length;
  const unlike = first.some((_, index) => holdsCodes(others, index));
  return areNames && differ && unlike
    ? 'The first line is a header: it holds a word where the others hold codes.'
    : null;
}

function isName(cell: string): boolean {
  return kindOf(cell) === 'text' && cell.trim().length <= 64 && !/[\r\n]/.test(cell.trim());
}

/** Numbers or dates below a word prove nothing: a header that is none would cost a code. */
function holdsCodes(records: readonly (readonly string[])[], index: number): boolean {
  const kinds = records.map((cells) => kindOf(cells[index] ?? '')).filter((k) => k !== 'empty');
  return kinds.length > 0 && kinds.filter((kind) => kind === 'code').length * 2 > kinds.length;
}

function nameOf(delimiter: string): string {
  return DELIMITER_NAMES[delimiter] ?? `the character ${delimiter}`;
}
