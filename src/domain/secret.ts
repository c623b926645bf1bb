import { inspect } from 'node:util';

export const MASK = '[secret]';

/**
 * A value that can't be printed by accident: string conversion, JSON and `console.log` show a mask. Only
 * `reveal()` returns the text.
 */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  reveal(): string {
    return this.#text;
  }

  toString(): string {
    return MASK;
  }

  toJSON(): string {
    return MASK;
  }

  [inspect.custom](): string {
    return MASK;
  }
}

/** How tokens of the look-up API begin. People and secret scanners recognize them by it. */
export const TOKEN_PREFIX = 'smt_';
const TOKEN = new RegExp(`${TOKEN_PREFIX}[\\w-]{20,}`, 'g');

/** True for a text with a token of the look-up API in it. */
export function holdsToken(text: string): boolean {
  return text.includes(TOKEN_PREFIX) && text.search(TOKEN) >= 0;
}

export function maskTokens(text: string): string {
  return text.includes(TOKEN_PREFIX) ? text.replaceAll(TOKEN, MASK) : text;
}

/** A code for display: its first characters, at most 4 and at most a quarter of it. */
export function maskCode(text: string): string {
  const kept = text.slice(0, Math.min(4, Math.floor(text.length / 4)));
  return `${kept.toWellFormed()}…`;
}

/** The usual forms of purchase codes: UUIDs, and 32 or more hex digits. */
const LIKELY_CODES = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|[\da-f]{32,}/gi;

export function maskLikelyCodes(text: string): string {
  return text.replaceAll(LIKELY_CODES, maskCode);
}
