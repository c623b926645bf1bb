import type { Json } from '../domain/item.js';
import type { Redactor } from '../domain/redact.js';
import { isObject, type JsonObject } from '../domain/values.js';
import { GOES_ON, OPEN_BRACE, ValueWalk } from './value-walk.js';

/** A body, read as leniently as possible without guessing. */
export type BodyReading =
  | {
      readonly kind: 'object';
      readonly value: JsonObject;
      readonly tolerated: readonly string[];
      readonly text: string;
    }
  | { readonly kind: 'html'; readonly text: string }
  | {
      readonly kind: 'other';
      /** The problem, as the end of a sentence that begins with "the answer". */
      readonly problem: string;
      /** It begins as JSON and ends before its last brace. */
      readonly cutOff: boolean;
      readonly text: string;
    };

/** Levels of nesting. Deeper JSON is refused; no record of this API has so many. */
export const MAX_DEPTH = 64;
/** Number of braces in a preamble that are tried as the start of the JSON. */
export const MAX_STARTS = 32;
const EXCERPT_LENGTH = 300;
/** Characters; enough for an excerpt even when most are markup. */
const EXCERPT_SOURCE_LENGTH = 4_096;

/** Finds the JSON object in a body, also after a byte order mark, white space or PHP warnings. */
export function readBody(body: Uint8Array): BodyReading {
  return readOrdinary(body) ?? readAny(body);
}

function readOrdinary(body: Uint8Array): BodyReading | null {
  if (body[0] !== OPEN_BRACE) return null;
  const text = asBuffer(body).toString('utf8');
  const value = parse(text);
  return value === undefined ? null : reading(value, text, []);
}

function readAny(body: Uint8Array): BodyReading {
  const decoded = new TextDecoder('utf-8', { ignoreBOM: true }).decode(body);
  const text = decoded.replace(/^[\uFEFF\s]+/, '');
  if (text.trim() === '') return other('is empty', '');
  if (isHtmlDocument(text)) return { kind: 'html', text };
  const bom = decoded.startsWith('\uFEFF') ? ['envelope.bom'] : [];
  const whole = parse(text);
  if (whole !== undefined) return reading(whole, text, bom);
  for (const start of objectStarts(text)) {
    const value = parse(text.slice(start));
    if (isObject(value)) return reading(value, text, [...bom, 'envelope.preamble']);
  }
  const cutOff = endsEarly(text);
  if (text.startsWith('<') && !cutOff) return { kind: 'html', text };
  return { ...other(cutOff ? 'ends early' : 'is not JSON', text), cutOff };
}

/** True for text that begins like a page; false for the markup of a PHP warning. */
export function isHtmlDocument(text: string): boolean {
  return /^[\uFEFF\s]*<(?:!doctype|html|head|body|\?xml|!--)/i.test(text);
}

/** The beginning of a body for people: text only, secrets masked, without control characters. */
export function excerpt(text: string, redactor: Redactor, length = EXCERPT_LENGTH): string {
  // Masked twice: before cutting or removing text splits the key, and after removing text joins it.
  const source = 2 * EXCERPT_SOURCE_LENGTH;
  const whole = redactor.text(text.slice(0, source));
  // A key that was cut at the end is not recognized: drop as many characters as it may have.
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

function reading(value: Json, text: string, tolerated: readonly string[]): BodyReading {
  if (opensMoreThan(text, MAX_DEPTH) && nestsDeeper(value, MAX_DEPTH))
    return other('nests too deeply', text);
  if (!isObject(value)) return other('is JSON, but not an object', text);
  return { kind: 'object', value, tolerated, text };
}

function other(problem: string, text: string): BodyReading & { kind: 'other' } {
  return { kind: 'other', problem, cutOff: false, text };
}

/** True when an object that begins in the text has not ended where the text ends. */
function endsEarly(text: string): boolean {
  const bytes = Buffer.from(text);
  const walk = new ValueWalk(MAX_DEPTH);
  const start = /\{\s*"/g;
  // One character for each byte, so that positions in it are positions in the bytes.
  const characters = bytes.toString('latin1');
  while (start.test(characters)) {
    walk.begin(OPEN_BRACE);
    // The quote is the last character of the match.
    const after = walk.walk(bytes, start.lastIndex - 1);
    if (after === GOES_ON) return true;
    start.lastIndex = after;
  }
  return false;
}

export function parse(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

function objectStarts(text: string): number[] {
  const starts: number[] = [];
  for (const match of text.matchAll(/\{\s*"/g)) {
    starts.push(match.index);
    if (starts.length === MAX_STARTS) break;
  }
  return starts;
}

/** True when JSON has more than `most` opening brackets, those in strings included. */
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
