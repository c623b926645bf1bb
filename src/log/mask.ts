import { maskCode, maskLikelyCodes } from '../domain/mask-code.js';
import type { Secret } from '../domain/secret.js';
import { base64SpellingsOf, spellingsOf } from '../domain/spellings.js';

export const MASK = '[secret]';

/** How one text is shown instead. */
export type TextMask = (text: string) => string;

/** As in the domain's `redact`: masking shorter ones would shred any text. */
const SHORTEST_SECRET = 4;

/** Hides in text what no log may show. */
export interface Mask {
  readonly text: (text: string) => string;
  /** The same for a whole line of JSON, which stays JSON. */
  readonly line: (json: string) => string;
  /** Characters of the longest text that is hidden. */
  readonly longest: number;
}

/** User name and password within an address. */
const LOGIN = /([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/@]{1,1000}@/gi;

/** Hides the secrets in every spelling, logins in addresses, and whatever looks like a purchase code. */
export function createMask(secrets: readonly Secret[]): Mask {
  const spellings = secrets
    .map((secret) => secret.reveal())
    .filter((text) => text.trim().length >= SHORTEST_SECRET)
    .flatMap((text) => [...spellingsOf(text), ...base64SpellingsOf(text)])
    // The longest first: where one secret contains another, none of it may stay behind.
    .sort((a, b) => b.length - a.length);
  // One expression for all, because a look for each would take a thousand sellers' lines seconds.
  const known = spellings.length === 0 ? null : new RegExp(spellings.map(literally).join('|'), 'g');
  const withoutSecrets = (text: string): string =>
    known === null ? text : text.replaceAll(known, MASK);
  return {
    text: (text) => maskLikelyCodes(withoutSecrets(text).replaceAll(LOGIN, '$1…@')),
    // Logins would be looked for beyond the end of a value.
    line: (json) => maskLikelyCodes(withoutSecrets(json)),
    longest: Math.max(LONGEST_BY_LOOK, spellings[0]?.length ?? 0),
  };
}

/** Of what is masked by its look: a login. */
const LONGEST_BY_LOOK = 1_024;

function literally(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`);
}

const CODE_NAMES = /^(?:(?:purchase|licen[cs]e)?codes?)$/;
const SECRET_NAMES = /(?:password|passwd|secret|token|apikey|authorization|cookie)$/;

/** How a text in a field of this name is shown, whatever it looks like; null when as it is. */
export function maskOfField(name: string): TextMask | null {
  const plain = name.toLowerCase().replaceAll(/[^a-z]/g, '');
  if (CODE_NAMES.test(plain)) return maskCode;
  return SECRET_NAMES.test(plain) ? () => MASK : null;
}
