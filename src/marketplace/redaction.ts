import type { Json } from '../domain/item.js';
import { redactorOf, Secret } from '../domain/secret.js';
import { spellingsOf } from '../domain/spellings.js';

/** Takes the key out of whatever the server sends back. */
export interface Redactor {
  /** Masks the key in text. */
  text(text: string): string;
  /** Masks the key in all strings and member names; returns the same value when it is nowhere. */
  json(json: Json): Json;
  /** False when no string of the JSON that this is the text of holds the key; true when one may. */
  mayBeIn(text: string): boolean;
  /** Watches a stream of bytes for the key. */
  watch(): KeyWatch;
}

/** Tells whether the key has been in the bytes so far, across chunk borders too. */
export interface KeyWatch {
  saw(chunk: Buffer): boolean;
}

/** No character that JSON escapes otherwise than by its number. */
const PLAIN = /^[\w-]*$/;

/** A redactor for one key, in every spelling a server may echo it in. */
export function createRedactor(key: Secret): Redactor {
  const secrets = spellingsOf(key.reveal()).map((spelling) => new Secret(spelling));
  const text = redactorOf(secrets);
  // Of such a key, JSON can escape a character in one way only.
  const isPlain = secrets.every((secret) => PLAIN.test(secret.reveal()));
  return {
    text,
    json: (json) => redactJson(json, text),
    mayBeIn: (json) => !isPlain || json.includes('\\u') || text(json) !== json,
    watch: () => new Watch(secrets),
  };
}

function redactJson(json: Json, text: (value: string) => string): Json {
  if (typeof json === 'string') return text(json);
  if (typeof json !== 'object' || json === null) return json;
  if (Array.isArray(json)) {
    const out = json.map((value) => redactJson(value, text));
    return out.some((value, index) => value !== json[index]) ? out : json;
  }
  let changed = false;
  const entries = Object.entries(json).map(([name, value]): [string, Json] => {
    const entry: [string, Json] = [text(name), redactJson(value, text)];
    changed ||= entry[0] !== name || entry[1] !== value;
    return entry;
  });
  return changed ? Object.fromEntries(entries) : json;
}

class Watch implements KeyWatch {
  readonly #needles: readonly Buffer[];
  readonly #overlap: number;
  #tail: Buffer = Buffer.alloc(0);
  #seen = false;

  constructor(secrets: readonly Secret[]) {
    // As in `redact`: shorter ones are not worth masking and would be found everywhere.
    const texts = secrets.map((secret) => secret.reveal()).filter((text) => text.length >= 4);
    this.#needles = texts.map((text) => Buffer.from(text));
    this.#overlap = Math.max(0, ...this.#needles.map((needle) => needle.length - 1));
  }

  saw(chunk: Buffer): boolean {
    if (this.#seen || this.#overlap === 0) return this.#seen;
    const seam = Buffer.concat([this.#tail, chunk.subarray(0, this.#overlap)]);
    this.#seen = this.#needles.some((needle) => seam.includes(needle) || chunk.includes(needle));
    const end = chunk.length >= this.#overlap ? chunk : seam;
    this.#tail = Buffer.from(end.subarray(Math.max(0, end.length - this.#overlap)));
    return this.#seen;
  }
}
