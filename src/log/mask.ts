import { MASK, maskCode, maskLikelyCodes, type Secret } from '../domain/secret.js';
import { Redactor } from '../domain/redact.js';

/** How one text is shown instead. */
export type TextMask = (text: string) => string;

/** Hides in text what no log may show. */
export interface Mask {
  readonly text: TextMask;
  /** The same for a whole line of JSON, which stays JSON. */
  readonly line: TextMask;
  /** Characters of the longest text that is hidden. */
  readonly longest: number;
}

/** User name and password within an address. */
const LOGIN = /([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/@]{1,1000}@/gi;
/** Characters of the longest text that is masked by its look: a login. */
const LONGEST_BY_LOOK = 1_024;

/** Hides the secrets however they are written, logins in addresses, and whatever looks like a purchase code. */
export function createMask(secrets: readonly Secret[]): Mask {
  const redactor = new Redactor(secrets);
  return {
    text: (text) => maskLikelyCodes(redactor.text(text).replaceAll(LOGIN, '$1…@')),
    // Logins would be looked for beyond the end of a value.
    line: (json) => maskLikelyCodes(redactor.literal(json)),
    longest: Math.max(LONGEST_BY_LOOK, redactor.longest),
  };
}

const CODE_NAMES = /^(?:(?:purchase|licen[cs]e)?codes?)$/;
const SECRET_NAMES = /(?:password|passwd|secret|token|apikey|authorization|cookie)$/;

/** How a text in a field of this name is shown, whatever it looks like; null when as it is. */
export function maskOfField(name: string): TextMask | null {
  const plain = name.toLowerCase().replaceAll(/[^a-z]/g, '');
  if (CODE_NAMES.test(plain)) return maskCode;
  return SECRET_NAMES.test(plain) ? () => MASK : null;
}

/** Control characters and marks that are not seen but act: on terminals, on lines, on reading direction. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * The same text with an escape of JSON for every character that is not seen, so that text from
 * outside can neither forge a line nor command a terminal. What was JSON still means the same.
 */
export function escapeUnseen(text: string): string {
  return text.replaceAll(UNSEEN, (character) => {
    if (character === '\n') return String.raw`\n`;
    const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
  });
}
