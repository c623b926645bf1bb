import { inspect } from 'node:util';

export const MASK = '[secret]';

/**
 * A value that can't be printed by accident: string conversion, JSON, `console.log` and template
 * literals show a mask. Only `reveal()` returns the text.
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

/** A code for display: at most its first 4 characters and a quarter of it. */
export function maskCode(text: string): string {
  const kept = text.slice(0, Math.min(4, Math.floor(text.length / 4)));
  return `${kept.toWellFormed()}…`;
}

/** UUIDs, the usual form of purchase codes, and at least 32 hex digits without hyphens. */
const LIKELY_CODES = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|[\da-f]{32,}/gi;

export function maskLikelyCodes(text: string): string {
  return text.replaceAll(LIKELY_CODES, maskCode);
}
