/** Finds where JSON values end, in bytes and without parsing. */
export const QUOTE = 0x22;
export const COMMA = 0x2c;
export const COLON = 0x3a;
const BACKSLASH = 0x5c;
export const OPEN_BRACKET = 0x5b;
export const CLOSE_BRACKET = 0x5d;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;

/** In place of an index: the bytes end before the value does. */
export const CUT = -1;

export function skipSpace(bytes: Buffer, from: number): number {
  let at = from;
  for (; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
  }
  return at;
}

/** Index after a string's closing quote, or `CUT`. @param from index after its opening quote */
export function endOfString(bytes: Buffer, from: number): number {
  for (let at = from; ;) {
    const quote = bytes.indexOf(QUOTE, at);
    if (quote < 0) return CUT;
    let first = quote;
    while (first > at && bytes[first - 1] === BACKSLASH) first--;
    if ((quote - first) % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}

/** What a walk saw of an object or array. */
export interface Seen {
  /** Its deepest nesting level. */
  depth: number;
  /** Its top-level `id`, if it is a safe integer in plain notation, bare or quoted. The last one counts. */
  id: number | null;
}

/**
 * Index after a value, or `CUT`. Looks only at brackets and quotes, so an object with invalid JSON in it ends where it
 * should.
 */
export function endOfValue(bytes: Buffer, from: number, seen: Seen | null = null): number {
  const first = bytes[from];
  if (first === QUOTE) return endOfString(bytes, from + 1);
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) return endOfScalar(bytes, from);
  let depth = 1;
  let deepest = 1;
  for (let at = from + 1; at < bytes.length;) {
    const byte = bytes[at++];
    if (byte === QUOTE) {
      if (depth === 1 && seen !== null && first === OPEN_BRACE) noteId(bytes, at, seen);
      at = endOfString(bytes, at);
      if (at === CUT) return CUT;
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      if (++depth > deepest) deepest = depth;
    } else if ((byte === CLOSE_BRACE || byte === CLOSE_BRACKET) && --depth === 0) {
      if (seen !== null) seen.depth = deepest;
      return at;
    }
  }
  return CUT;
}

function endOfScalar(bytes: Buffer, from: number): number {
  for (let at = from; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET || byte <= 0x20) return at;
  }
  return CUT;
}

const ID = Buffer.from('id"');

/** Notes `"id": 123` or `"id": "123"`. @param at index after a quote at the top level of an object */
function noteId(bytes: Buffer, at: number, seen: Seen): void {
  if (bytes[at] !== ID[0] || bytes[at + 1] !== ID[1] || bytes[at + 2] !== ID[2]) return;
  const colon = skipSpace(bytes, at + ID.length);
  if (bytes[colon] !== COLON) return;
  const start = skipSpace(bytes, colon + 1);
  const end = endOfValue(bytes, start);
  const text = end === CUT ? '' : bytes.toString('latin1', start, Math.min(end, start + 20));
  const [, , digits = ''] = /^("?)(0|[1-9]\d*)\1$/.exec(text) ?? [];
  const id = Number(digits);
  seen.id = digits !== '' && Number.isSafeInteger(id) ? id : null;
}
