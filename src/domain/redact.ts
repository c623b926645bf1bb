import type { Json } from './item.js';
import { MASK, type Secret } from './secret.js';

/** Masking shorter secrets would shred any text. */
const SHORTEST_SECRET = 4;
/** A piece of base64 shorter than this turns up in text that has nothing to do with the secret. */
const SHORTEST_BASE64 = 8;
/** Secrets are looked up by so many of their first characters, as one number of 32 bits. */
const START = SHORTEST_SECRET;
const BITS = 32 / START;
const FILTER_SLOTS = 65_536;
/** Escapes within escapes, such as percent-encoded HTML in JSON, are undone this often. */
const MOST_LAYERS = 8;
/** Characters that one takes at most, as in `&#x000041;`. */
const LONGEST_ESCAPE = 12;

/** An escape of JSON and JavaScript, of an address, or of HTML. */
const ESCAPE =
  /\\(?:u([0-9a-f]{4})|x([0-9a-f]{2})|(.))|((?:%[0-9a-f]{2})+)|&(?:#(?:x([0-9a-f]{1,8})|([0-9]{1,8}));?|(amp|lt|gt|quot|apos);)/gi;
const MAY_ESCAPE = /[\\%&]/;
const NAMED: Readonly<Record<string, string>> = {
  ...{ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" },
  ...{ b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' },
};

/** A letter or digit that is written as its number, which no encoder does by itself. */
const NUMBERED_CHARACTER = [
  '(?:u00|x|%|25)0{0,6}(?:3[0-9]|[46][1-9a-f]|[57][0-9a])',
  '(?:&|;|26)(?:#|%?23)0{0,6}(?:4[89]|5[0-7]|6[5-9]|[78][0-9]|9[0789]|1[01][0-9]|12[0-2])',
].join('|');

/** Hides secrets in texts of others, in any letter case and however they are escaped there. */
export class Redactor {
  /** Characters of the longest text that is hidden. */
  readonly longest: number;
  /** Texts of fewer characters hold nothing to hide. */
  readonly shortest: number;
  /** The secrets as they are, in JSON and in base64, folded, by their first characters. */
  readonly #needles = new Map<number, string[]>();
  /** 0 where no secret begins: most characters need no further look, however many secrets there are. */
  readonly #filter = new Uint8Array(FILTER_SLOTS);
  /** What any text that holds a secret holds; null when that can't be said. */
  readonly #hint: RegExp | null;

  constructor(secrets: readonly Secret[]) {
    const texts = [...new Set(secrets.map((secret) => secret.reveal().trim()))].filter(
      (text) => text.length >= SHORTEST_SECRET,
    );
    const spellings = [...new Set(texts.flatMap(spellingsOf))];
    // The longest first: where one secret contains another, none of it may stay behind.
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

  /** The text with each secret masked; written without its escapes where a secret was among them. */
  text(text: string): string {
    let shown = this.literal(text);
    if (this.#needles.size === 0 || !MAY_ESCAPE.test(shown)) return shown;
    let layer = shown;
    for (let depth = 0; depth < MOST_LAYERS; depth++) {
      const inner = unescaped(layer);
      if (inner === layer) break;
      layer = this.literal(inner);
      if (layer !== inner) shown = layer;
    }
    return shown;
  }

  /** Masks only what stands there unescaped, or escaped as in JSON, which stays JSON. */
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
   * False when `text` would change neither the text nor any string of the JSON that it is. Quick;
   * escapes of letters within further escapes are not looked for.
   * @param text may be of UTF-8 as latin1
   */
  mayChange(text: string): boolean {
    return this.#needles.size > 0 && (this.#hint === null || this.#hint.test(text));
  }
}

/** In the cell of a table shorter secrets are hidden only where they are all of it: a code may hold them by chance. */
const SHORTEST_IN_CELL = 16;

/** Makes a function that hides secrets in the cells of tables, in any letter case. */
export function cellMaskOf(secrets: readonly Secret[]): (cell: string) => string {
  const isLong = (secret: Secret): boolean => secret.reveal().trim().length >= SHORTEST_IN_CELL;
  const redactor = new Redactor(secrets.filter(isLong));
  const short = secrets.filter((secret) => !isLong(secret));
  const whole = new Set(short.map((secret) => secret.reveal().trim().toLowerCase()));
  return (cell) => {
    if (whole.size > 0 && whole.has(cell.trim().toLowerCase())) return MASK;
    return cell.length < redactor.shortest ? cell : redactor.text(cell);
  };
}

/** Takes one more character into the number that stands for the last few of them. */
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

/** The text in small letters, and of the same length. A form writes a blank as a plus. */
function folded(text: string): string {
  // Two letters in lower case, and a letter that is another one at the end of a word.
  const single = text.replaceAll('\u0130', 'i').toLowerCase().replaceAll('ς', 'σ');
  return single.replaceAll('+', ' ');
}

/** A secret as it stands in text and in JSON, without its own escapes, and its pieces in base64. */
function spellingsOf(secret: string): string[] {
  const json = JSON.stringify(secret).slice(1, -1);
  const bare = unescaped(secret);
  const own = bare.length >= SHORTEST_SECRET ? [secret, json, bare] : [secret, json];
  return [...own, ...base64Pieces(secret)];
}

/**
 * What every base64 text that contains the secret contains, wherever in it the secret begins: such
 * as that of `user:secret` in an Authorization header. In both alphabets.
 */
function base64Pieces(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const pieces = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64');
    // Characters at both ends also hold bits of what stands beside the secret.
    const first = Math.ceil((before * 8) / 6);
    const end = Math.floor(((before + bytes.length) * 8) / 6);
    return text.slice(first, end);
  });
  return pieces
    .filter((piece) => piece.length >= SHORTEST_BASE64)
    .flatMap((piece) => [piece, piece.replaceAll('+', '-').replaceAll('/', '_')]);
}

/** No escape changes letters and digits unless it numbers them: their longest runs must be there. */
function hintOf(spellings: readonly string[]): RegExp | null {
  const runs = spellings.map((text) =>
    text.split(/[^a-z0-9]+/i).reduce((a, b) => (b.length > a.length ? b : a)),
  );
  if (runs.some((run) => run.length < SHORTEST_SECRET)) return null;
  const all = [...new Set(runs.map((run) => run.toLowerCase()))];
  // Letters and digits mean nothing else in an expression.
  return new RegExp([...all, NUMBERED_CHARACTER].join('|'), 'i');
}

/** The text with one layer of escapes taken off. */
function unescaped(text: string): string {
  return text.replaceAll(
    ESCAPE,
    (
      all: string,
      unicode?: string,
      hex?: string,
      char?: string,
      percent?: string,
      htmlHex?: string,
      html?: string,
      name?: string,
    ) => {
      if (percent !== undefined) return Buffer.from(percent.replaceAll('%', ''), 'hex').toString();
      const word = char ?? name?.toLowerCase();
      if (word !== undefined) return NAMED[word] ?? word;
      const number = unicode ?? hex ?? htmlHex;
      const code = number === undefined ? Number(html) : Number.parseInt(number, 16);
      return code <= 0x10ffff ? String.fromCodePoint(code) : all;
    },
  );
}

/** A key of digits may come as a number with an exponent, whatever its digits. */
const EXPONENT = /\d[eE][-+]?\d/;
/** As for texts: smaller numbers turn up everywhere. */
const SMALLEST_KEY = 1_000;

/**
 * Takes the API key out of whatever the server sends back, in any letter case and escape. A key of
 * digits is masked where it comes as a number too. Only the numbers that the contract documents, such
 * as an item's id, are left as they are: they may be equal to the key by chance.
 */
export class KeyRedactor extends Redactor {
  /** The key as a number; null when it is none. */
  readonly #number: number | null;

  constructor(key: Secret) {
    super([key]);
    const digits = key.reveal().trim();
    this.#number = /^\d+$/.test(digits) && Number(digits) >= SMALLEST_KEY ? Number(digits) : null;
  }

  /** False when masking would change nothing of the JSON that this is the text of. Quick. */
  override mayChange(text: string): boolean {
    return super.mayChange(text) || (this.#number !== null && EXPONENT.test(text));
  }

  /**
   * Masks the key in strings, member names and numbers; returns the same value when it is nowhere.
   * @param kept paths of numbers that stay as they are, such as `price.regular`
   */
  json(json: Json, kept: readonly string[] = []): Json {
    return this.#json(json, '', new Set(kept));
  }

  /** @param path within the record, with a dot at its end; null within lists */
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
      const within = place === null ? null : `${place}.`;
      const entry: [string, Json] = [
        this.text(name),
        isKept ? value : this.#json(value, within, kept),
      ];
      changed ||= entry[0] !== name || entry[1] !== value;
      return entry;
    });
    return changed ? Object.fromEntries(entries) : json;
  }

  /** True for the key as a number, also where that comes as text. */
  isNumber(json: Json): boolean {
    if (this.#number === null) return false;
    if (typeof json === 'number') return Math.abs(json) === this.#number;
    return typeof json === 'string' && /^\s*\d+\s*$/.test(json) && Number(json) === this.#number;
  }
}
