import type { Json } from '../domain/item.js';
import { storableJson, storableText } from '../domain/values.js';

/** Longest stored cell of a list, in UTF-16 units. Spreadsheets hold no longer ones. */
export const LONGEST_CELL = 32_767;
/** Longest stored message, name or other text from outside, in UTF-16 units. */
export const LONGEST_TEXT = 2_000;
/** Largest stored JSON of an answer or layout, in UTF-16 units. */
const LARGEST_JSON = 65_536;

/**
 * Text that PostgreSQL can hold: NUL characters and lone surrogates become U+FFFD. Text of more than `longest` UTF-16
 * units is cut and ends with an ellipsis.
 */
export function storable(text: string, longest: number): string {
  // The fast path, for almost all of millions of cells.
  if (text.length <= longest && text.isWellFormed() && !text.includes('\0')) return text;
  return storableText(shortened(text, longest));
}

/** JSON text that PostgreSQL can hold, or null if it is too large to store. */
export function storableJsonText(json: Json): string | null {
  let text = JSON.stringify(json);
  // JSON.stringify escapes the characters that PostgreSQL can't hold, and writes infinite numbers as null.
  if (/\\u|null/.test(text)) text = JSON.stringify(storableJson(json));
  return text.length > LARGEST_JSON ? null : text;
}

function shortened(text: string, longest: number): string {
  if (text.length <= longest) return text;
  // Don't cut a surrogate pair in two.
  const last = text.charCodeAt(longest - 2);
  const isHalf = last >= 0xd800 && last <= 0xdbff;
  return `${text.slice(0, longest - (isHalf ? 2 : 1))}…`;
}
