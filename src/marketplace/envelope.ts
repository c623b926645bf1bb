import type { Json } from '../domain/item.js';
import type { Redactor } from '../domain/redact.js';
import { isObject, parseJson, type JsonObject } from '../domain/values.js';
import {
  CLOSE_BRACE,
  COLON,
  CUT,
  endOfString,
  endOfValue,
  OPEN_BRACE,
  QUOTE,
  skipSpace,
  type Seen,
} from './json-walk.js';

/** A response body, parsed as leniently as possible without guessing. */
export type BodyReading =
  | {
      readonly kind: 'object';
      readonly value: JsonObject;
      readonly tolerated: readonly string[];
      readonly text: string;
      /** A decisive name that stands twice in one object; null if none does. `JSON.parse` drops the first value. */
      readonly repeated: string | null;
    }
  | { readonly kind: 'html'; readonly text: string }
  | {
      readonly kind: 'other';
      /** Completes a sentence that begins with "the answer". */
      readonly problem: string;
      /** True if it begins as JSON and ends before its last brace. */
      readonly cutOff: boolean;
      readonly text: string;
    };

/** Nesting levels. Deeper JSON is rejected; no record of this API comes close. */
export const MAX_DEPTH = 64;
/** Characters of an excerpt. */
const EXCERPT_LENGTH = 300;
/** Characters that an excerpt is made from; enough even if most are markup. */
const EXCERPT_SOURCE_LENGTH = 4_096;

/** Finds the JSON object in a body, even behind a byte order mark, white space or PHP warnings. */
export function readBody(body: Uint8Array): BodyReading {
  const bytes = asBuffer(body);
  const whole = bytes.toString('utf8');
  const text = whole.replace(/^[\uFEFF\s]+/, '');
  if (text === '') return other('is empty', '');
  if (isHtmlDocument(text)) return { kind: 'html', text };
  const isObjectFirst = text.startsWith('{');
  // Objects inside another JSON value are not the answer.
  if (!isObjectFirst && parse(text) !== undefined) {
    return other('is JSON, but not an object', text);
  }
  for (const start of objectStarts(bytes)) {
    const seen: Seen = { depth: 0, id: null };
    const end = endOfValue(bytes, start, seen);
    if (end === CUT) continue;
    const after = bytes.toString('utf8', end).trim();
    // What follows must be neither another object nor a closing tag.
    if (/\{\s*"/.test(after) || after.startsWith('</')) continue;
    if (seen.depth > MAX_DEPTH) return other('nests too deeply', text);
    const value = parse(bytes.toString('utf8', start, end));
    if (!isObject(value)) continue;
    const tolerated = [
      ...(whole.startsWith('\uFEFF') ? ['envelope.bom'] : []),
      ...(isObjectFirst ? [] : ['envelope.preamble']),
      ...(after === '' ? [] : ['envelope.trailer']),
    ];
    const repeated = repeatedName(bytes.subarray(start, end));
    return { kind: 'object', value, tolerated, text, repeated };
  }
  const cutOff = endsEarly(text);
  if (text.startsWith('<') && !cutOff) return { kind: 'html', text };
  return { ...other(cutOff ? 'ends early' : 'is not JSON', text), cutOff };
}

/** True if the text begins like a web page; false for the markup of a PHP warning. */
export function isHtmlDocument(text: string): boolean {
  return /^[\uFEFF\s]*<(?:!doctype|html|head|body|\?xml|!--)/i.test(text);
}

/** The beginning of a body for people to read: no markup, no control characters, secrets masked. */
export function excerpt(text: string, redactor: Redactor, length = EXCERPT_LENGTH): string {
  // Mask twice: cutting text can split the key, and removing markup can join its parts.
  const source = 2 * EXCERPT_SOURCE_LENGTH;
  const whole = redactor.text(text.slice(0, source));
  // A key cut in two at the end is not recognized, so drop as many characters as the key may have.
  const end = text.length > source ? Math.max(0, whole.length - redactor.longest) : whole.length;
  const masked = whole.slice(0, Math.min(end, EXCERPT_SOURCE_LENGTH));
  const plain = /^\s*</.test(masked) ? withoutMarkup(masked) : masked;
  const clean = redactor.text(printable(plain));
  if (clean.length <= length) return clean;
  return `${clean.slice(0, length - 1).replace(/\p{Cs}$/u, '')}…`;
}

function printable(text: string): string {
  return text
    .replace(/[\p{Cf}\p{Cs}\p{Co}\p{Cn}]+/gu, '')
    .replace(/[\p{Cc}\p{Z}]+/gu, ' ')
    .trim();
}

function withoutMarkup(html: string): string {
  return html
    .replace(/<(script|style)\b[^]*?(?:<\/\1\s*>|$)/gi, ' ')
    .replace(/<!--[^]*?(?:-->|$)/g, ' ')
    .replace(/<[^<>]*(?:>|$)/g, ' ');
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** The names that decide what an answer says, and about what. */
const DECISIVE = new Set(
  'status success ok msg message error errors data purchase purchase_code item id username'.split(
    ' ',
  ),
);

/** Longest JSON text of a decisive name: each character may be escaped. */
const LONGEST_NAME = '"purchase_code"'.length * 6;

/** The first decisive name that stands twice in one object. @param json bytes of valid JSON */
function repeatedName(json: Buffer): string | null {
  const open: Set<string>[] = [];
  for (let at = 0; at < json.length; at++) {
    const byte = json[at];
    if (byte === OPEN_BRACE) open.push(new Set());
    else if (byte === CLOSE_BRACE) open.pop();
    if (byte !== QUOTE) continue;
    const start = at;
    const end = endOfString(json, start + 1);
    at = end - 1;
    if (end - start > LONGEST_NAME || json[skipSpace(json, end)] !== COLON) continue;
    const name = nameOf(json.toString('latin1', start, end));
    const names = open.at(-1);
    if (names?.has(name) === true) return name;
    if (DECISIVE.has(name)) names?.add(name);
  }
  return null;
}

/** Decisive names are ASCII. @param text JSON of a name, read as latin1 */
function nameOf(text: string): string {
  return text.includes('\\') ? (JSON.parse(text) as string) : text.slice(1, -1);
}

function other(problem: string, text: string): BodyReading & { kind: 'other' } {
  return { kind: 'other', problem, cutOff: false, text };
}

/** True if an object begins in the text but does not end in it. */
function endsEarly(text: string): boolean {
  const bytes = Buffer.from(text);
  for (let start = objectStart(bytes, 0); start >= 0;) {
    const end = endOfValue(bytes, start);
    if (end === CUT) return true;
    start = objectStart(bytes, end);
  }
  return /\{\s*$/.test(text);
}

export function parse(text: string): Json | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** How many braces of a preamble to try as the start of the JSON. */
const MAX_STARTS = 32;
/** JSON begins within this many bytes. */
const MAX_PREAMBLE_BYTES = 1024 * 1024;

/**
 * Where objects may begin: the first brace of JSON, or in other text each brace with a name after it. Objects inside a
 * damaged envelope are not the answer.
 */
export function objectStarts(bytes: Buffer): number[] {
  const start = skipSpace(bytes, bytes[0] === 0xef && bytes[1] === 0xbb ? 3 : 0);
  if (bytes[start] === OPEN_BRACE) return [start];
  const starts: number[] = [];
  for (let at = objectStart(bytes, start); at >= 0; at = objectStart(bytes, at + 1)) {
    if (starts.length === MAX_STARTS || at > MAX_PREAMBLE_BYTES) break;
    starts.push(at);
  }
  return starts;
}

/** Index of the next brace with a name after it, or -1. */
function objectStart(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(OPEN_BRACE, from); at >= 0; at = bytes.indexOf(OPEN_BRACE, at + 1)) {
    if (bytes[skipSpace(bytes, at + 1)] === QUOTE) return at;
  }
  return -1;
}
