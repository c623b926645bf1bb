import { holdsToken } from '../domain/secret.js';

/*
 * What a text from a list, a form or a program says as a purchase code. One text, one code:
 *
 * - `readCell(text)` gives the code as written, or why the text is none;
 * - `formsOf(code)` gives the forms in which to ask about it, in order. A code is denied when each form is denied;
 * - `looksLikeCode(text)` is false for `n/a`, `-` or `TBD`, which are asked about like any code.
 */

export type CodeFault =
  | 'empty'
  | 'too-long'
  /** Such as a null character: no list and no person writes one. */
  | 'control-characters'
  /** U+FFFD or half a surrogate pair: the text was probably decoded with the wrong encoding. */
  | 'unreadable-characters'
  /** Several codes in one text. */
  | 'several-codes'
  /** A token of the look-up API, which must not be sent or stored. */
  | 'token';

export type CellReading =
  /** As written, without what surrounds it. */
  | { readonly code: string }
  | {
      readonly reason: CodeFault;
      /** Completes a sentence that begins with the position of the text: `holds 2 codes`. */
      readonly fault: string;
    };

/** Characters. Longer text is a line of something else. */
export const LONGEST_CODE = 255;

/** Invisible characters: white space, byte order marks, zero-width characters. */
const INVISIBLE = /^[\p{White_Space}\p{Cf}\p{Default_Ignorable_Code_Point}]$/u;
/** Any two of these make a pair: languages pair quotes differently. */
const QUOTE = /^["'`´\p{Pi}\p{Pf}\u201A\u201E\u300C-\u300F\u301D-\u301F\uFF02\uFF07]$/u;
const FORMULA = /^[=+\-@＝＋－＠]$/u;
/** White space that a cell or a form may hold, but no code: line breaks and tabs. */
const BREAKS = /[\t-\r\u0085\u2028\u2029]+/g;
const CONTROL = /[^\P{Cc}\t-\r\u0085]/u;
/** Neither separators nor blanks: one code, if any. */
const UNDIVIDED = /^[\p{L}\p{N}\p{Pd}_.]+$/u;
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

/** Reads the one purchase code in a text, or says why there is none. In linear time. */
export function readCell(text: string): CellReading {
  const written = normalizeCode(text);
  if (holdsToken(written)) {
    return { reason: 'token', fault: 'is a look-up token: it was neither sent nor stored' };
  }
  // The fast path, for almost all of millions of codes.
  if (written.length <= LONGEST_CODE && UNDIVIDED.test(written)) return { code: written };
  if (written === '') return { reason: 'empty', fault: 'is empty' };
  if (UNREADABLE.test(written)) {
    const fault = 'has characters that can’t be read; perhaps the file is in another encoding';
    return { reason: 'unreadable-characters', fault };
  }
  const control = CONTROL.exec(written);
  if (control !== null) {
    const number = control[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, '0');
    const place = Array.from(written.slice(0, control.index)).length;
    const fault = `has the control character U+${number} after character ${place}`;
    return { reason: 'control-characters', fault };
  }
  const codes = countCodes(written);
  if (codes > 1) {
    return { reason: 'several-codes', fault: `holds ${codes} codes: give each its own line` };
  }
  const code = written.replaceAll(BREAKS, ' ');
  return isLonger(code, LONGEST_CODE)
    ? { reason: 'too-long', fault: `is longer than ${LONGEST_CODE} characters` }
    : { code };
}

/**
 * The forms in which to ask the marketplace about a code, each once and in this order: as written, plain, and without
 * blanks. Codes have no fixed format and may really be written with blanks or unusual characters, so the plain form
 * never replaces the written one.
 *
 * Plain: typographic dashes, blanks and quotes, fullwidth forms, digits of other scripts, and Cyrillic or Greek letters
 * that look Latin are replaced, characters without width are removed, and so are a label before a colon, and words around
 * a code.
 * @param text a code, or a cell that may hold one
 * @returns one form or more; only the first if the text holds no code or several
 */
export function formsOf(text: string): readonly [string, ...string[]] {
  const read = readCell(text);
  if (!('code' in read)) return [normalizeCode(text)];
  const { code } = read;
  if (SIMPLE.test(code)) return [code];
  const { plain, joined } = plainFormsOf(code);
  const others = [plain, joined].filter((form) => form !== code && isForm(form));
  return [code, ...new Set(others)];
}

/** Nothing to change: no blanks, no unusual characters, no punctuation around. */
const SIMPLE = /^[A-Za-z\d]+(?:-[A-Za-z\d]+)*$/;

function isForm(form: string): boolean {
  return form !== '' && !isLonger(form, LONGEST_CODE) && !UNREADABLE.test(form);
}

/** The plain form of a text, for comparing its looks: see `formsOf`. */
export function plainForm(text: string): string {
  const read = readCell(text);
  if (!('code' in read)) return normalizeCode(text);
  return SIMPLE.test(read.code) ? read.code : plainFormsOf(read.code).plain;
}

/** False for what is hardly a code of any marketplace: no digit, or fewer than six letters and digits. */
export function looksLikeCode(text: string): boolean {
  const characters = text.match(LETTERS_AND_DIGITS)?.join('') ?? '';
  return /\p{Nd}/u.test(characters) && Array.from(characters).length >= 6;
}

const LETTERS_AND_DIGITS = /[\p{L}\p{N}]+/gu;

function plainFormsOf(written: string): { readonly plain: string; readonly joined: string } {
  const text = withoutLookAlikes(written);
  const divided = dividedCodes(text);
  const typical = codeInside(text) ?? divided[0]?.code ?? null;
  if (typical !== null) return { plain: typical, joined: divided.at(-1)?.code ?? typical };
  const code = withoutLabel(text);
  const [only = '', ...others] = withoutWords(code.split(' '));
  const plain = others.length === 0 && looksLikeCode(only) ? withoutPunctuation(only) : code;
  return { plain, joined: code.replaceAll(' ', '') };
}

interface DividedCode {
  readonly code: string;
  /** The text around it. */
  readonly rest: string;
}

/** Words of a longer text are prose. */
const MOST_WORDS = 12;

/** Typical codes that blanks divide, with words or a label around: the one of the fewest parts first. */
function dividedCodes(text: string): readonly DividedCode[] {
  const found: DividedCode[] = [];
  for (const part of new Set([text, withoutLabel(text)])) {
    const words = part.split(' ');
    if (words.length > MOST_WORDS) continue;
    for (let from = 0; from < words.length; from++) {
      for (let to = from + 2; to <= words.length; to++) {
        const code = withoutPunctuation(words.slice(from, to).join(''));
        const rest = [...words.slice(0, from), ...words.slice(to)].join(' ');
        if (isTypicalCode(code)) found.push({ code, rest });
      }
    }
  }
  return found.sort((a, b) => a.code.length - b.code.length);
}

/** Leaves out what stands before the last colon or equals sign, if a code may follow. */
function withoutLabel(text: string): string {
  const label = /^.*[:=]/.exec(text)?.[0] ?? '';
  const rest = normalizeCode(text.slice(label.length));
  return looksLikeCode(rest) ? rest : text;
}

/** Leaves out words before and after the parts with digits: `my code AB-12 (Regular)`. */
function withoutWords(parts: readonly string[]): readonly string[] {
  const hasDigit = (part: string): boolean => /\d/.test(part);
  return parts.slice(parts.findIndex(hasDigit), parts.findLastIndex(hasDigit) + 1);
}

function withoutPunctuation(text: string): string {
  return text.replace(/^[^\p{L}\p{N}]+/u, '').replace(/(?<=[\p{L}\p{N}])[^\p{L}\p{N}]+$/u, '');
}

/** Counts the parts of a text that could be codes. One code may have blanks inside, or no part that could be one. */
function countCodes(written: string): number {
  const text = withoutLookAlikes(written);
  const divided = text.split(' ').some(isTypicalCode) ? undefined : dividedCodes(text).at(-1);
  const parts = (divided?.rest ?? text)
    .replaceAll(/\b\w+:\/\/[^\s/]+/g, '')
    .split(/[\s,;/|&+]+/u)
    .filter((part) => couldBeCode(part.replace(/^\D*[:=]/, '')));
  return parts.length + (divided === undefined ? 0 : 1);
}

const DATE = /^\d{1,4}[-.]\d{1,2}[-.]\d{1,4}(?:T[\d:.Z-]*)?$/;
const AMOUNT = /^[^\p{L}\d]*\d[\d']*[.'][\d.']*\D?$/u;

/** True for a part with a digit and at least eight letters or digits that is no date, amount or address. */
function couldBeCode(part: string): boolean {
  const characters = part.match(LETTERS_AND_DIGITS)?.join('') ?? '';
  if (characters.length < 8 || !/\p{Nd}/u.test(characters)) return false;
  const isShort = part.length <= 32;
  return !(isShort && (DATE.test(part) || AMOUNT.test(part))) && !/^[^@]+@[^@]+$/.test(part);
}

/** True for a UUID or many hex digits, like the codes of most marketplaces. */
export function isTypicalCode(text: string): boolean {
  return (
    /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/i.test(text) || /^[\da-f]{32,128}$/i.test(text)
  );
}

/** The only typical code in a text that holds something else, too. */
function codeInside(text: string): string | null {
  const parts = text.split(/[\s,;:.=#/?&|*()[\]{}<>"']+/u);
  const codes = parts.filter(isTypicalCode);
  return parts.length > 1 && codes.length === 1 ? (codes[0] ?? null) : null;
}

/** Cyrillic and Greek letters, each above the Latin letter that looks the same. */
const FOREIGN = 'АВЕЅІЈКМНОРСТХУасеіјорхуѕԁһΑΒΕΖΗΙΚΜΝΟΡΤΥΧο';
const LATIN = 'ABESIJKMHOPCTXYaceijopxysdhABEZHIKMNOPTYXo';

/** A text as it would be typed: its visible characters, with one ordinary blank between words. */
function withoutLookAlikes(text: string): string {
  const typed = text
    .normalize('NFKC')
    .replaceAll(/[\p{Pd}\u2043\u2212\u02D7]/gu, '-')
    .replaceAll(/[\p{White_Space}\u2800]+/gu, ' ')
    .replaceAll(/[\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, '')
    .replaceAll(/[\u2018-\u201B\u2032\u02BC]/g, "'")
    .replaceAll(/(?!\d)\p{Nd}/gu, asciiDigit)
    .replaceAll(/[\u0370-\u052F]/g, (letter) => LATIN[FOREIGN.indexOf(letter)] ?? letter);
  return normalizeCode(typed);
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
