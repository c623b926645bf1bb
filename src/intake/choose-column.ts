import { nameRank } from './column-names.js';
import { IntakeError } from './error.js';
import { shown, shownList } from './shown.js';
import { isTypicalCode, kindOf } from './value-kind.js';

/** The first records of a list. */
export interface Table {
  /** Names of the columns, each once. */
  readonly columns: readonly string[];
  /** The names are the list's own. */
  readonly named: boolean;
  readonly records: readonly (readonly string[])[];
  /** Columns that hold nothing a code could be, from 0: chosen only where they are asked for. */
  readonly unfit?: ReadonlySet<number>;
}

export interface ColumnChoice {
  /** From 0. */
  readonly index: number;
  /** Why, as a sentence. */
  readonly reason: string;
}

/**
 * The column that holds the codes: the one asked for, or else the one whose name says so, or whose
 * values look like codes when no other's do.
 * @throws IntakeError when there is no such column, or more than one
 */
export function chooseColumn(table: Table, wanted: string | number | undefined): ColumnChoice {
  if (wanted !== undefined) return askedFor(table, wanted);
  if (table.columns.length === 1) {
    return { index: 0, reason: 'The codes are in the only column there is.' };
  }
  return byName(table) ?? byValues(table);
}

function askedFor(table: Table, wanted: string | number): ColumnChoice {
  const byItsName = typeof wanted === 'string' ? indicesOf(table, wanted) : [];
  const [index] = byItsName;
  if (byItsName.length > 1) {
    throw new IntakeError(
      `${byItsName.length} columns are named ${shown(String(wanted))}`,
      `Give --column as a number: ${byItsName.map((at) => at + 1).join(' or ')}.`,
    );
  }
  if (index !== undefined) return { index, reason: `${placed(table, index)}, as asked for.` };
  const number = Number(wanted);
  if (/^\d+$/.test(String(wanted)) && number >= 1 && number <= table.columns.length) {
    return { index: number - 1, reason: `${placed(table, number - 1)}, as asked for.` };
  }
  throw new IntakeError(`there is no column ${shown(String(wanted))}`, available(table));
}

/** An exact name goes before one that differs in letter case. */
function indicesOf({ columns }: Table, wanted: string): number[] {
  const matching = (same: (name: string) => boolean): number[] =>
    columns.flatMap((name, index) => (same(name.trim()) ? [index] : []));
  const name = wanted.trim();
  const exact = matching((column) => column === name);
  if (exact.length > 0) return exact;
  return matching((column) => column.toLowerCase() === name.toLowerCase());
}

function byName(table: Table): ColumnChoice | null {
  if (!table.named) return null;
  const ranks = table.columns.map((name, index) =>
    table.unfit?.has(index) === true ? null : nameRank(name),
  );
  const best = Math.min(...ranks.map((rank) => rank ?? Infinity));
  const named = ranks.flatMap((rank, index) => (rank === best ? [index] : []));
  if (named.length === 0) return null;
  const codes = columnsLikeCodes(table);
  const fitting = named.filter((index) => codes.includes(index));
  const candidates = fitting.length > 0 ? fitting : named;
  const [index] = candidates;
  if (index === undefined || candidates.length > 1) throw ambiguous(table, candidates);
  // A column "code" may be a country's; the plainer names may not.
  if (best === 2 && fitting.length === 0 && codes.length > 0) {
    throw ambiguous(table, [index, ...codes]);
  }
  return { index, reason: `${placed(table, index)}, by its name.` };
}

function byValues(table: Table): ColumnChoice {
  const codes = columnsLikeCodes(table);
  const [index] = codes;
  if (index === undefined) {
    throw new IntakeError('no column looks like purchase codes', available(table));
  }
  if (codes.length > 1) throw ambiguous(table, codes);
  return {
    index,
    reason: `${placed(table, index)}: its values look most like codes, long and without spaces.`,
  };
}

/** Columns whose values are typical codes; without any, those whose values may be codes. */
function columnsLikeCodes({ columns, records }: Table): number[] {
  const where = (isLike: (value: string) => boolean): number[] =>
    columns.flatMap((_, index) => {
      const values = records.map((cells) => cells[index]?.trim() ?? '').filter((v) => v !== '');
      const like = values.filter(isLike).length >= values.length * 0.8;
      const varied = new Set(values).size >= values.length * 0.5;
      return values.length > 0 && like && varied ? [index] : [];
    });
  const typical = where(isTypicalCode);
  return typical.length > 0 ? typical : where((value) => kindOf(value) === 'code');
}

function ambiguous(table: Table, indices: readonly number[]): IntakeError {
  const places = indices.map((index) => nameOf(table, index));
  return new IntakeError(
    `several columns may hold the codes: ${places.join(', ')}`,
    'Say which with --column, by name or number.',
  );
}

function available(table: Table): string {
  const { columns, named } = table;
  return named
    ? `The columns are ${shownList(columns)}: say which with --column.`
    : `The list has no header: give --column as a number from 1 to ${columns.length}.`;
}

function nameOf(table: Table, index: number): string {
  return table.named ? shown(table.columns[index] ?? '') : `column ${index + 1}`;
}

function placed(table: Table, index: number): string {
  const name = table.named ? `, ${shown(table.columns[index] ?? '')}` : '';
  return `The codes are in column ${index + 1}${name}`;
}
