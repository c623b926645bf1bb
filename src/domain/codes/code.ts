export type CodeFault =
  | 'empty'
  | 'too-long'
  /** A line break, a tab or the like within the text. */
  | 'control-characters'
  /** U+FFFD or half a character: what the text was is lost, most likely to a wrong encoding. */
  | 'unreadable-characters';

type CodeReading = { readonly code: string } | { readonly reason: CodeFault };

/** Characters; what is longer is no code but a line of something else. */
export const LONGEST_CODE = 255;

/** What may surround a code without being seen: white space, byte order marks, what has no width. */
const UNSEEN = /^[\p{White_Space}\p{Cf}\p{Default_Ignorable_Code_Point}]$/u;
/** Which quotes go together differs from country to country, so any two will do. */
const QUOTE = /^["'`´\p{Pi}\p{Pf}\u201A\u201E\u300C-\u300F\u301D-\u301F\uFF02\uFF07]$/u;
const FORMULA = /^[=+\-@＝＋－＠]$/u;
const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}]/u;
const UNREADABLE = /[\p{Cs}\uFFFD]/u;

/**
 * The code in a text: without what surrounds it unseen, quotes, the apostrophe that marks text for
 * spreadsheets, and the formula `="…"`. Codes have no fixed format (field notes: requests), so nothing
 * else is touched. Doing it twice changes nothing more. Takes linear time.
 *
 * Letter case counts: where look-up ignores it, which is only probable, two spellings cost one call more;
 * where it does not, one answer for both would be wrong.
 */
export function normalizeCode(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end) {
    const first = String.fromCodePoint(text.codePointAt(start) as number);
    const last = lastCharacter(text, end);
    if (UNSEEN.test(first)) start += first.length;
    else if (UNSEEN.test(last)) end -= last.length;
    else if (isTextFormula(text, start, end)) start++;
    // Not the first of two quotes: the one at the end is the formula's.
    else if (first === "'" && isTextFormula(text, start + 1, end)) start++;
    else if (end - start >= 2 && QUOTE.test(first) && QUOTE.test(last)) {
      start++;
      end--;
    } else if (first === "'" && FORMULA.test(text.charAt(start + 1))) start++;
    else break;
  }
  return text.slice(start, end);
}

/**
 * Whether `="…"` stands from `start` to `end`. With a quote within it is more than one text. All
 * quotes may be doubled, as in a CSV file that is read as lines.
 */
function isTextFormula(text: string, start: number, end: number): boolean {
  if (!text.startsWith('="', start)) return false;
  const quotes = end - start > 3 && text.startsWith('=""', start) ? '""' : '"';
  const closing = text.indexOf('"', start + 1 + quotes.length);
  return closing === end - quotes.length && text.startsWith(quotes, closing);
}

/** The whole character that ends before `end`. */
function lastCharacter(text: string, end: number): string {
  const pair = text.slice(Math.max(0, end - 2), end);
  return /^[\uD800-\uDBFF][\uDC00-\uDFFF]$/.test(pair) ? pair : text.charAt(end - 1);
}

/** Reads a text as a purchase code. Every text that can be one is taken for one. */
export function readCode(text: string): CodeReading {
  const code = normalizeCode(text);
  if (code === '') return { reason: 'empty' };
  if (UNREADABLE.test(code)) return { reason: 'unreadable-characters' };
  if (CONTROL.test(code)) return { reason: 'control-characters' };
  return isLonger(code, LONGEST_CODE) ? { reason: 'too-long' } : { code };
}

/** The reason in words, as the end of a sentence that begins with the place of the text. */
export function describeCodeFault(reason: CodeFault): string {
  switch (reason) {
    case 'empty':
      return 'is empty';
    case 'too-long':
      return `is longer than ${LONGEST_CODE} characters`;
    case 'control-characters':
      return 'has control characters within';
    case 'unreadable-characters':
      return 'has characters that can’t be read; perhaps the file is in another encoding';
  }
}

/** Servers may trim a code and change its letter case (field notes: requests). */
export function isSameCode(named: string, asked: string): boolean {
  return named === asked || named.trim().toLowerCase() === asked.trim().toLowerCase();
}

function isLonger(text: string, characters: number): boolean {
  if (text.length <= characters) return false;
  if (text.length > 2 * characters) return true;
  return Array.from(text).length > characters;
}
