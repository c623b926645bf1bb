import type { Json } from './item.js';
import { MASK, maskTokens, type Secret } from './secret.js';

/** Characters. Shorter secrets are not masked: any text contains them by chance. */
const SHORTEST_SECRET = 4;
const HTML: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#039;',
};
/** JSON may escape letters and digits, too. Servers don't, so such a text is decoded before the search. */
const ESCAPED_LETTER = /\\u00[3-7]/i;

/**
 * Masks secrets in text from elsewhere. It finds each secret as it is, percent-encoded, HTML-encoded
 * and in JSON, in any letter case.
 */
export class Redactor {
  /** Characters in the longest text that is masked. */
  readonly longest: number;
  /** Null without secrets. */
  readonly #pattern: RegExp | null;
  readonly #all: RegExp;

  constructor(secrets: readonly Secret[]) {
    const texts = [...new Set(secrets.map((secret) => secret.reveal().trim()))].filter(
      (text) => text.length >= SHORTEST_SECRET,
    );
    // Longer spellings first: a secret that contains another one is masked whole, and a key
    // that ends in a backslash leaves no half of a JSON escape.
    const spellings = [...new Set(texts.flatMap(spellingsOf))].sort((a, b) => b.length - a.length);
    this.longest = spellings.reduce((most, { length }) => Math.max(most, length), 0);
    const pattern = spellings.map(literal).join('|');
    this.#pattern = pattern === '' ? null : new RegExp(pattern, 'i');
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

/** The ways in which servers and programs repeat a text. */
function spellingsOf(text: string): readonly string[] {
  const json = JSON.stringify(text).slice(1, -1);
  const spellings = [
    text,
    encodeURIComponent(text.toWellFormed()),
    // As requests send it.
    new URLSearchParams({ k: text }).toString().slice(2),
    json,
    // As PHP writes JSON.
    json.replaceAll('/', String.raw`\/`),
    text.replaceAll(/[&<>"']/g, (character) => HTML[character] ?? character),
  ];
  // Also UTF-8 read as latin1.
  return spellings.flatMap((one) => [one, Buffer.from(one).toString('latin1')]);
}

/** A pattern that matches only this text. */
function literal(text: string): string {
  return text.replaceAll(
    /[^a-z0-9]/gi,
    (one) => String.raw`\u` + one.charCodeAt(0).toString(16).padStart(4, '0'),
  );
}

/** Characters. Shorter secrets are masked only if they fill a cell: a code may contain them by chance. */
const SHORTEST_IN_CELL = 16;

/** Makes a function that masks secrets, and tokens of the look-up API, in the cells of a list. */
export function cellMasker(secrets: readonly Secret[]): (cell: string) => string {
  const isLong = (secret: Secret): boolean => secret.reveal().trim().length >= SHORTEST_IN_CELL;
  const redactor = new Redactor(secrets.filter(isLong));
  const short = secrets.filter((secret) => !isLong(secret));
  const whole = new Set(short.map((secret) => secret.reveal().trim().toLowerCase()));
  return (cell) => (whole.has(cell.trim().toLowerCase()) ? MASK : redactor.text(maskTokens(cell)));
}
