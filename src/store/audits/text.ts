import type { Json } from '../../domain/item.js';
import { Tolerated, storableJson, storableText } from '../../domain/values.js';

/** Longest cell that is kept of a list, in UTF-16 units: the longest that spreadsheets can hold. */
export const LONGEST_CELL = 32_767;
/** Longest text from elsewhere that is kept beside the codes. */
export const LONGEST_TEXT = 2_000;
/** Largest JSON that is kept of an answer, in UTF-16 units. */
export const LARGEST_JSON = 65_536;

/**
 * Text that PostgreSQL can hold: NUL characters and lone surrogates become U+FFFD. What is longer
 * than `longest` UTF-16 units is cut, and ends with an ellipsis.
 */
export function storable(text: string, longest: number): string {
  // All but a few of millions of cells.
  if (text.length <= longest && text.isWellFormed() && !text.includes('\0')) return text;
  return storableText(shortened(text, longest), new Tolerated());
}

/** JSON text that PostgreSQL can hold; null when it is too large to be kept. */
export function storableJsonText(json: Json, largest = LARGEST_JSON): string | null {
  const text = JSON.stringify(storableJson(json, new Tolerated()));
  return text.length > largest ? null : text;
}

function shortened(text: string, longest: number): string {
  if (text.length <= longest) return text;
  // A character of two units is never cut in two.
  const last = text.charCodeAt(longest - 2);
  const isHalf = last >= 0xd800 && last <= 0xdbff;
  return `${text.slice(0, longest - (isHalf ? 2 : 1))}…`;
}
