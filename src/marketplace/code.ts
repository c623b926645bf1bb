export type CodeFault =
  | 'empty'
  | 'too-long'
  /** A line break, a tab or the like inside the text. */
  | 'control-characters'
  /** A character without width inside the text, which copying from a page or document leaves behind. */
  | 'invisible-characters'
  /** U+FFFD or half a surrogate pair: the text was probably decoded with the wrong encoding. */
  | 'unreadable-characters'
  /** Several codes in one text. */
  | 'several-codes';

type CodeReading =
  | { readonly code: string }
  | {
      readonly reason: CodeFault;
      /** Completes a sentence that begins with the position of the text. */
      readonly fault: string;
    };

/** Characters. Longer text is a line of something else. */
export const LONGEST_CODE = 255;

/** Invisible characters: white space, byte order marks, zero-width characters. */
const INVISIBLE = /^[\p{White_Space}\p{Cf}\p{Default_Ignorable_Code_Point}]$/u;
/** Any two of these make a pair: languages pair quotes differently. */
const QUOTE = /^["'`´\p{Pi}\p{Pf}\u201A\u201E\u300C-\u300F\u301D-\u301F\uFF02\uFF07]$/u;
const FORMULA = /^[=+\-@＝＋－＠]$/u;
const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}]/u;
/** Neither separators nor unusual characters. */
const PLAIN = /^[\w.-]+$/;
/** Characters that nobody sees, so that no customer was given them. */
const UNSEEN = /[\p{Cc}\p{Zl}\p{Zp}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;
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
  // The fast path, for almost all of millions of codes.
  if (PLAIN.test(code) && code.length <= LONGEST_CODE) return { code };
  if (code === '') return { reason: 'empty', fault: 'is empty' };
  if (UNREADABLE.test(code)) {
    const fault = 'has characters that can’t be read; perhaps the file is in another encoding';
    return { reason: 'unreadable-characters', fault };
  }
  const codes = Math.max(countCodes(code, isTypicalCode), countAlike(code));
  if (codes > 1) return { reason: 'several-codes', fault: severalCodes(codes) };
  const unseen = unseenIn(code);
  if (unseen !== null) return unseen;
  return isLonger(code, LONGEST_CODE)
    ? { reason: 'too-long', fault: `is longer than ${LONGEST_CODE} characters` }
    : { code };
}

export function severalCodes(codes: number): string {
  return `holds ${codes} codes: give each its own line`;
}

/** What may stand between two codes. */
const SEPARATORS = [
  /(?:[\s,;|/&+]|\b(?:and|or|und|et|y)\b)+/iu,
  /\s*[,;|/&+\r\n]\s*/u,
  /\s*\b(?:and|or|und|et|y)\b\s*/iu,
  /\s+/u,
];

/**
 * Counts the codes in a text.
 * @param isCode decides whether a part looks like the other codes
 * @returns 1 unless every part looks like a code
 */
export function countCodes(text: string, isCode: (part: string) => boolean): number {
  for (const separator of SEPARATORS) {
    if (!separator.test(text)) continue;
    const parts = text.split(separator).map(withoutQuotes);
    const filled = parts.filter((part) => part !== '');
    if (filled.length > 1 && filled.every(isCode)) return filled.length;
  }
  return 1;
}

/**
 * Counts codes of one shape with commas or the like between them: `ENV-7Q2K, ENV-9X3B`. Blanks, slashes and the like may
 * be part of a code.
 * @returns 1 unless all parts have the same shape, at least 8 characters and a digit
 */
function countAlike(text: string): number {
  const parts = text.split(/[,;|\r\n]+/u);
  if (parts.length === 1) return 1;
  const filled = parts.map(withoutQuotes).filter((part) => part !== '');
  const [shape = ''] = filled.map(shapeOf);
  const areAlike = filled.every(
    (part) => part.length >= 8 && /\d/.test(part) && !/\s/.test(part) && shapeOf(part) === shape,
  );
  return areAlike ? Math.max(1, filled.length) : 1;
}

/** `ENV-7Q2K` → `xxx-xxxx`. */
export function shapeOf(code: string): string {
  return code.replaceAll(/[\p{L}\p{N}]/gu, 'x');
}

/** Also quotes without a partner, which the text around the codes may have lost. */
function withoutQuotes(text: string): string {
  const characters = Array.from(normalizeCode(text));
  const isText = (character: string): boolean => !QUOTE.test(character);
  return characters
    .slice(characters.findIndex(isText), characters.findLastIndex(isText) + 1)
    .join('');
}

/** True for a UUID or many hex digits, like the codes of most marketplaces. */
export function isTypicalCode(text: string): boolean {
  return (
    /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/i.test(text) || /^[\da-f]{32,128}$/i.test(text)
  );
}

/** True for a typical code with words, blanks or punctuation around it: `Code: 8F3A…` or `8F3A….`, as people paste it. */
export function hasTextAround(text: string): boolean {
  return codeInside(text) !== null;
}

/** The only typical code in a text that holds something else, too. */
function codeInside(text: string): string | null {
  const parts = text.split(/[\s,;:.=#/?&|*()[\]{}<>"']+/u);
  const codes = parts.filter(isTypicalCode);
  return parts.length > 1 && codes.length === 1 ? (codes[0] ?? null) : null;
}

/** Names of characters that come along when text is copied. */
const NAMES: Readonly<Record<number, string>> = {
  0x00: 'null character',
  0x09: 'tab',
  0x0a: 'line feed',
  0x0d: 'carriage return',
  0xad: 'soft hyphen',
  0x034f: 'combining grapheme joiner',
  0x061c: 'Arabic letter mark',
  0x180e: 'Mongolian vowel separator',
  0x200b: 'zero width space',
  0x200c: 'zero width non-joiner',
  0x200d: 'zero width joiner',
  0x200e: 'left-to-right mark',
  0x200f: 'right-to-left mark',
  0x2028: 'line separator',
  0x2029: 'paragraph separator',
  0x202a: 'left-to-right embedding',
  0x202b: 'right-to-left embedding',
  0x202c: 'pop directional formatting',
  0x202d: 'left-to-right override',
  0x202e: 'right-to-left override',
  0x2060: 'word joiner',
  0x2066: 'left-to-right isolate',
  0x2067: 'right-to-left isolate',
  0x2068: 'first strong isolate',
  0x2069: 'pop directional isolate',
  0xfeff: 'byte order mark',
};

/** Names the first invisible character and its place: `has U+200B zero width space after character 8`. */
function unseenIn(code: string): Exclude<CodeReading, { readonly code: string }> | null {
  const found = [...code.slice(0, 4 * LONGEST_CODE).matchAll(UNSEEN)];
  const [first] = found;
  if (first === undefined) return null;
  const point = first[0].codePointAt(0) ?? 0;
  const isControl = CONTROL.test(first[0]);
  const name = NAMES[point] ?? (isControl ? 'control character' : 'invisible character');
  const number = point.toString(16).toUpperCase().padStart(4, '0');
  const place = Array.from(code.slice(0, first.index)).length;
  const more = found.length === 1 ? '' : `, and ${found.length - 1} more`;
  return {
    reason: isControl ? 'control-characters' : 'invisible-characters',
    fault: `has U+${number} ${name} after character ${place}${more}`,
  };
}

/** Cyrillic and Greek letters, each above the Latin letter that looks the same. */
const FOREIGN = 'АВЕЅІЈКМНОРСТХУасеіјорхуѕԁһΑΒΕΖΗΙΚΜΝΟΡΤΥΧο';
const LATIN = 'ABESIJKMHOPCTXYaceijopxysdhABEZHIKMNOPTYXo';

/**
 * The code as it would be typed: typographic dashes, blanks and quotes, fullwidth forms, digits of other scripts, and
 * Cyrillic or Greek letters that look Latin become plain, and text around a typical code goes. Ask for this form as well
 * when a code is denied, and say which form was valid: no list is repaired silently, because a code may really be written
 * like that.
 * @returns null if the code is plain already
 */
export function plainForm(code: string): string | null {
  const plain = code
    .normalize('NFKC')
    .replaceAll(/[\p{Pd}\u2043\u2212\u02D7]/gu, '-')
    .replaceAll(/[\p{Zs}\u2800]/gu, ' ')
    .replaceAll(/[\u2018-\u201B\u2032\u02BC]/g, "'")
    .replaceAll(/(?!\d)\p{Nd}/gu, asciiDigit)
    .replaceAll(/[\u0370-\u052F]/g, (letter) => LATIN[FOREIGN.indexOf(letter)] ?? letter);
  const read = readCode(plain);
  if (!('code' in read)) return null;
  const form = codeInside(read.code) ?? read.code;
  return form === code ? null : form;
}

/** Digits of a script are ten in a row, beginning with zero. */
function asciiDigit(digit: string): string {
  const point = digit.codePointAt(0) ?? 0;
  let value = 0;
  while (value < 9 && /\p{Nd}/u.test(String.fromCodePoint(point - value - 1))) value++;
  return String(value);
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
