import type { Json } from '../domain/item.js';
import { Redactor } from '../domain/redact.js';
import { MASK, type Secret } from '../domain/secret.js';

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
