import type { Json } from '../domain/item.js';
import type { Redactor } from '../domain/redact.js';
import { isObject, parseJson, type JsonObject } from '../domain/values.js';
import { CUT, endOfValue, OPEN_BRACE, QUOTE, skipSpace } from './json-walk.js';

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
  if (body[0] === OPEN_BRACE) {
    const text = asBuffer(body).toString('utf8');
    const value = parse(text);
    if (value !== undefined) return reading(value, text, []);
  }
  return readLeniently(body);
}

function readLeniently(body: Uint8Array): BodyReading {
  const decoded = new TextDecoder('utf-8', { ignoreBOM: true }).decode(body);
  const text = decoded.replace(/^[\uFEFF\s]+/, '');
  if (text.trim() === '') return other('is empty', '');
  if (isHtmlDocument(text)) return { kind: 'html', text };
  const bom = decoded.startsWith('\uFEFF') ? ['envelope.bom'] : [];
  const whole = parse(text);
  if (whole !== undefined) return reading(whole, text, bom);
  const bytes = asBuffer(body);
  const starts = objectStarts(bytes);
  for (const start of starts) {
    const found = parseFrom(bytes, start);
    if (found === null) continue;
    const preamble = text.startsWith('{') ? [] : ['envelope.preamble'];
    const trailer = found.isFollowed ? ['envelope.trailer'] : [];
    return reading(found.value, text, [...bom, ...preamble, ...trailer], found.json);
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

export function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

/** @param json the part of the text that was parsed */
function reading(
  value: Json,
  text: string,
  tolerated: readonly string[],
  json: string = text,
): BodyReading {
  if (opensMoreThan(text, MAX_DEPTH) && nestsDeeper(value, MAX_DEPTH))
    return other('nests too deeply', text);
  if (!isObject(value)) return other('is JSON, but not an object', text);
  return { kind: 'object', value, tolerated, text, repeated: repeatedName(json) };
}

/** The names that decide what an answer says, and about what. */
const DECISIVE = new Set(
  'status success ok msg message error errors data purchase purchase_code item id username'.split(
    ' ',
  ),
);

export function isDecisive(name: string): boolean {
  return DECISIVE.has(name);
}

/** The first decisive name that stands twice in one object. @param json valid JSON */
function repeatedName(json: string): string | null {
  const open: Set<string>[] = [];
  for (let at = 0; at < json.length; at++) {
    const character = json[at];
    if (character === '{') open.push(new Set());
    else if (character === '}') open.pop();
    if (character !== '"') continue;
    const end = closingQuote(json, at + 1);
    const name = decisiveName(json.slice(at, end + 1));
    at = end;
    if (name === null || !/^\s*:/.test(json.slice(end + 1, end + 100))) continue;
    const names = open.at(-1);
    if (names?.has(name) === true) return name;
    names?.add(name);
  }
  return null;
}

/** Longest JSON text of a decisive name: each character may be escaped. */
const LONGEST_NAME = '"purchase_code"'.length * 6;

function decisiveName(token: string): string | null {
  if (token.length > LONGEST_NAME) return null;
  const name = JSON.parse(token) as string;
  return DECISIVE.has(name) ? name : null;
}

/** Index of the quote that closes a string. @param from index after the opening quote */
function closingQuote(json: string, from: number): number {
  for (let at = json.indexOf('"', from); at >= 0; at = json.indexOf('"', at + 1)) {
    let slashes = 0;
    while (json[at - 1 - slashes] === '\\') slashes++;
    if (slashes % 2 === 0) return at;
  }
  return json.length;
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

/** Parses the object that starts here. What follows it must be neither another object nor a closing tag. */
function parseFrom(
  bytes: Buffer,
  start: number,
): { readonly value: JsonObject; readonly json: string; readonly isFollowed: boolean } | null {
  const end = endOfValue(bytes, start);
  if (end === CUT) return null;
  const after = bytes.toString('utf8', end).trim();
  if (/\{\s*"/.test(after) || after.startsWith('</')) return null;
  const json = bytes.toString('utf8', start, end);
  const value = parse(json);
  return isObject(value) ? { value, json, isFollowed: after !== '' } : null;
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
export function objectStart(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(OPEN_BRACE, from); at >= 0; at = bytes.indexOf(OPEN_BRACE, at + 1)) {
    if (bytes[skipSpace(bytes, at + 1)] === QUOTE) return at;
  }
  return -1;
}

/** True if the text has more than `most` opening brackets, including those in strings. */
function opensMoreThan(text: string, most: number): boolean {
  let count = 0;
  for (const opening of ['{', '[']) {
    for (let at = text.indexOf(opening); at >= 0; at = text.indexOf(opening, at + 1)) {
      if (++count > most) return true;
    }
  }
  return false;
}

function nestsDeeper(json: Json, levels: number): boolean {
  if (typeof json !== 'object' || json === null) return false;
  if (levels === 0) return true;
  return Object.values(json).some((value) => nestsDeeper(value, levels - 1));
}
