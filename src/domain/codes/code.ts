export type CodeFault =
  | 'empty'
  | 'too-long'
  /** A line break, a tab or the like inside the text. */
  | 'control-characters'
  /** U+FFFD or half a surrogate pair: the text was probably decoded with the wrong encoding. */
  | 'unreadable-characters';

type CodeReading = { readonly code: string } | { readonly reason: CodeFault };

/** Characters. Longer text is a line of something else. */
export const LONGEST_CODE = 255;

/** Invisible characters: white space, byte order marks, zero-width characters. */
const INVISIBLE = /^[\p{White_Space}\p{Cf}\p{Default_Ignorable_Code_Point}]$/u;
/** Any two of these make a pair: languages pair quotes differently. */
const QUOTE = /^["'`´\p{Pi}\p{Pf}\u201A\u201E\u300C-\u300F\u301D-\u301F\uFF02\uFF07]$/u;
const FORMULA = /^[=+\-@＝＋－＠]$/u;
const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}]/u;
const UNREADABLE = /[\p{Cs}\uFFFD]/u;

/**
 * Strips invisible characters, quotes, the apostrophe that marks text in spreadsheets, and the formula
 * `="…"` from around a code. Codes have no fixed format (servers: requests), so nothing else changes.
 * Idempotent, in linear time.
 *
 * Letter case is kept. Servers probably ignore it, and then two spellings only cost an extra call. If a
 * server does not ignore it, one answer for both spellings would be wrong.
 */
export function normalizeCode(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end) {
    const first = String.fromCodePoint(text.codePointAt(start) as number);
    const last = lastCharacter(text, end);
    if (INVISIBLE.test(first)) start += first.length;
    else if (INVISIBLE.test(last)) end -= last.length;
    else if (isTextFormula(text, start, end)) start++;
    // An apostrophe before a formula has no partner: the last quote belongs to the formula.
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
 * True for `="…"` from `start` to `end`, without a quote inside. All quotes may be doubled, as in a CSV
 * file that is read as plain lines.
 */
function isTextFormula(text: string, start: number, end: number): boolean {
  if (!text.startsWith('="', start)) return false;
  const quotes = end - start > 3 && text.startsWith('=""', start) ? '""' : '"';
  const closing = text.indexOf('"', start + 1 + quotes.length);
  return closing === end - quotes.length && text.startsWith(quotes, closing);
}

/** The character before `end`, whole if it is a surrogate pair. */
function lastCharacter(text: string, end: number): string {
  const pair = text.slice(Math.max(0, end - 2), end);
  return /^[\uD800-\uDBFF][\uDC00-\uDFFF]$/.test(pair) ? pair : text.charAt(end - 1);
}

/** Reads a purchase code, or says why the text can't be one. */
export function readCode(text: string): CodeReading {
  const code = normalizeCode(text);
  if (code === '') return { reason: 'empty' };
  if (UNREADABLE.test(code)) return { reason: 'unreadable-characters' };
  if (CONTROL.test(code)) return { reason: 'control-characters' };
  return isLonger(code, LONGEST_CODE) ? { reason: 'too-long' } : { code };
}

/** Completes a sentence that begins with the position of the text. */
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

/** Compares a code from an answer: servers may trim it and change its case (servers: requests). */
export function isSameCode(answered: string, sent: string): boolean {
  return answered === sent || answered.trim().toLowerCase() === sent.trim().toLowerCase();
}

function isLonger(text: string, characters: number): boolean {
  if (text.length <= characters) return false;
  if (text.length > 2 * characters) return true;
  return Array.from(text).length > characters;
}
