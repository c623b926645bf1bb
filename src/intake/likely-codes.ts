import { LONGEST_CODE, maskCode, normalizeCode } from '../domain/codes/code.js';
import { shown } from './error.js';
import type { Intake } from './types.js';

/*
 * Codes have no fixed format, so no code is rejected for what it looks like. These guesses only
 * choose the column of codes, and raise a question about a list as a whole.
 */

type ValueKind = 'empty' | 'number' | 'date' | 'email' | 'link' | 'code' | 'text';

/** What a cell looks like. */
export function kindOf(value: string): ValueKind {
  const text = normalizeCode(value);
  if (text === '') return 'empty';
  if (/^[+-]?[\d.,]+$/.test(text) && text.length < 16) return 'number';
  if (/^\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ][\d:.,Z+ -]*)?$/.test(text)) return 'date';
  if (/^[^\s@]+@[^\s@]+$/.test(text)) return 'email';
  if (/^\w+:\/\/\S*$/.test(text)) return 'link';
  return looksLikeCode(text) ? 'code' : 'text';
}

/** Long, in one piece, with digits all over: what no name or word looks like. */
function looksLikeCode(text: string): boolean {
  if (text.length < 8 || text.length > LONGEST_CODE || /\s/.test(text)) return false;
  // `address_line_2` is a name.
  return /\d/.test(text.replace(/[ _-]?\d{1,2}$/, ''));
}

/** A UUID or many hex digits: what the codes of most marketplaces look like. */
export function isTypicalCode(value: string): boolean {
  const text = normalizeCode(value);
  return (
    /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/i.test(text) || /^[\da-f]{32,128}$/i.test(text)
  );
}

/**
 * A number of many digits as spreadsheets show and save it, such as `1,23457E+17`. It is no code any
 * more: its last digits are lost.
 */
export function isShortenedNumber(text: string): boolean {
  return /^-?\d(?:[.,]\d{1,14})?E\+\d{2,3}$/i.test(text);
}

/** Prose, markup, a date, an amount, an address: hardly a code, whatever the marketplace. */
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
  /** Records that hold something in the column of codes, and how many of these look odd. */
  readonly of: number;
  readonly odd: number;
  /** What known codes look like: `37 characters: digits, a to f`. Null: too few are known. */
  readonly known: string | null;
  /** A few odd ones, such as `line 3: "Dear customer"`; what may be a code is masked. */
  readonly samples: readonly string[];
}

/** With fewer known codes a list is not compared with them: they may all be of one kind by chance. */
const ENOUGH_KNOWN = 20;
const MOST_SAMPLES = 3;

/**
 * Whether a list is likely not one of purchase codes: more than half of its first records, 1,000 at
 * most, look odd. Odd is what has white space or a tag in it, a date, an amount, an e-mail or web
 * address, a number that Excel has shortened, and what is longer than 255 characters. When 20 or more
 * valid codes are known, odd is instead what is shorter or longer than all of them, or has other kinds
 * of characters, unless it is a UUID or 32 to 128 hex digits.
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
    samples: odd.slice(0, MOST_SAMPLES).map(({ line, text }) => `line ${line}: ${sampleOf(text)}`),
  };
}

/** Prose, markup, dates and amounts are shown; anything else may be a code, or a person's address. */
function sampleOf(text: string): string {
  const isPlain = /[\s<]/.test(text) || isShortenedNumber(text) || isAmountOrDate(text);
  return isPlain ? shown(text, 40) : `${maskCode(text)} (${text.length} characters)`;
}

/** What codes have in common. */
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
