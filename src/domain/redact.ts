import type { Json } from './item.js';
import { MASK, type Secret } from './secret.js';

/** Characters. Shorter secrets are not masked: any text contains them by chance. */
const SHORTEST_SECRET = 4;
/** Characters. Any text contains shorter pieces of base64 by chance. */
const SHORTEST_BASE64 = 8;
/** Secrets are looked up by this many first characters, packed into a 32-bit number. */
const START = SHORTEST_SECRET;
const BITS = 32 / START;
const FILTER_SLOTS = 65_536;
/** Nested escapes are decoded up to this depth, such as percent-encoded HTML in JSON. */
const MAX_DEPTH = 8;
/** Characters in the longest escape of one character, such as `&#x000041;`. */
const LONGEST_ESCAPE = 12;

/** An escape of JSON, JavaScript, URLs or HTML. */
const ESCAPE =
  /\\(?:u(?<unicode>[0-9a-f]{4})|x(?<hex>[0-9a-f]{2})|(?<char>.))|(?<percent>(?:%[0-9a-f]{2})+)|&(?:#(?:x(?<htmlHex>[0-9a-f]{1,8})|(?<decimal>[0-9]{1,8}));?|(?<name>amp|lt|gt|quot|apos);)/gi;
const MAY_ESCAPE = /[\\%&]/;
const NAMED: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

/** A letter or digit escaped by its number. Encoders do that only on request. */
const NUMBERED_CHARACTER = [
  '(?:u00|x|%|25)0{0,6}(?:3[0-9]|[46][1-9a-f]|[57][0-9a])',
  '(?:&|;|26)(?:#|%?23)0{0,6}(?:4[89]|5[0-7]|6[5-9]|[78][0-9]|9[0789]|1[01][0-9]|12[0-2])',
].join('|');

/** Masks secrets in foreign text, in any letter case and escape. */
export class Redactor {
  /** Characters in the longest text that is masked. */
  readonly longest: number;
  /** Texts with fewer characters need no masking. */
  readonly shortest: number;
  /** All spellings of the secrets in lower case, by their first characters. */
  readonly #needles = new Map<number, string[]>();
  /** 0 where no secret can begin. It skips most characters, however many secrets there are. */
  readonly #filter = new Uint8Array(FILTER_SLOTS);
  /** Matches every text that may contain a secret; null if no pattern can. */
  readonly #hint: RegExp | null;

  constructor(secrets: readonly Secret[]) {
    const texts = [...new Set(secrets.map((secret) => secret.reveal().trim()))].filter(
      (text) => text.length >= SHORTEST_SECRET,
    );
    const spellings = [...new Set(texts.flatMap(spellingsOf))];
    // Longest first: if one secret contains another, all of it is masked.
    spellings.sort((a, b) => b.length - a.length);
    for (const needle of new Set(spellings.map(folded))) {
      const start = startOf(needle);
      this.#filter[slotOf(start)] = 1;
      this.#needles.set(start, [...(this.#needles.get(start) ?? []), needle]);
    }
    this.longest = (spellings[0]?.length ?? 0) * LONGEST_ESCAPE;
    this.shortest = spellings.at(-1)?.length ?? Infinity;
    this.#hint = hintOf(spellings);
  }

  /** Masks each secret. Escapes that contained one are decoded in the result. */
  text(text: string): string {
    let shown = this.literal(text);
    if (this.#needles.size === 0 || !MAY_ESCAPE.test(shown)) return shown;
    let layer = shown;
    for (let depth = 0; depth < MAX_DEPTH; depth++) {
      const inner = unescaped(layer);
      if (inner === layer) break;
      layer = this.literal(inner);
      if (layer !== inner) shown = layer;
    }
    return shown;
  }

  /** Masks only secrets without escapes, or with those of JSON, so that JSON stays JSON. */
  literal(text: string): string {
    if (this.#needles.size === 0) return text;
    const searched = folded(text);
    const filter = this.#filter;
    let out = '';
    let done = 0;
    let start = 0;
    for (let at = 1 - START; at <= searched.length - START; at++) {
      start = withNext(start, searched.charCodeAt(at + START - 1));
      if (filter[slotOf(start)] === 0 || at < done) continue;
      const found = this.#needles.get(start)?.find((needle) => searched.startsWith(needle, at));
      if (found === undefined) continue;
      out += text.slice(done, at) + MASK;
      done = at + found.length;
    }
    return done === 0 ? text : out + text.slice(done);
  }

  /**
   * Quick test: false if masking changes neither the text nor, for JSON, any string in it. Misses letters in
   * nested escapes.
   * @param text may be UTF-8 read as latin1
   */
  mayChange(text: string): boolean {
    return this.#needles.size > 0 && (this.#hint === null || this.#hint.test(text));
  }
}

/** Characters. Shorter secrets are masked only if they fill a cell: a code may contain them by chance. */
const SHORTEST_IN_CELL = 16;

/** Makes a function that masks secrets in the cells of a list. */
export function cellMasker(secrets: readonly Secret[]): (cell: string) => string {
  const isLong = (secret: Secret): boolean => secret.reveal().trim().length >= SHORTEST_IN_CELL;
  const redactor = new Redactor(secrets.filter(isLong));
  const short = secrets.filter((secret) => !isLong(secret));
  const whole = new Set(short.map((secret) => secret.reveal().trim().toLowerCase()));
  return (cell) => {
    if (whole.size > 0 && whole.has(cell.trim().toLowerCase())) return MASK;
    return cell.length < redactor.shortest ? cell : redactor.text(cell);
  };
}

function withNext(start: number, code: number): number {
  return (start << BITS) ^ code;
}

function startOf(needle: string): number {
  let start = 0;
  for (let i = 0; i < START; i++) start = withNext(start, needle.charCodeAt(i));
  return start;
}

function slotOf(start: number): number {
  return (start ^ (start >>> 16)) & (FILTER_SLOTS - 1);
}

/** The text in lower case, at the same length. A plus becomes a space: forms write a space as a plus. */
function folded(text: string): string {
  // In lower case, İ has two characters. σ is ς at the end of a word.
  const single = text.replaceAll('\u0130', 'i').toLowerCase().replaceAll('ς', 'σ');
  return single.replaceAll('+', ' ');
}

/** A secret as plain text, in JSON, with its escapes decoded, in hex, and as pieces of base64. */
function spellingsOf(secret: string): string[] {
  const json = JSON.stringify(secret).slice(1, -1);
  const bare = unescaped(secret);
  const own = bare.length >= SHORTEST_SECRET ? [secret, json, bare] : [secret, json];
  return [...own, Buffer.from(secret).toString('hex'), ...base64Pieces(secret)];
}

/**
 * Pieces that the base64 of any text with the secret contains, in both alphabets. One such text is
 * `user:secret` in an Authorization header.
 */
function base64Pieces(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const pieces = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    // Without the characters at both ends: they mix in bits of the neighbouring text.
    const first = Math.ceil((before * 8) / 6);
    const end = Math.floor(((before + bytes.length) * 8) / 6);
    return text.slice(first, end);
  });
  return pieces
    .filter((piece) => piece.length >= SHORTEST_BASE64)
    .flatMap((piece) => [piece, piece.replaceAll('+', '-').replaceAll('/', '_')]);
}

/** Escapes keep letters and digits, or write them as numbers. So one of both occurs in every spelling. */
function hintOf(spellings: readonly string[]): RegExp | null {
  const runs = spellings.map((text) =>
    text.split(/[^a-z0-9]+/i).reduce((a, b) => (b.length > a.length ? b : a)),
  );
  if (runs.some((run) => run.length < SHORTEST_SECRET)) return null;
  const all = [...new Set(runs.map((run) => run.toLowerCase()))];
  return new RegExp([...all, NUMBERED_CHARACTER].join('|'), 'i');
}

function unescaped(text: string): string {
  return text.replaceAll(ESCAPE, (all: string, ...rest: unknown[]) => {
    const groups = rest.at(-1) as Readonly<Record<string, string | undefined>>;
    const { unicode, hex, char, percent, htmlHex, decimal, name } = groups;
    if (percent !== undefined) return Buffer.from(percent.replaceAll('%', ''), 'hex').toString();
    const word = char ?? name?.toLowerCase();
    if (word !== undefined) return NAMED[word] ?? word;
    const digits = unicode ?? hex ?? htmlHex;
    const code = digits === undefined ? Number(decimal) : Number.parseInt(digits, 16);
    return code <= 0x10ffff ? String.fromCodePoint(code) : all;
  });
}

/** JSON may write a key of digits as a number with an exponent. */
const EXPONENT = /\d[eE][-+]?\d/;
/** Any answer contains smaller numbers by chance. */
const SMALLEST_KEY = 1_000;

/**
 * Masks the API key in any letter case and escape. A key of digits is masked as a number too, but not in
 * documented numbers such as an item's id, which may equal it by chance.
 */
export class KeyRedactor extends Redactor {
  /** The key as a number; null if it is not all digits, or too small. */
  readonly #number: number | null;

  constructor(key: Secret) {
    super([key]);
    const digits = key.reveal().trim();
    this.#number = /^\d+$/.test(digits) && Number(digits) >= SMALLEST_KEY ? Number(digits) : null;
  }

  /** Like `Redactor.mayChange`, but numbers in JSON count too. */
  override mayChange(text: string): boolean {
    return super.mayChange(text) || (this.#number !== null && EXPONENT.test(text));
  }

  /** Returns the same object if it does not contain the key. @param kept paths of numbers to keep */
  json(json: Json, kept: readonly string[] = []): Json {
    return this.#json(json, '', new Set(kept));
  }

  /** @param path in the record, ending with a dot; null in lists */
  #json(json: Json, path: string | null, kept: ReadonlySet<string>): Json {
    if (typeof json === 'string') return this.text(json);
    if (typeof json === 'number') return this.isNumber(json) ? MASK : json;
    if (typeof json !== 'object' || json === null) return json;
    if (Array.isArray(json)) {
      const out = json.map((value) => this.#json(value, null, kept));
      return out.some((value, index) => value !== json[index]) ? out : json;
    }
    let changed = false;
    const entries = Object.entries(json).map(([name, value]): [string, Json] => {
      const place = path === null ? null : path + name;
      const isKept = place !== null && kept.has(place) && this.isNumber(value);
      const shown = isKept ? value : this.#json(value, place === null ? null : `${place}.`, kept);
      const shownName = this.text(name);
      changed ||= shownName !== name || shown !== value;
      return [shownName, shown];
    });
    return changed ? Object.fromEntries(entries) : json;
  }

  /** True for a number, or a numeric text, that equals the key. */
  isNumber(json: Json): boolean {
    if (this.#number === null) return false;
    if (typeof json === 'number') return Math.abs(json) === this.#number;
    return typeof json === 'string' && /^\s*\d+\s*$/.test(json) && Number(json) === this.#number;
  }
}
