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

export interface TableForm {
  /** True: as records, false: as a table; by default as records on a terminal that a table does not fit. */
  readonly vertical?: boolean | undefined;
  /** Number of the first row, where there were others before. Default 1. */
  readonly first?: number;
  /** Long values are not cut in records. */
  readonly isWhole?: boolean;
}

/**
 * Formats rows as a table, or as records. To fit a terminal, a table breaks headers and cuts the longest
 * texts; in pipes and files nothing is cut. Any text in cells is made safe here.
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

/** Whether a table of the rows fits the terminal; always true for pipes and files. */
export function fits<Row>(
  rows: readonly Row[],
  all: readonly TableColumn<Row>[],
  look: Look,
): boolean {
  if (look.columns === null || rows.length === 0) return true;
  const widths = layoutOf(rows, all, look).map(({ width: one }) => one);
  return total(widths) <= look.columns;
}

function aligned<Row>(rows: readonly Row[], all: readonly TableColumn<Row>[], look: Look): string {
  const layout = layoutOf(rows, all, look);
  const notes = look.columns === null ? [] : all.filter(({ isNote }) => isNote === true);
  const depth = layout.reduce((most, { header }) => Math.max(most, header.length), 1);
  const lines: string[] = [];
  for (let n = 0; n < depth; n++) {
    // Short headers are at the bottom, next to their column.
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

/** Names and values in two columns; long values wrap on a terminal. @param margin before each line */
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

/** Titles, each with its lines below; a title without lines is left out. The lines must be safe already. */
export function sections(parts: Readonly<Record<string, readonly string[]>>, look: Look): string {
  return Object.entries(parts)
    .filter(([, lines]) => lines.length > 0)
    .map(([title, lines]) => `${[paint('bold', title, look), ...lines].join('\n  ')}\n`)
    .join('');
}

/** The column of sellers; none on a terminal when all rows are of one, to save room. */
export function sellerColumn<Row extends { readonly sellerId: string }>(
  rows: readonly Row[],
  look: Look,
): TableColumn<Row>[] {
  const isOfOne = look.columns !== null && new Set(rows.map((row) => row.sellerId)).size === 1;
  return isOfOne ? [] : [{ header: 'seller', value: (row) => row.sellerId }];
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
    const cells = values.map((one) => cellText(one, look));
    const side = align ?? (isNumber ? ('right' as const) : ('left' as const));
    return { style, cells, isNumber, align: side, widest: widest(cells), title: safeLine(header) };
  });
  const natural = columns.map((one) => Math.max(one.widest, width(one.title)));
  if (look.columns === null || total(natural) <= look.columns) {
    return columns.map((one, n) => ({ ...one, header: [one.title], width: natural[n] ?? 0 }));
  }
  const headers = columns.map((one) => broken(one.title, one.widest));
  const broadest = columns.map((one, n) => Math.max(one.widest, widest(headers[n] ?? [])));
  // A number that is cut would be another number.
  const least = columns.map((one, n) =>
    Math.max(one.isNumber ? one.widest : Math.min(one.widest, LEAST), widest(headers[n] ?? [])),
  );
  const widths = fit(broadest, least, look.columns);
  return columns.map((one, n) => ({ ...one, header: headers[n] ?? [], width: widths[n] ?? 0 }));
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
  return given.length > 0 && given.every((value) => /^(?:number|bigint)$/.test(typeof value));
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
