import {
  cut,
  pad,
  paint,
  safeLine,
  safeLines,
  width,
  wrap,
  type Look,
  type Style,
} from './text.js';

export type TableCell = string | number | bigint | boolean | null | undefined;

export interface TableColumn<Row> {
  readonly header: string;
  readonly value: (row: Row) => TableCell;
  /** Default: right when every value is a number, else left. */
  readonly align?: 'left' | 'right';
  readonly style?: (row: Row) => Style | null;
  /** For sentences, such as problems: on a terminal they are on a line of their own below the row. */
  readonly isNote?: boolean;
}

const GAP = '  ';
/** A table's texts are not cut below this width. */
const LEAST = 16;
/** Characters shown of a value in a record, unless it is shown whole. */
export const RECORD_CHARACTERS = 400;

export interface TableOptions {
  /** True: as records, false: as a table; by default as records on a terminal that a table does not fit. */
  readonly vertical?: boolean | undefined;
  /** Number of the first row, where there were others before. Default 1. */
  readonly first?: number;
  /** Long values are not cut in records. */
  readonly isWhole?: boolean;
}

/**
 * Formats rows as a table, or as records one below the other. To fit a terminal, a table breaks headers
 * and cuts the longest texts; in pipes and files nothing is cut. Cells may hold any text: it is made
 * safe here.
 */
export function table<Row>(
  rows: readonly Row[],
  columns: readonly TableColumn<Row>[],
  look: Look,
  options: TableOptions = {},
): string {
  return (options.vertical ?? !fits(rows, columns, look))
    ? records(rows, columns, look, options)
    : aligned(rows, columns, look);
}

/** Whether a table of the rows fits the terminal; always true for pipes and files. */
export function fits<Row>(
  rows: readonly Row[],
  all: readonly TableColumn<Row>[],
  look: Look,
): boolean {
  if (look.columns === null || rows.length === 0) return true;
  const { widths } = layoutOf(rows, all, look);
  return total(widths) <= look.columns;
}

function aligned<Row>(rows: readonly Row[], all: readonly TableColumn<Row>[], look: Look): string {
  const { columns, cells, headers, aligns, widths } = layoutOf(rows, all, look);
  const notes = look.columns === null ? [] : all.filter(({ isNote }) => isNote === true);
  const line = (texts: readonly string[], style: (index: number) => Style | null): string =>
    layOut(texts, widths, aligns, style, look);
  const depth = headers.reduce((most, parts) => Math.max(most, parts.length), 1);
  const heads = Array.from({ length: depth }, (_, n) =>
    // Short headers are at the bottom, next to their column.
    line(
      headers.map((parts) => parts[n - depth + parts.length] ?? ''),
      () => 'bold',
    ),
  );
  const body = cells.map((texts, index) => {
    const row = rows[index] as Row;
    const noted = notes.map((column) => cellText(column.value(row), look)).filter(Boolean);
    return [
      line(texts, (n) => columns[n]?.style?.(row) ?? null),
      ...noted.map((note) => `${wrap(`  ${note}`, look.columns ?? Infinity)}\n`),
    ].join('');
  });
  return [...heads, ...body].join('');
}

function records<Row>(
  rows: readonly Row[],
  columns: readonly TableColumn<Row>[],
  look: Look,
  { first = 1, isWhole = false }: TableOptions,
): string {
  const most = isWhole ? Infinity : RECORD_CHARACTERS;
  return rows
    .map((row, n) => {
      const fields = columns
        .map(({ header, value }) => [header, fieldText(value(row), most)] as const)
        .filter(([, text], index) => columns[index]?.isNote !== true || text !== '');
      return `${paint('dim', `── ${first + n} ──`, look)}\n${pairs(fields, look)}`;
    })
    .join('');
}

function fieldText(value: TableCell, most: number): string {
  const text = value === null || value === undefined ? '' : String(value);
  return text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text;
}

/**
 * Formats names and values in two columns without headers. On a terminal, long values wrap below their
 * beginning.
 * @param margin before each line
 */
export function pairs(
  lines: readonly (readonly [string, TableCell])[],
  look: Look,
  margin = '',
): string {
  const names = lines.map(([name]) => margin + safeLine(name));
  const label = widest(names);
  const room = Math.max(LEAST, (look.columns ?? Infinity) - label - GAP.length);
  const indent = ' '.repeat(label) + GAP;
  return lines
    .map(([, value], index) => {
      const name = paint('dim', pad(names[index] ?? '', label, 'left'), look);
      const text = value === null || value === undefined ? '' : String(value);
      const shown = room === Infinity ? safeLine(text) : wrap(safeLines(text), room, 0);
      return `${name}${GAP}${shown.replaceAll('\n', `\n${indent}`)}`.trimEnd() + '\n';
    })
    .join('');
}

/** The parts of a table. */
interface Layout<Row> {
  readonly columns: readonly TableColumn<Row>[];
  readonly cells: readonly (readonly string[])[];
  /** The parts of each header, one below the other. */
  readonly headers: readonly (readonly string[])[];
  readonly aligns: readonly ('left' | 'right')[];
  readonly widths: readonly number[];
}

function layoutOf<Row>(
  rows: readonly Row[],
  all: readonly TableColumn<Row>[],
  look: Look,
): Layout<Row> {
  const columns = look.columns === null ? all : all.filter(({ isNote }) => isNote !== true);
  const values = rows.map((row) => columns.map((column) => column.value(row)));
  const cells = values.map((line) => line.map((value) => cellText(value, look)));
  const numeric = columns.map((_, index) => isNumeric(values.map((line) => line[index])));
  const aligns = columns.map(
    (column, index) => column.align ?? (numeric[index] === true ? 'right' : 'left'),
  );
  const ofCells = columns.map((_, index) => widest(cells.map((line) => line[index] ?? '')));
  const whole = columns.map(({ header }) => [safeLine(header)]);
  const widthsOf = (headers: readonly (readonly string[])[]): number[] =>
    ofCells.map((cell, index) => Math.max(cell, widest(headers[index] ?? [])));
  const natural = widthsOf(whole);
  if (look.columns === null || total(natural) <= look.columns) {
    return { columns, cells, headers: whole, aligns, widths: natural };
  }
  const headers = whole.map(([text = ''], index) => broken(text, ofCells[index] ?? 0));
  // A number that is cut would be another number.
  const least = ofCells.map((cell, index) => {
    const text = numeric[index] === true ? cell : Math.min(cell, LEAST);
    return Math.max(text, widest(headers[index] ?? []));
  });
  const widths = fit(widthsOf(headers), least, look.columns);
  return { columns, cells, headers, aligns, widths };
}

/** Breaks a header that is wider than its cells, after underscores and blanks. */
function broken(header: string, cell: number): string[] {
  const parts: string[] = [];
  for (const word of header.split(/(?<=_)|\s+/)) {
    const last = parts.at(-1);
    if (last !== undefined && width(last + word) <= cell) parts[parts.length - 1] = last + word;
    else parts.push(word);
  }
  return parts;
}

function widest(texts: readonly string[]): number {
  return texts.reduce((most, text) => Math.max(most, width(text)), 0);
}

function total(widths: readonly number[]): number {
  return widths.reduce((sum, one) => sum + one, GAP.length * (widths.length - 1));
}

/** Makes a cell safe. For a terminal, reads no more than could be shown: descriptions may be megabytes. */
function cellText(value: TableCell, look: Look): string {
  if (value === null || value === undefined) return '';
  const text = String(value);
  const most = look.columns === null ? Infinity : look.columns * 32;
  return safeLine(text.length > most ? `${text.slice(0, most)}…` : text);
}

function isNumeric(values: readonly TableCell[]): boolean {
  const given = values.filter((value) => value !== null && value !== undefined);
  return (
    given.length > 0 &&
    given.every((value) => typeof value === 'number' || typeof value === 'bigint')
  );
}

/** Narrows the widest column that is above its least width, until the table fits. */
function fit(
  widths: readonly number[],
  least: readonly number[],
  columns: number,
): readonly number[] {
  const out = [...widths];
  for (let over = total(out) - columns; over > 0; over--) {
    let most = -1;
    for (const [index, one] of out.entries()) {
      if (one > (least[index] ?? 0) && one > (out[most] ?? 0)) most = index;
    }
    if (most === -1) break;
    out[most] = (out[most] ?? 0) - 1;
  }
  return out;
}

function layOut(
  texts: readonly string[],
  widths: readonly number[],
  aligns: readonly ('left' | 'right')[],
  style: (index: number) => Style | null,
  look: Look,
): string {
  let room = look.columns ?? Infinity;
  const parts: string[] = [];
  for (const [index, text] of texts.entries()) {
    if (room <= 0) break;
    const columns = Math.min(widths[index] ?? 0, room);
    const fitting = look.columns === null ? text : cut(text, columns);
    const padded = pad(fitting, columns, aligns[index] ?? 'left');
    const last = index === texts.length - 1;
    const painted = style(index);
    const visible = last ? padded.trimEnd() : padded;
    parts.push(painted === null ? visible : paint(painted, visible, look));
    room -= columns + GAP.length;
  }
  return `${parts.join(GAP).trimEnd()}\n`;
}
