export const QUOTE = 0x22;
export const COMMA = 0x2c;
export const COLON = 0x3a;
export const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
export const CLOSE_BRACKET = 0x5d;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;

/** Returned when the value or string does not end in this chunk. */
export const INCOMPLETE = -1;
/** As `INCOMPLETE`, and the chunk ends between a backslash and the character it escapes. */
const INCOMPLETE_ESCAPE = -2;

const ID_NOT_A_KEY = -1;
const ID_NOT_PLAIN = -2;
const ID_CUT_OFF = -3;

/** Search this many bytes of a string one by one: `indexOf` is slower for short strings. */
const NEAR_BYTES = 16;

export function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/**
 * Finds the end of a JSON value that arrives in chunks. It looks only at brackets and quotes, so a record with
 * invalid JSON is still one record. Also notes the value's top-level `id`, and whether it nests too deeply.
 */
export class ValueWalk {
  tooDeep = false;
  /** The integer under the key `id`. If the key is repeated, the last one counts, as in `JSON.parse`. */
  id: number | null = null;
  /** True if a chunk ended where the id may be. Then `idOf` must search the joined record. */
  idUnsure = false;
  readonly #maxDepth: number;
  #depth = 0;
  #kind = 0;
  #inString = false;
  #escaped = false;

  constructor(maxDepth: number) {
    this.#maxDepth = maxDepth;
  }

  /** Starts a value with its first byte; `walk` continues after it. */
  begin(first: number): void {
    this.tooDeep = false;
    this.id = null;
    this.idUnsure = false;
    this.#kind = first;
    this.#depth = first === OPEN_BRACE || first === OPEN_BRACKET ? 1 : 0;
    this.#inString = first === QUOTE;
    this.#escaped = false;
  }

  /** Index after the value's last byte, or `INCOMPLETE`. */
  walk(chunk: Buffer, from: number): number {
    let at = from;
    if (this.#inString) {
      at = this.#leaveString(chunk, at);
      if (at < 0) return INCOMPLETE;
    }
    if (this.#depth > 0) return this.#nested(chunk, at);
    return this.#kind === QUOTE ? at : scalarEnd(chunk, at);
  }

  #nested(chunk: Buffer, from: number): number {
    const end = chunk.length;
    const maxDepth = this.#maxDepth;
    const idDepth = this.#kind === OPEN_BRACE ? 1 : -1;
    let depth = this.#depth;
    let at = from;
    while (at < end) {
      const byte = chunk[at++] as number;
      if (byte === QUOTE) {
        if (depth === idDepth) this.#noteId(chunk, at);
        const after = closeString(chunk, at);
        if (after < 0) {
          this.#inString = true;
          this.#escaped = after === INCOMPLETE_ESCAPE;
          break;
        }
        at = after;
      } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        if (++depth > maxDepth) this.tooDeep = true;
      } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
        if (--depth === 0) return at;
      }
    }
    this.#depth = depth;
    return INCOMPLETE;
  }

  #leaveString(chunk: Buffer, from: number): number {
    const start = this.#escaped ? from + 1 : from;
    const after = closeString(chunk, start);
    this.#inString = after < 0;
    this.#escaped = after === INCOMPLETE_ESCAPE;
    return after;
  }

  /** @param at index after a quote at the top level of the record */
  #noteId(chunk: Buffer, at: number): void {
    if (at + 2 >= chunk.length) {
      this.idUnsure = true;
      return;
    }
    if (chunk[at] !== 0x69 || chunk[at + 1] !== 0x64 || chunk[at + 2] !== QUOTE) return;
    const id = readId(chunk, at + 3);
    if (id === ID_CUT_OFF) this.idUnsure = true;
    else if (id !== ID_NOT_A_KEY) this.id = id === ID_NOT_PLAIN ? null : id;
  }
}

export function idOf(record: Buffer, maxDepth: number): number | null {
  const walk = new ValueWalk(maxDepth);
  walk.begin(record[0] as number);
  walk.walk(record, 1);
  return walk.id;
}

/** Index after the string's closing quote, or an `INCOMPLETE…`. @param from index of a byte that is not escaped */
function closeString(chunk: Buffer, from: number): number {
  const end = chunk.length;
  let at = from;
  for (;;) {
    const near = Math.min(at + NEAR_BYTES, end);
    while (at < near) {
      const byte = chunk[at];
      if (byte === QUOTE) return at + 1;
      at += byte === BACKSLASH ? 2 : 1;
    }
    if (at >= end) return at === end ? INCOMPLETE : INCOMPLETE_ESCAPE;
    const quote = chunk.indexOf(QUOTE, at);
    const stop = quote < 0 ? end : quote;
    let slashes = 0;
    while (stop - slashes > at && chunk[stop - slashes - 1] === BACKSLASH) slashes++;
    const escaped = slashes % 2 === 1;
    if (quote < 0) return escaped ? INCOMPLETE_ESCAPE : INCOMPLETE;
    if (!escaped) return quote + 1;
    at = quote + 1;
  }
}

function scalarEnd(chunk: Buffer, from: number): number {
  for (let at = from; at < chunk.length; at++) {
    const byte = chunk[at];
    if (byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET || isSpace(byte)) {
      return at;
    }
  }
  return INCOMPLETE;
}

/** Reads `: 123` or `: "123"` after the key `id`. */
function readId(chunk: Buffer, from: number): number {
  let at = skipSpace(chunk, from);
  if (at === chunk.length) return ID_CUT_OFF;
  if (chunk[at] !== COLON) return ID_NOT_A_KEY;
  at = skipSpace(chunk, at + 1);
  const quoted = chunk[at] === QUOTE;
  if (quoted) at++;
  const first = at;
  let value = 0;
  for (; at < chunk.length; at++) {
    const digit = (chunk[at] as number) - 0x30;
    if (digit < 0 || digit > 9) break;
    value = value * 10 + digit;
    if (value > Number.MAX_SAFE_INTEGER) return ID_NOT_PLAIN;
  }
  if (at === chunk.length) return ID_CUT_OFF;
  const digits = at - first;
  if (digits === 0 || (digits > 1 && chunk[first] === 0x30)) return ID_NOT_PLAIN;
  const next = chunk[at];
  const ends = quoted ? next === QUOTE : next === COMMA || next === CLOSE_BRACE || isSpace(next);
  return ends ? value : ID_NOT_PLAIN;
}

function skipSpace(chunk: Buffer, from: number): number {
  let at = from;
  while (at < chunk.length && isSpace(chunk[at])) at++;
  return at;
}
