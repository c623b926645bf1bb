import { UserError } from '../../domain/user-error.js';
import {
  isTypicalCode,
  LONGEST_CODE,
  normalizeCode,
  plainForm,
  readCell,
} from '../../marketplace/code.js';
import { quoted } from '../../listing/file-error.js';
import { maskCode, maskLikelyCodes } from '../../domain/secret.js';
import type { List } from './types.js';

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
    throw new UserError('no column looks like purchase codes', listColumns(table), 'FILE', 2);
  }
  if (candidates.length > 1) {
    const places = candidates.map((at) => nameOf(table, at));
    throw new UserError(
      `several columns may hold the codes: ${places.join(', ')}`,
      'Choose one with --column, by name or number.',
      'FILE',
      2,
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
    throw new UserError(
      `${named.length} columns are named ${quoted(requested)}`,
      `Set --column to a number: ${named.map((at) => at + 1).join(' or ')}.`,
      'FILE',
      2,
    );
  }
  const number = /^\d+$/.test(requested) ? Number(requested) : 0;
  const index = named[0] ?? number - 1;
  if (columns[index] !== undefined) {
    return { index, reason: `${locationOf(table, index)}, as requested.` };
  }
  throw new UserError(`there is no column ${quoted(requested)}`, listColumns(table), 'FILE', 2);
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

/** Usual names of columns of codes, the most specific first. Compared without case and punctuation. */
const NAMES: readonly (readonly string[])[] = [
  ['purchasecode', 'purchasecodes', 'itempurchasecode', 'purchasekey'],
  ['licensecode', 'licencecode', 'licensekey', 'licencekey', 'licensekeys', 'licencekeys'],
  ['code', 'codes', 'license', 'licence', 'serial', 'key'],
];

export function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '');
}

/** How specific a name is for a column of codes: 0 is most specific, null means it isn't one. */
export function nameRank(name: string): number | null {
  const rank = NAMES.findIndex((names) => names.includes(plainName(name)));
  return rank < 0 ? null : rank;
}

/*
 * Codes have no fixed format, so no code is rejected for its looks. These guesses only choose the column of codes, and
 * warn about a list as a whole.
 */

type ValueKind = 'empty' | 'number' | 'date' | 'email' | 'link' | 'code' | 'text';

/** What a cell holds, by its plain form: a code in fullwidth letters or after a label is a code. */
export function kindOf(value: string): ValueKind {
  const text = plainOf(value);
  if (text === '') return 'empty';
  if (/^[+-]?[\d.,]+$/.test(text) && text.length < 16) return 'number';
  if (/^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ][\d:.,Z+ -]*)?$/.test(text)) return 'date';
  if (/^[^\s@]+@[^\s@]+$/.test(text)) return 'email';
  if (LINK.test(text)) return 'link';
  return mayBeCode(text) || holdsSeveral(text) ? 'code' : 'text';
}

const LINK = /^\w+:\/\/\S*$/;

/** A link stays one, also if there is a code in it. */
function plainOf(value: string): string {
  const written = normalizeCode(value);
  return LINK.test(written) ? written : plainForm(written);
}

function holdsSeveral(text: string): boolean {
  const read = readCell(text);
  return 'reason' in read && read.reason === 'several-codes';
}

/** Long, without spaces, and with a digit that is not just a number at the end. */
function mayBeCode(text: string): boolean {
  if (text.length < 8 || text.length > LONGEST_CODE || /\s/.test(text)) return false;
  // `address_line_2` is a name.
  return /\d/.test(text.replace(/[ _-]?\d{1,2}$/, ''));
}

/** True if the cell holds a UUID or many hex digits, like the codes of most marketplaces. */
export function isTypicalCell(value: string): boolean {
  return isTypicalCode(plainOf(value));
}

/** Why a row is rejected whose code is such a number. */
export const SHORTENED_NUMBER = 'Excel has shortened this number';

/** Matches `1,23457E+17`: spreadsheets save long numbers like this and lose the last digits. */
export function isShortenedNumber(text: string): boolean {
  return /^-?\d(?:[.,]\d{1,14})?E\+\d{2,3}$/i.test(text);
}

/** Prose, markup, a date, an amount or an address: hardly a code of any marketplace. */
function isUnlikely(text: string): boolean {
  return text.length > LONGEST_CODE || isPlain(text) || ['email', 'link'].includes(kindOf(text));
}

/** Prose, markup, a date or an amount, which messages may quote. */
function isPlain(text: string): boolean {
  const kind = kindOf(text);
  return (
    /\s|<[/!?a-z]/i.test(text) ||
    isShortenedNumber(text) ||
    kind === 'date' ||
    (kind === 'number' && /[.,]/.test(text))
  );
}

export interface Doubt {
  /** Examined records with text in the column of codes. */
  readonly total: number;
  /** Records that look unlike codes. */
  readonly odd: number;
  /** The length of known codes: `37 characters`. Null if too few are known. */
  readonly known: string | null;
  /** Examples such as `line 3: "Dear customer"`, with possible codes masked. */
  readonly samples: readonly string[];
}

/** Known codes needed for a comparison. Fewer may look alike by chance. */
const ENOUGH_KNOWN = 20;
const MAX_SAMPLES = 3;
/** Records examined at the beginning of a list. */
const MOST_EXAMINED = 1_000;

/**
 * Returns a doubt if more than half of the first 1,000 records look unlike codes: white space or a tag, dates, amounts,
 * addresses, numbers that Excel shortened, more than 255 characters. If 20 valid codes are known, compares with their
 * lengths instead. UUIDs and hex codes are fine then too.
 * @param known valid codes of the seller
 */
export function doubtOf(
  { entries, layout }: Pick<List, 'entries' | 'layout'>,
  known: readonly string[],
): Doubt | null {
  const lengths = known.map(({ length }) => length).sort((a, b) => a - b);
  const [shortest = 0, longest = 0] = [lengths[0], lengths.at(-1)];
  const isKnown = known.length >= ENOUGH_KNOWN;
  const records = entries
    .slice(0, MOST_EXAMINED)
    .map(({ line, columns }) => ({ line, text: plainOf(columns[layout.codeColumn] ?? '') }))
    .filter(({ text }) => text !== '');
  const odd = records.filter(({ text }) =>
    isKnown
      ? (text.length < shortest || text.length > longest) && !isTypicalCode(text)
      : isUnlikely(text),
  );
  if (odd.length * 2 <= records.length) return null;
  return {
    total: records.length,
    odd: odd.length,
    known: isKnown ? `${shortest === longest ? '' : `${shortest} to `}${longest} characters` : null,
    samples: odd.slice(0, MAX_SAMPLES).map(({ line, text }) => `line ${line}: ${sampleOf(text)}`),
  };
}

function sampleOf(text: string): string {
  return isPlain(text)
    ? quoted(maskLikelyCodes(text), 40)
    : `${maskCode(text)} (${text.length} characters)`;
}
