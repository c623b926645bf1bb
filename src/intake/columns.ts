import { IntakeError, shown, shownList } from './error.js';
import { isTypicalCode, kindOf } from './likely-codes.js';

/** The first records of a list. */
interface Table {
  /** Names of the columns, each once. */
  readonly columns: readonly string[];
  /** The names are the list's own. */
  readonly named: boolean;
  /** The cells of the first record, when it may be a header though nothing proves it. */
  readonly likelyNames?: readonly string[];
  readonly records: readonly (readonly string[])[];
  /** Columns that hold nothing a code could be, from 0: chosen only where they are asked for. */
  readonly unfit?: ReadonlySet<number>;
}

interface ColumnChoice {
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
  const best = ranks.reduce<number>((least, rank) => Math.min(least, rank ?? Infinity), Infinity);
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
  const { columns, named, likelyNames } = table;
  if (named) return `The columns are ${shownList(columns)}: say which with --column.`;
  return likelyNames === undefined
    ? `The list has no header: give --column as a number from 1 to ${columns.length}.`
    : `The columns are ${shownList(likelyNames)}, going by the first line: say with --column which holds the codes, by name or number.`;
}

function nameOf(table: Table, index: number): string {
  return table.named ? shown(table.columns[index] ?? '') : `column ${index + 1}`;
}

function placed(table: Table, index: number): string {
  const name = table.named ? `, ${shown(table.columns[index] ?? '')}` : '';
  return `The codes are in column ${index + 1}${name}`;
}

/** Names that columns of codes go by, the plainest first; compared without case and punctuation. */
const NAMES: readonly (readonly string[])[] = [
  ['purchasecode', 'purchasecodes', 'itempurchasecode', 'purchasekey'],
  ['licensecode', 'licencecode', 'licensekey', 'licencekey', 'licensekeys', 'licencekeys'],
  ['code', 'codes', 'license', 'licence', 'serial', 'key'],
];

/** A name without letter case, spaces and punctuation. */
export function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '');
}

/** How plainly a name says that the column holds codes: 0 is plainest; null when it doesn't. */
export function nameRank(name: string): number | null {
  const rank = NAMES.findIndex((names) => names.includes(plainName(name)));
  return rank < 0 ? null : rank;
}

/**
 * The names each once, so that a column can be told by its name: the second `note` becomes
 * `note_2`; an empty name `column_3`.
 * @param taken names that others have already
 */
export function uniqueNames(names: readonly string[], taken: readonly string[] = []): string[] {
  // The names themselves come first: a `note_2` of the list's own stays what it is.
  const used = new Set([...taken, ...names]);
  const seen = new Set(taken);
  // Where to go on for a name that was met before: from 2 again would take hours in a wide table.
  const next = new Map<string, number>();
  return names.map((given, index) => {
    const name = given.trim() === '' ? `column_${index + 1}` : given;
    let unique = name;
    let n = next.get(name) ?? 2;
    for (; seen.has(unique) || (unique !== given && used.has(unique)); n++) unique = `${name}_${n}`;
    next.set(name, n);
    seen.add(unique);
    return unique;
  });
}
