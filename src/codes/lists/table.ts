/** Where a table has its header, and which of its columns holds the codes. Pure. */

import { plainForm } from '../../marketplace/code.js';
import { unescapeFormula, uniqueNames } from '../../domain/csv.js';
import { quoted } from '../../listing/file-error.js';
import { isTypicalCell, kindOf, nameRank, plainName } from './kinds.js';
import { assertSize, refused, wrongFile, type Layout, type Row } from './types.js';

type Cells = readonly string[];

/** Records at the beginning that decide header and columns. */
const SAMPLE_RECORDS = 1000;
/** Most lines above a header. */
export const MOST_TITLES = 20;

export interface TablePlan extends Pick<Layout, 'header' | 'columns' | 'codeColumn' | 'reasons'> {
  /** Index of the first row below the header, or 0. */
  readonly start: number;
}

export interface TableOptions {
  /** The requested column: name or number. */
  readonly column: string | undefined;
  /** The name of the only column, if it has no header. */
  readonly onlyName?: string;
  /** Number of columns, if the longest record decides. Default: as many as the header or most records have. */
  readonly width?: number;
}

/**
 * Finds the header, which may stand below some lines of titles, and the column of codes.
 * @throws UserError when there is no record, or the column of codes is unclear
 */
export function planTable(
  rows: Iterable<Row>,
  { column, onlyName, width: given }: TableOptions,
): TablePlan {
  const sample = firstRecords(rows);
  const records = sample.map(({ cells }) => cells);
  const header = findHeader(records, column);
  const top = header === null ? undefined : sample[header.at];
  const below = records.slice(header === null ? 0 : header.at + 1);
  if (below.length === 0) {
    throw wrongFile(header === null ? 'the list is empty' : 'the list has only a header');
  }
  const width = given ?? top?.cells.length ?? mostFrequent(records.map(({ length }) => length));
  assertSize(0, width);
  const names = top && [...top.cells, ...blank(width - top.cells.length)];
  const columns =
    names === undefined && width === 1 && onlyName !== undefined
      ? [onlyName]
      : uniqueNames((names ?? blank(width)).map((name) => name.trim()));
  const [first = []] = records;
  const table = {
    columns: names ?? columns,
    named: names !== undefined || onlyName === columns[0],
    records: below,
    likelyNames: areNames(first) ? first : undefined,
  };
  const { index, reason } = chooseColumn(table, column);
  return {
    header: top !== undefined,
    columns,
    codeColumn: index,
    start: top === undefined ? 0 : top.index + 1,
    reasons: [
      header === null || top === undefined
        ? 'The first line is not a header: it looks like the others.'
        : headerReason(header, top.line),
      reason,
    ],
  };
}

interface SampleRecord {
  /** Index of the row. */
  readonly index: number;
  readonly line: number;
  readonly cells: Cells;
}

/** The first records that are not empty. */
function firstRecords(rows: Iterable<Row>): SampleRecord[] {
  const found: SampleRecord[] = [];
  let index = -1;
  for (const row of rows) {
    index++;
    if (found.length >= SAMPLE_RECORDS) break;
    if (isBlank(row)) continue;
    const { line, cells } = row;
    found.push({ index, line, cells: cells.map(unescapeFormula) });
  }
  return found;
}

interface Header {
  /** Index among the records. */
  readonly at: number;
  readonly why: string;
}

function headerReason({ at, why }: Header, line: number): string {
  if (at === 0) return `The first line is a header: ${why}.`;
  const above = at === 1 ? 'line above it is' : `${at} lines above it are`;
  return `Line ${line} is the header: ${why}. The ${above} left out.`;
}

function findHeader(records: readonly Cells[], column: string | undefined): Header | null {
  const wanted = column?.trim().toLowerCase();
  const isWanted = (cell: string): boolean =>
    cell.trim().toLowerCase() === wanted && kindOf(cell) === 'text';
  for (const [at, cells] of records.slice(0, MOST_TITLES).entries()) {
    if (cells.some(isTypicalCell)) break;
    const isNamed = cells.some(isWanted);
    const ranks = cells.map(nameRank);
    const isLikely = ranks.some(
      (rank, index) =>
        rank !== null && (at === 0 || rank < 2 || holds(records.slice(at + 1), index, 'code')),
    );
    if ((!isNamed && !isLikely) || !areTitles(records.slice(0, at), cells)) continue;
    return { at, why: `it names ${isNamed ? 'the requested column' : 'a column of codes'}` };
  }
  return headerOfWords(records);
}

/** True if the lines above a header that names a column of codes may be titles: no line holds a code. */
function areTitles(above: readonly Cells[], header: Cells): boolean {
  return above.every(
    (cells) =>
      filled(cells) <= filled(header) &&
      (filled(header) > 1 || cells.every((cell) => kindOf(cell) !== 'code')),
  );
}

/** Finds a header by the words that it has where the records below have codes or addresses. */
function headerOfWords(records: readonly Cells[]): Header | null {
  const width = mostFrequent(records.map(({ length }) => length));
  for (let index = 0; index < width; index++) {
    for (const kind of ['code', 'email', 'link'] as const) {
      const top = records.findIndex((cells) => kindOf(cells[index] ?? '') === kind);
      if (top <= 0 || top > MOST_TITLES || !holds(records.slice(top), index, kind)) continue;
      const above = records.slice(0, top);
      const most = above.reduce((max, cells) => Math.max(max, filled(cells)), 0);
      const below = shapeOf(records[top]?.[index] ?? '');
      const fits = (cells: Cells): boolean =>
        filled(cells) === most &&
        isName(cells[index] ?? '') &&
        shapeOf(cells[index] ?? '') !== below &&
        areNames(cells);
      // In a single column, titles look like the header, and so may codes of words.
      const at = width > 1 ? above.findIndex(fits) : above.findLastIndex(fits);
      if (at < 0 || (at > 0 && width === 1 && !isTypicalCell(records[top]?.[index] ?? '')))
        continue;
      const others = kind === 'code' ? 'codes' : 'addresses';
      return { at, why: `it has a word where the others have ${others}` };
    }
  }
  return null;
}

/** The shape of a cell's plain form: `ENV-7Q2K` → `xxx-xxxx`. */
function shapeOf(cell: string): string {
  return plainForm(cell).replaceAll(/[\p{L}\p{N}]/gu, 'x');
}

function areNames(cells: Cells): boolean {
  const named = cells.filter((cell) => kindOf(cell) !== 'empty');
  const differ = new Set(named.map(plainName)).size === named.length;
  return named.length > 0 && differ && named.every(isName);
}

function isName(cell: string): boolean {
  return kindOf(cell) === 'text' && cell.trim().length <= 64 && !/[\r\n]/.test(cell.trim());
}

/** True if most values are of this kind. Numbers or dates are not asked for: a wrong header would lose a code. */
function holds(records: readonly Cells[], index: number, kind: 'code' | 'email' | 'link'): boolean {
  const kinds = records.map((cells) => kindOf(cells[index] ?? '')).filter((k) => k !== 'empty');
  return kinds.length > 0 && kinds.filter((one) => one === kind).length * 2 > kinds.length;
}

/** The most frequent number, or the largest of several. */
export function mostFrequent(numbers: readonly number[]): number {
  const counts = new Map<number, number>();
  for (const n of numbers) counts.set(n, (counts.get(n) ?? 0) + 1);
  const [best] = [...counts].sort(([a, timesA], [b, timesB]) => timesB - timesA || b - a);
  return best?.[0] ?? 0;
}

/** True for records without text, such as `;;;`, which spreadsheets write for cleared rows. */
export function isEmpty(cells: Cells): boolean {
  return cells.every((cell) => cell.trim() === '');
}

/** True for a row without values. A formula without its result has no text, but may be a code. */
export function isBlank({ cells, faults }: Row): boolean {
  return faults === undefined && isEmpty(cells);
}

function filled(cells: Cells): number {
  return cells.filter((cell) => cell.trim() !== '').length;
}

function blank(cells: number): string[] {
  return Array.from({ length: cells }, () => '');
}

interface Table {
  readonly columns: readonly string[];
  /** True if the list has a header. */
  readonly named: boolean;
  /** The cells of the first record if it may be a header. For messages. */
  readonly likelyNames?: readonly string[] | undefined;
  readonly records: readonly (readonly string[])[];
}

interface ColumnChoice {
  readonly index: number;
  readonly reason: string;
}

/**
 * Chooses the column of codes: the requested one, or by name, or by values.
 * @throws UserError when there is no such column, or more than one
 */
export function chooseColumn(table: Table, requested: string | undefined): ColumnChoice {
  if (requested !== undefined) return requestedColumn(table, requested);
  const { columns } = table;
  if (columns.length === 1) return { index: 0, reason: 'The codes are in the only column.' };
  const codes = columnsLikeCodes(table);
  const ranks = columns.map((name) => (table.named ? (nameRank(name) ?? Infinity) : Infinity));
  const best = ranks.reduce((least, rank) => Math.min(least, rank), Infinity);
  const named = ranks.flatMap((rank, index) => (rank === best && rank < Infinity ? [index] : []));
  const fitting = named.filter((index) => codes.includes(index));
  // A column named "code" may hold country codes. The more specific names can't.
  const possible = best === 2 ? [...named, ...codes] : named;
  const byName = fitting.length > 0 ? fitting : possible;
  const candidates = named.length > 0 ? byName : codes;
  const [index] = candidates;
  if (index === undefined) {
    throw refused('no column looks like purchase codes', listColumns(table));
  }
  if (candidates.length > 1) {
    const places = candidates.map((at) => nameOf(table, at));
    throw refused(
      `several columns may hold the codes: ${places.join(', ')}`,
      'Choose one with --column, by name or number.',
    );
  }
  const why =
    named.length > 0
      ? ', by its name'
      : ': its values look most like codes, long and without spaces';
  return { index, reason: `${locationOf(table, index)}${why}.` };
}

function requestedColumn(table: Table, requested: string): ColumnChoice {
  const { columns } = table;
  const named = placesOf(columns, requested);
  if (named.length > 1) {
    throw refused(
      `${named.length} columns are named ${quoted(requested)}`,
      `Set --column to a number: ${named.map((at) => at + 1).join(' or ')}.`,
    );
  }
  const number = /^\d+$/.test(requested) ? Number(requested) : 0;
  const index = named[0] ?? number - 1;
  if (columns[index] !== undefined) {
    return { index, reason: `${locationOf(table, index)}, as requested.` };
  }
  throw refused(`there is no column ${quoted(requested)}`, listColumns(table));
}

/** The places of a name among others. An exact match beats one in another letter case. */
export function placesOf(names: readonly string[], wanted: string): number[] {
  const find = (of: (name: string) => string): number[] =>
    names.flatMap((name, at) => (of(name.trim()) === of(wanted.trim()) ? [at] : []));
  const exact = find((name) => name);
  return exact.length > 0 ? exact : find((name) => name.toLowerCase());
}

/** Columns with typical codes. If there are none, columns with values that may be codes. */
function columnsLikeCodes({ columns, records }: Table): number[] {
  const where = (isLike: (value: string) => boolean): number[] =>
    columns.flatMap((_, index) => {
      const values = records.map((cells) => cells[index]?.trim() ?? '').filter((v) => v !== '');
      const like = values.filter(isLike).length >= values.length * 0.8;
      const varied = new Set(values).size >= values.length * 0.5;
      return values.length > 0 && like && varied ? [index] : [];
    });
  const typical = where(isTypicalCell);
  return typical.length > 0 ? typical : where((value) => kindOf(value) === 'code');
}

const MAX_NAMES = 20;

/** Names for a message: `"name", "code" and 3 more`. */
export function listed(names: readonly string[]): string {
  const some = names.slice(0, MAX_NAMES).map((name) => quoted(name));
  return `${some.join(', ')}${names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : ''}`;
}

function listColumns({ columns, named, likelyNames }: Table): string {
  const names = named ? columns : likelyNames;
  if (names === undefined) {
    return `The list has no header: set --column to a number from 1 to ${columns.length}.`;
  }
  const list = `The columns are ${listed(names)}`;
  return named
    ? `${list}. Choose one with --column.`
    : `${list}, if the first line is a header. Choose one with --column, by name or number.`;
}

function nameOf(table: Table, index: number): string {
  return table.named ? quoted(table.columns[index] ?? '') : `column ${index + 1}`;
}

function locationOf(table: Table, index: number): string {
  const name = table.named ? `, ${quoted(table.columns[index] ?? '')}` : '';
  return `The codes are in column ${index + 1}${name}`;
}
