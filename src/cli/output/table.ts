import { cut, pad, safeLine, width } from './text.js';
import { paint, type Look, type Style } from './terminal.js';

export type TableCell = string | number | bigint | boolean | null | undefined;

export interface TableColumn<Row> {
  readonly header: string;
  readonly value: (row: Row) => TableCell;
  /** Default: right when every value is a number, else left. */
  readonly align?: 'left' | 'right';
  readonly style?: (row: Row) => Style | null;
  /** Left out on a terminal when it is empty in all rows. */
  readonly isRare?: boolean;
}

const GAP = '  ';
/** Columns are not cut below this, unless the terminal is narrower still. */
const LEAST = 6;

/**
 * Rows as aligned text, each line with its end. On a terminal the longest columns are cut until
 * the lines fit; in pipes and files nothing is cut. Cells may hold any text: it is made safe here.
 */
export function table<Row>(
  rows: readonly Row[],
  all: readonly TableColumn<Row>[],
  look: Look,
): string {
  const columns = look.columns === null ? all : all.filter((column) => isWanted(column, rows));
  const values = rows.map((row) => columns.map((column) => column.value(row)));
  const cells = values.map((line) => line.map((value) => cellText(value, look)));
  const headers = columns.map((column) => safeLine(column.header));
  const widths = columns.map((_, index) =>
    cells.reduce(
      (most, line) => Math.max(most, width(line[index] ?? '')),
      width(headers[index] ?? ''),
    ),
  );
  const numeric = columns.map((_, index) => isNumeric(values.map((line) => line[index])));
  const fitted = look.columns === null ? widths : fit(widths, numeric, look.columns);
  const aligns = columns.map(
    (column, index) => column.align ?? (numeric[index] === true ? 'right' : 'left'),
  );
  const line = (texts: readonly string[], style: (index: number) => Style | null): string =>
    layOut(texts, fitted, aligns, style, look);

  return [
    line(headers, () => 'bold'),
    ...cells.map((texts, index) =>
      line(texts, (column) => columns[column]?.style?.(rows[index] as Row) ?? null),
    ),
  ].join('');
}

/** Two columns without headers: names and values of one thing. */
export function pairs(lines: readonly (readonly [string, TableCell])[], look: Look): string {
  const names = lines.map(([name]) => safeLine(name));
  const widest = Math.max(0, ...names.map(width));
  const room = look.columns === null ? Infinity : Math.max(LEAST, look.columns - widest - 2);
  return lines
    .map(([, value], index) => {
      const name = paint('dim', pad(names[index] ?? '', widest, 'left'), look);
      const text = cellText(value, look);
      return `${name}${GAP}${room === Infinity ? text : cut(text, room)}`.trimEnd() + '\n';
    })
    .join('');
}

/** On a terminal no more is looked at than could be shown: descriptions may be megabytes. */
function cellText(value: TableCell, look: Look): string {
  if (value === null || value === undefined) return '';
  const text = String(value);
  const most = look.columns === null ? Infinity : look.columns * 32;
  return safeLine(text.length > most ? `${text.slice(0, most)}…` : text);
}

function isWanted<Row>({ isRare, value }: TableColumn<Row>, rows: readonly Row[]): boolean {
  return isRare !== true || rows.some((row) => (value(row) ?? '') !== '');
}

function isNumeric(values: readonly TableCell[]): boolean {
  const given = values.filter((value) => value !== null && value !== undefined);
  return (
    given.length > 0 &&
    given.every((value) => typeof value === 'number' || typeof value === 'bigint')
  );
}

/** Takes from the widest text column, again and again; numbers are not cut, they would lie. */
function fit(
  widths: readonly number[],
  numeric: readonly boolean[],
  columns: number,
): readonly number[] {
  const out = [...widths];
  const room = columns - GAP.length * (widths.length - 1);
  for (let over = out.reduce((sum, one) => sum + one, -room); over > 0; over--) {
    let widest = -1;
    for (const [index, one] of out.entries()) {
      if (numeric[index] !== true && one > LEAST && one > (out[widest] ?? 0)) widest = index;
    }
    if (widest === -1) break;
    out[widest] = (out[widest] ?? 0) - 1;
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
