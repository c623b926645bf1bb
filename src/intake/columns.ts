import { LONGEST_CODE, maskCode, normalizeCode } from '../domain/codes/code.js';
import { IntakeError, shown, shownList } from './types.js';
import type { Intake } from './types.js';

/** The first records of a list. */
interface Table {
  /** Names of the columns, each once. */
  readonly columns: readonly string[];
  /** The names are the list's own. */
  readonly named: boolean;
  /** The cells of the first record when it may be a header, without proof. */
  readonly likelyNames?: readonly string[];
  readonly records: readonly (readonly string[])[];
  /** Columns, from 0, that can't contain codes: used only when asked for. */
  readonly unfit?: ReadonlySet<number>;
}

interface ColumnChoice {
  /** From 0. */
  readonly index: number;
  /** Why, as a sentence. */
  readonly reason: string;
}

/**
 * Finds the column of codes: the one asked for, or the one whose name says so, or the only one whose
 * values look like codes.
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

/** Columns with this name; an exact match beats one in another letter case. */
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
  // A column "code" may be a country code; the plainer names can't.
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

/** Columns whose values are typical codes; if there are none, those whose values may be codes. */
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

/** Usual names of columns of codes, the plainest first; compared without case and punctuation. */
const NAMES: readonly (readonly string[])[] = [
  ['purchasecode', 'purchasecodes', 'itempurchasecode', 'purchasekey'],
  ['licensecode', 'licencecode', 'licensekey', 'licencekey', 'licensekeys', 'licencekeys'],
  ['code', 'codes', 'license', 'licence', 'serial', 'key'],
];

/** A name without letter case, spaces and punctuation. */
export function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '');
}

/** How plainly a name says that the column has codes: 0 is plainest; null when it doesn't. */
export function nameRank(name: string): number | null {
  const rank = NAMES.findIndex((names) => names.includes(plainName(name)));
  return rank < 0 ? null : rank;
}

/*
 * Codes have no fixed format, so no code is rejected for its looks. These guesses only choose the
 * column of codes and raise doubts about a list as a whole.
 */

type ValueKind = 'empty' | 'number' | 'date' | 'email' | 'link' | 'code' | 'text';

/** The kind of value that a cell looks like. */
export function kindOf(value: string): ValueKind {
  const text = normalizeCode(value);
  if (text === '') return 'empty';
  if (/^[+-]?[\d.,]+$/.test(text) && text.length < 16) return 'number';
  if (/^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ][\d:.,Z+ -]*)?$/.test(text)) return 'date';
  if (/^[^\s@]+@[^\s@]+$/.test(text)) return 'email';
  if (/^\w+:\/\/\S*$/.test(text)) return 'link';
  return looksLikeCode(text) ? 'code' : 'text';
}

/** Long, without spaces, and with digits not only at the end, unlike names and words. */
function looksLikeCode(text: string): boolean {
  if (text.length < 8 || text.length > LONGEST_CODE || /\s/.test(text)) return false;
  // `address_line_2` is a name.
  return /\d/.test(text.replace(/[ _-]?\d{1,2}$/, ''));
}

/** A UUID or many hex digits, as the codes of most marketplaces. */
function isTypicalCode(value: string): boolean {
  const text = normalizeCode(value);
  return (
    /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/i.test(text) || /^[\da-f]{32,128}$/i.test(text)
  );
}

/**
 * A number of many digits as spreadsheets save it, such as `1,23457E+17`. It is not a code any more:
 * its last digits are lost.
 */
export function isShortenedNumber(text: string): boolean {
  return /^-?\d(?:[.,]\d{1,14})?E\+\d{2,3}$/i.test(text);
}

/** Prose, markup, a date, an amount, an address: hardly a code of any marketplace. */
function isUnlikely(text: string): boolean {
  return (
    text.length > LONGEST_CODE ||
    /\s|<[/!?a-z]/i.test(text) ||
    isShortenedNumber(text) ||
    isAmountOrDate(text) ||
    ['email', 'link'].includes(kindOf(text))
  );
}

function isAmountOrDate(text: string): boolean {
  const kind = kindOf(text);
  return kind === 'date' || (kind === 'number' && /[.,]/.test(text));
}

/** Most of the first records of a list do not look like codes. */
export interface Doubt {
  /** Number of records with something in the column of codes, and of those that look odd. */
  readonly of: number;
  readonly odd: number;
  /** The form of known codes: `37 characters: digits, a to f`. Null when too few are known. */
  readonly known: string | null;
  /** A few odd ones, such as `line 3: "Dear customer"`; possible codes are masked. */
  readonly samples: readonly string[];
}

/** Known codes needed to compare a list with them: fewer may be of one kind by chance. */
const ENOUGH_KNOWN = 20;
const MAX_SAMPLES = 3;

/**
 * Doubts that a list has purchase codes when more than half of its first records (at most 1,000) look
 * odd. Odd are values with white space or a tag, dates, amounts, e-mail and web addresses, numbers that
 * Excel has shortened, and values longer than 255 characters. When 20 or more valid codes are known,
 * odd are instead values that are shorter or longer than all of these or have other kinds of
 * characters, unless they are a UUID or 32 to 128 hex digits.
 * @param known valid codes of the seller
 */
export function doubtOf(
  { first, layout }: Pick<Intake, 'first' | 'layout'>,
  known: readonly string[],
): Doubt | null {
  const shape = known.length < ENOUGH_KNOWN ? null : shapeOf(known);
  const records = first
    .map(({ line, columns }) => ({ line, text: normalizeCode(columns[layout.codeColumn] ?? '') }))
    .filter(({ text }) => text !== '');
  const odd = records.filter(({ text }) =>
    shape === null ? isUnlikely(text) : !fits(text, shape) && !isTypicalCode(text),
  );
  if (odd.length * 2 <= records.length) return null;
  return {
    of: records.length,
    odd: odd.length,
    known: shape === null ? null : describe(shape),
    samples: odd.slice(0, MAX_SAMPLES).map(({ line, text }) => `line ${line}: ${sampleOf(text)}`),
  };
}

/** Shows prose, markup, dates and amounts; masks anything else, which may be a code or an e-mail address. */
function sampleOf(text: string): string {
  const isPlain = /[\s<]/.test(text) || isShortenedNumber(text) || isAmountOrDate(text);
  return isPlain ? shown(text, 40) : `${maskCode(text)} (${text.length} characters)`;
}

/** Lengths and characters of known codes. */
interface Shape {
  readonly shortest: number;
  readonly longest: number;
  /** Kinds of characters, see `kindOfCharacter`. */
  readonly kinds: ReadonlySet<string>;
}

function shapeOf(codes: readonly string[]): Shape {
  const lengths = codes.map(({ length }) => length).sort((a, b) => a - b);
  const kinds = new Set(codes.flatMap((code) => Array.from(code, kindOfCharacter)));
  return { shortest: lengths[0] ?? 0, longest: lengths.at(-1) ?? 0, kinds };
}

function fits(text: string, { shortest, longest, kinds }: Shape): boolean {
  if (text.length < shortest || text.length > longest) return false;
  return Array.from(text).every((character) => kinds.has(kindOfCharacter(character)));
}

/** `digits`, `a to f`, `other letters`, or the character itself. */
function kindOfCharacter(character: string): string {
  if (/\d/.test(character)) return 'digits';
  if (/[a-f]/i.test(character)) return 'a to f';
  return /\p{L}/u.test(character) ? 'other letters' : character;
}

function describe({ shortest, longest, kinds }: Shape): string {
  const length = shortest === longest ? `${shortest}` : `${shortest} to ${longest}`;
  return `${length} characters: ${[...kinds].sort().toReversed().join(', ')}`;
}
