import type { Json } from './item.js';
import { MASK, type Secret } from './secret.js';

/** Characters. Shorter secrets are not masked: any text contains them by chance. */
const SHORTEST_SECRET = 4;
/** Characters in the longest spelling of one character, such as `%F0%9F%98%80` or `&#x000041;`. */
const LONGEST_SPELLING = 12;
const HTML_NAMES: Readonly<Record<string, string>> = {
  '&': 'amp',
  '<': 'lt',
  '>': 'gt',
  '"': 'quot',
  "'": 'apos',
};
/** JSON may escape letters and digits, too. Servers don't, so such a text is decoded before the search. */
const ESCAPED_LETTER = /\\u00[3-7]/i;

/**
 * Masks secrets in text from elsewhere. It finds each secret as it is, in JSON, percent-encoded and
 * HTML-encoded, in any letter case.
 */
export class Redactor {
  /** Characters in the longest text that is masked. */
  readonly longest: number;
  /** Null without secrets. */
  readonly #pattern: RegExp | null;
  readonly #all: RegExp;

  constructor(secrets: readonly Secret[]) {
    const texts = [...new Set(secrets.map((secret) => secret.reveal().trim()))]
      .filter((text) => text.length >= SHORTEST_SECRET)
      // If one secret contains another, all of it is masked.
      .sort((a, b) => b.length - a.length);
    this.longest = (texts[0]?.length ?? 0) * LONGEST_SPELLING;
    const patterns = texts.map((text) => Array.from(text, spellingsOf).join(''));
    this.#pattern = patterns.length === 0 ? null : new RegExp(patterns.join('|'), 'i');
    this.#all = new RegExp(this.#pattern ?? '(?!)', 'gi');
  }

  /** Masks each secret in a text. */
  text(text: string): string {
    return text.replaceAll(this.#all, MASK);
  }

  /** Masks each secret in the texts, names and numbers of a JSON value. Returns the same value if there is none. */
  json(json: Json): Json {
    if (typeof json === 'string') return this.text(json);
    if (typeof json === 'number') {
      const masked = this.text(String(json));
      return masked === String(json) ? json : masked;
    }
    if (typeof json !== 'object' || json === null) return json;
    if (Array.isArray(json)) {
      const out = json.map((value) => this.json(value));
      return out.some((value, index) => value !== json[index]) ? out : json;
    }
    const entries = Object.entries(json);
    const out = entries.map(([name, value]) => [this.text(name), this.json(value)] as const);
    const isSame = entries.every(([name, value], at) => {
      return name === out[at]?.[0] && value === out[at]?.[1];
    });
    return isSame ? json : Object.fromEntries(out);
  }

  /**
   * Quick test: false if masking changes neither the text nor, if it is JSON, any text in it.
   * @param text may be UTF-8 read as latin1
   */
  mayChange(text: string): boolean {
    return this.#pattern !== null && (this.#pattern.test(text) || ESCAPED_LETTER.test(text));
  }
}

/** A pattern of the ways in which texts write a character of a secret. */
function spellingsOf(character: string): string {
  if (/[a-z0-9]/i.test(character)) return character;
  const bytes = Buffer.from(character);
  const code = character.codePointAt(0) ?? 0;
  const hex = (number: number, digits: number): string => number.toString(16).padStart(digits, '0');
  const units = character.split('').map((unit) => `\\u${hex(unit.charCodeAt(0), 4)}`);
  const entities = [HTML_NAMES[character], `#0*${code}`, `#x0*${hex(code, 2)}`];
  const plain = [
    character,
    // UTF-8 read as latin1.
    bytes.toString('latin1'),
    [...bytes].map((byte) => `%${hex(byte, 2)}`).join(''),
    units.join(''),
    ...(/["/\\]/.test(character) ? [`\\${character}`] : []),
    ...(character === ' ' ? ['+'] : []),
  ].map((text) => text.replaceAll(/[^a-z0-9]/gi, (one) => `\\u${hex(one.charCodeAt(0), 4)}`));
  const encoded = entities.filter((name) => name !== undefined).map((name) => `&${name};`);
  // Longer spellings first, since some begin with the character itself.
  // Each spelling once: with two equal ones, a long text that nearly matches would be tried in 2^n ways.
  return `(?:${[...new Set([...encoded, ...plain.toReversed()])].join('|')})`;
}

/** Characters. Shorter secrets are masked only if they fill a cell: a code may contain them by chance. */
const SHORTEST_IN_CELL = 16;

/** Makes a function that masks secrets in the cells of a list. */
export function cellMasker(secrets: readonly Secret[]): (cell: string) => string {
  const isLong = (secret: Secret): boolean => secret.reveal().trim().length >= SHORTEST_IN_CELL;
  const redactor = new Redactor(secrets.filter(isLong));
  const short = secrets.filter((secret) => !isLong(secret));
  const whole = new Set(short.map((secret) => secret.reveal().trim().toLowerCase()));
  return (cell) => (whole.has(cell.trim().toLowerCase()) ? MASK : redactor.text(cell));
}
