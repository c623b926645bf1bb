/** What a cell of an Excel sheet shows, and whether it can be the code that was entered (ECMA-376). Pure. */

import { isShortenedNumber, SHORTENED_NUMBER } from './kinds.js';

/** A cell as its XML has it. */
export interface SheetCell {
  /** `s`: a shared string, `n`: a number, … */
  readonly type: string;
  /** Number of its style. */
  readonly style: number;
  /** Of its value. */
  readonly text: string;
  readonly hasFormula: boolean;
}

/** The facts about a workbook that its cells depend on. */
export interface CellContext {
  readonly strings: readonly string[];
  /** Whether each style shows numbers as dates. */
  readonly dateStyles: readonly boolean[];
  /** True if days count from 1904, as in old workbooks from a Mac. */
  readonly from1904: boolean;
}

interface CellValue {
  /** Text unchanged, a number with Excel's 15 digits, or a date such as `2026-11-23 14:05:00`. */
  readonly text: string;
  /** Why it can't be the code that was entered. */
  readonly fault?: string;
}

const ENTER_AGAIN = 'format the cell as text and enter the code again';
const IS_DATE = `Excel has converted this code to a date: ${ENTER_AGAIN}`;
const IS_NUMBER = `Excel has converted this code to a number, which loses leading zeros and digits: ${ENTER_AGAIN}`;
const NO_RESULT =
  'the cell has a formula without its result: open the workbook in Excel and save it';

/** @throws Error when the cell is damaged */
export function valueOf(
  { type, style, text, hasFormula }: SheetCell,
  { strings, dateStyles, from1904 }: CellContext,
): CellValue {
  if (text === '') return hasFormula ? { text, fault: NO_RESULT } : { text };
  switch (type) {
    case 's': {
      const shared = strings[Number(text)];
      if (shared === undefined) throw new Error('a cell refers to a missing string');
      return { text: shared };
    }
    case 'str':
    case 'inlineStr':
      return { text: unescaped(text) };
    case 'b':
      return {
        text: text.trim() === '1' ? 'TRUE' : 'FALSE',
        fault: 'the cell has TRUE or FALSE instead of a code',
      };
    case 'e':
      return { text, fault: 'the cell has an Excel error instead of a code' };
    case 'd':
      return { text, fault: IS_DATE };
    default:
      return numberOf(Number(text), dateStyles[style] === true, from1904);
  }
}

function numberOf(value: number, isDate: boolean, from1904: boolean): CellValue {
  if (!Number.isFinite(value)) throw new Error('a number can’t be parsed');
  const date = isDate ? dateText(value, from1904) : null;
  if (date !== null) return { text: date, fault: IS_DATE };
  // Excel computes with 17 digits, but shows and accepts 15.
  const text = String(Number(value.toPrecision(15)));
  const isShortened = isShortenedNumber(text) || text.replace(/\D/g, '').length >= 15;
  return { text, fault: isShortened ? SHORTENED_NUMBER : IS_NUMBER };
}

/** Decodes `_x000D_`, which stands for a character that XML can't have. */
export function unescaped(text: string): string {
  if (!text.includes('_x')) return text;
  return text.replaceAll(/_x([\dA-Fa-f]{4})_/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
}

const DAY_MS = 86_400_000;
/** Days from Excel's day 0, 1899-12-30, to 1904-01-01. */
const DAYS_TO_1904 = 1462;

/** Excel's number of days as a date, time or both, to the second. Null if Excel shows no date for it. */
function dateText(days: number, from1904: boolean): string | null {
  const since1900 = from1904 && days >= 1 ? days + DAYS_TO_1904 : days;
  // Excel counts 29 February 1900, which did not exist.
  const shifted = !from1904 && days >= 1 && days < 60 ? since1900 + 1 : since1900;
  if (shifted < 0 || shifted >= 2_958_466) return null;
  const ms = Math.round(shifted * 86_400) * 1000;
  const iso = new Date(Date.UTC(1899, 11, 30) + ms).toISOString();
  if (days < 1) return iso.slice(11, 19);
  return ms % DAY_MS === 0 ? iso.slice(0, 10) : `${iso.slice(0, 10)} ${iso.slice(11, 19)}`;
}

/** Whether a format shows dates or times. @param id its number @param code of a custom format */
export function isDateFormat(id: number, code: string | undefined): boolean {
  // Built-in ones, East Asian ones included.
  if (code === undefined)
    return (id >= 14 && id <= 22) || (id >= 27 && id <= 36) || (id >= 45 && id <= 58);
  // A day, month, year, hour or second outside quotes, colours and currencies.
  return /[dmyhs]/i.test(code.replaceAll(/"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]/gi, ''));
}

/** `B5` → 1. */
export function columnOf(reference: string): number {
  const letters = /^[A-Z]{1,3}(?=\d)/.exec(reference)?.[0] ?? '';
  let column = 0;
  for (const letter of letters) column = column * 26 + letter.charCodeAt(0) - 64;
  return column - 1;
}
