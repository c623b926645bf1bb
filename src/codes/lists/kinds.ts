/** What a cell may hold, and which names columns of codes have. Pure. */

import {
  isTypicalCode,
  LONGEST_CODE,
  normalizeCode,
  plainForm,
  readCell,
} from '../../marketplace/code.js';

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
export function plainOf(value: string): string {
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
