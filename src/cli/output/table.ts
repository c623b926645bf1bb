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
  /** For sentences, such as problems. On a terminal they are on separate lines below the row. */
  readonly isNote?: boolean;
}

const GAP = '  ';
/** Columns of text are not narrowed below this width. */
const MIN_WIDTH = 16;
/** Maximum characters of a value in a record, unless `isWhole`. */
export const RECORD_CHARACTERS = 400;

export interface TableForm {
  /** True: records. False: a table. Default: records on a terminal that is too narrow for the table. */
  readonly vertical?: boolean | undefined;
  /** Number of the first record. Default 1. */
  readonly first?: number;
  /** Don't cut long values in records. */
  readonly isWhole?: boolean;
}

/**
 * Formats rows as a table or as records, and makes their text safe for terminals. To fit a terminal, a table
 * breaks headers and cuts the longest texts. In pipes and files nothing is cut.
 */
export function table<Row>(
  rows: readonly Row[],
  columns: readonly TableColumn<Row>[],
  look: Look,
  options: TableForm = {},
): string {
  return (options.vertical ?? !fits(rows, columns, look))
    ? records(rows, columns, look, options)
    : aligned(rows, columns, look);
}

/** True if a table of the rows fits the terminal. Always true for pipes and files. */
export function fits<Row>(
  rows: readonly Row[],
  all: readonly TableColumn<Row>[],
  look: Look,
): boolean {
  if (look.columns === null || rows.length === 0) return true;
  const widths = layoutOf(rows, all, look).map(({ width: one }) => one);
  return totalWidth(widths) <= look.columns;
}

function aligned<Row>(rows: readonly Row[], all: readonly TableColumn<Row>[], look: Look): string {
  const layout = layoutOf(rows, all, look);
  const notes = look.columns === null ? [] : all.filter(({ isNote }) => isNote === true);
  const depth = layout.reduce((most, { header }) => Math.max(most, header.length), 1);
  const lines: string[] = [];
  for (let n = 0; n < depth; n++) {
    // Headers of fewer lines are aligned at the bottom.
    const texts = layout.map(({ header }) => header[n - depth + header.length] ?? '');
    lines.push(lineOf(texts, layout, () => 'bold', look));
  }
  for (const [at, row] of rows.entries()) {
    const texts = layout.map(({ cells }) => cells[at] ?? '');
    lines.push(lineOf(texts, layout, ({ style }) => style?.(row) ?? null, look));
    for (const { value } of notes) {
      const note = cellText(value(row), look);
      if (note !== '') lines.push(`${wrap(`  ${note}`, look.columns ?? Infinity)}\n`);
    }
  }
  return lines.join('');
}

function records<Row>(
  rows: readonly Row[],
  columns: readonly TableColumn<Row>[],
  look: Look,
  { first = 1, isWhole = false }: TableForm,
): string {
  const most = isWhole ? Infinity : RECORD_CHARACTERS;
  return rows
    .map((row, n) => {
      const fields = columns.flatMap(({ header, value, isNote }) => {
        const text = fieldText(value(row), most);
        return isNote === true && text === '' ? [] : [[header, text] as const];
      });
      return `${paint('dim', `── ${first + n} ──`, look)}\n${pairs(fields, look)}`;
    })
    .join('');
}

function fieldText(value: TableCell, most: number): string {
  const text = String(value ?? '');
  return text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text;
}

/** Formats names and values in two columns. Long values wrap on a terminal. @param margin before each line */
export function pairs(
  lines: readonly (readonly [string, TableCell])[],
  look: Look,
  margin = '',
): string {
  const labelWidth = widest(lines.map(([name]) => margin + safeLine(name)));
  const room = Math.max(MIN_WIDTH, (look.columns ?? Infinity) - labelWidth - GAP.length);
  const indent = ' '.repeat(labelWidth) + GAP;
  return lines
    .map(([name, value]) => {
      const label = paint('dim', pad(margin + safeLine(name), labelWidth, 'left'), look);
      const text = String(value ?? '');
      const shown = room === Infinity ? safeLine(text) : wrap(safeLines(text), room, 0);
      return `${label}${GAP}${shown.replaceAll('\n', `\n${indent}`)}`.trimEnd() + '\n';
    })
    .join('');
}

/** Formats titles, each with its indented lines, without empty sections. The lines must be safe already. */
export function sections(parts: Readonly<Record<string, readonly string[]>>, look: Look): string {
  return Object.entries(parts)
    .filter(([, lines]) => lines.length > 0)
    .map(([title, lines]) => `${[paint('bold', title, look), ...lines].join('\n  ')}\n`)
    .join('');
}

interface ShownColumn<Row> {
  readonly style: TableColumn<Row>['style'];
  readonly cells: readonly string[];
  readonly header: readonly string[];
  readonly align: 'left' | 'right';
  readonly width: number;
}

function layoutOf<Row>(
  rows: readonly Row[],
  all: readonly TableColumn<Row>[],
  look: Look,
): ShownColumn<Row>[] {
  const shown = look.columns === null ? all : all.filter(({ isNote }) => isNote !== true);
  const columns = shown.map(({ header, value, align, style }) => {
    const values = rows.map(value);
    const isNumber = isNumeric(values);
    const cells = values.map((cell) => cellText(cell, look));
    const side = align ?? (isNumber ? ('right' as const) : ('left' as const));
    const title = safeLine(header);
    return { style, cells, isNumber, align: side, cellWidth: widest(cells), title };
  });
  const natural = columns.map(({ cellWidth, title }) => Math.max(cellWidth, width(title)));
  if (look.columns === null || totalWidth(natural) <= look.columns) {
    return columns.map((column, n) => ({
      ...column,
      header: [column.title],
      width: natural[n] ?? 0,
    }));
  }
  const broken = columns.map((column) => {
    const header = breakHeader(column.title, column.cellWidth);
    // Numbers are never cut: they would turn into other numbers.
    const { cellWidth, isNumber } = column;
    const minWidth = isNumber ? cellWidth : Math.min(cellWidth, MIN_WIDTH);
    return { ...column, header, minWidth: Math.max(minWidth, widest(header)) };
  });
  const widths = narrow(
    broken.map(({ cellWidth, header }) => Math.max(cellWidth, widest(header))),
    broken.map(({ minWidth }) => minWidth),
    look.columns,
  );
  return broken.map((column, n) => ({ ...column, width: widths[n] ?? 0 }));
}

/** Breaks a header that is wider than its cells, after underscores and blanks. */
function breakHeader(header: string, cellWidth: number): string[] {
  const parts: string[] = [];
  for (const word of header.split(/(?<=_)|\s+/)) {
    const joined = (parts.at(-1) ?? '') + word;
    if (parts.length > 0 && width(joined) <= cellWidth) parts[parts.length - 1] = joined;
    else parts.push(word);
  }
  return parts;
}

function widest(texts: readonly string[]): number {
  return texts.reduce((most, text) => Math.max(most, width(text)), 0);
}

function totalWidth(widths: readonly number[]): number {
  return widths.reduce((sum, one) => sum + one, GAP.length * (widths.length - 1));
}

/** Makes a cell safe. For a terminal, it cuts the text first: descriptions may be megabytes long. */
function cellText(value: TableCell, look: Look): string {
  const text = String(value ?? '');
  const most = look.columns === null ? Infinity : look.columns * 32;
  return safeLine(text.length > most ? `${text.slice(0, most)}…` : text);
}

function isNumeric(values: readonly TableCell[]): boolean {
  const given = values.filter((value) => value !== null && value !== undefined);
  return given.length > 0 && given.every((value) => /^(?:number|bigint)$/.test(typeof value));
}

/** Narrows the widest column above its minimum again and again, until the table fits. */
function narrow(
  widths: readonly number[],
  minimums: readonly number[],
  columns: number,
): readonly number[] {
  const out = [...widths];
  for (let excess = totalWidth(out) - columns; excess > 0; excess--) {
    let widestIndex = -1;
    for (const [index, one] of out.entries()) {
      if (one > (minimums[index] ?? 0) && one > (out[widestIndex] ?? 0)) widestIndex = index;
    }
    if (widestIndex === -1) break;
    out[widestIndex] = (out[widestIndex] ?? 0) - 1;
  }
  return out;
}

function lineOf<Row>(
  texts: readonly string[],
  layout: readonly ShownColumn<Row>[],
  styleOf: (column: ShownColumn<Row>) => Style | null,
  look: Look,
): string {
  let room = look.columns ?? Infinity;
  const parts: string[] = [];
  for (const [n, column] of layout.entries()) {
    if (room <= 0) break;
    const columns = Math.min(column.width, room);
    const text = texts[n] ?? '';
    const padded = pad(look.columns === null ? text : cut(text, columns), columns, column.align);
    const visible = n === layout.length - 1 ? padded.trimEnd() : padded;
    const style = styleOf(column);
    parts.push(style === null ? visible : paint(style, visible, look));
    room -= columns + GAP.length;
  }
  return `${parts.join(GAP).trimEnd()}\n`;
}
