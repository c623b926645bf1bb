import { types } from 'node:util';
import { Secret } from '../domain/secret.js';
import { escapeUnseen } from './escape.js';
import { MASK, maskOfField, type Mask } from './mask.js';

/** What a line may hold. */
export interface Bounds {
  readonly mask: Mask;
  /** Whether errors come with their stacks. */
  readonly stacks: boolean;
  /** Bytes of JSON. */
  readonly bytes: number;
}

const DEEPEST = 6;
const MOST_ENTRIES = 64;
const LONGEST_NAME = 100;
const LONGEST_TEXT = 4_096;
/** Text beyond this is not even looked at. */
const MOST_LOOKED_AT = 65_536;
/** Most bytes that one character takes in JSON: \u001b. */
const CHARACTER_BYTES = 6;
/** Of true, false and null, with what separates them from the next. */
const WORD_BYTES = 6;
/** Of brackets. */
const BRACKET_BYTES = 3;

/**
 * Makes a log line's values into ones that JSON can show: masked, no deeper or longer than the
 * bounds allow, and never with an error, whatever they are.
 */
export class Bounded {
  readonly #bounds: Bounds;
  readonly #path: object[] = [];
  #left: number;

  constructor(bounds: Bounds) {
    this.#bounds = bounds;
    this.#left = bounds.bytes;
  }

  /** Text that is shown in full up to the longest a line may have. */
  text(text: string, longest = LONGEST_TEXT): string {
    const clean = shortened(this.#masked(text), longest);
    const fits = bytesOf(clean) <= this.#left;
    const room = Math.max(0, Math.floor(this.#left / CHARACTER_BYTES) - 1);
    const shown = fits ? clean : shortened(clean, room);
    this.#left -= bytesOf(shown);
    return shown;
  }

  /** The members of an object, by name. */
  members(source: object): Record<string, unknown> {
    return this.#entries(
      Object.keys(source).map((name) => [name, () => Reflect.get(source, name)]),
    );
  }

  #value(value: unknown, mask: ((text: string) => string) | null): unknown {
    switch (typeof value) {
      case 'string':
        return this.text(mask === null ? value : mask(value));
      case 'number':
      case 'bigint':
        return this.#number(value, mask);
      case 'object':
        if (value !== null) return this.#guarded(value, mask);
        this.#left -= WORD_BYTES;
        return null;
      case 'function':
        return this.text('[function]');
      case 'symbol':
        return this.text(String(value));
      default:
        this.#left -= WORD_BYTES;
        return value;
    }
  }

  #number(value: number | bigint, mask: ((text: string) => string) | null): unknown {
    const text = String(value);
    // Digits can be a secret too.
    const shown = this.text(mask === null ? text : mask(text));
    const exact = Number.isFinite(value) || Number.isSafeInteger(Number(value));
    return shown === text && exact ? Number(value) : shown;
  }

  /** Objects of others may throw when they are looked at. */
  #guarded(value: object, mask: ((text: string) => string) | null): unknown {
    const depth = this.#path.length;
    try {
      return this.#object(value, mask);
    } catch {
      return this.text('[unreadable]');
    } finally {
      this.#path.length = depth;
    }
  }

  #object(value: object, mask: ((text: string) => string) | null): unknown {
    if (value instanceof Secret) return this.text(MASK);
    if (value instanceof Date) {
      return this.text(Number.isNaN(value.getTime()) ? 'invalid date' : value.toISOString());
    }
    if (value instanceof URL) return this.text(value.href);
    if (ArrayBuffer.isView(value)) return this.text(`[${value.byteLength} bytes]`);
    if (this.#path.includes(value)) return this.text('[circular]');
    if (this.#path.length >= DEEPEST) return this.text('[deeper]');
    this.#path.push(value);
    this.#left -= BRACKET_BYTES;
    if (types.isNativeError(value) || value instanceof Error) return this.#error(value);
    if (Array.isArray(value) || value instanceof Set) return this.#list([...value], mask);
    if (value instanceof Map) {
      return this.#entries([...value].map(([name, member]) => [String(name), () => member]));
    }
    return this.members(value);
  }

  #list(values: readonly unknown[], mask: ((text: string) => string) | null): unknown[] {
    const out: unknown[] = [];
    for (const value of values) {
      if (this.#left <= 0 || out.length >= MOST_ENTRIES) {
        out.push(this.text(`… ${values.length - out.length} more`));
        break;
      }
      this.#left -= 1;
      out.push(this.#value(value, mask) ?? null);
    }
    return out;
  }

  /** Type, message and code, in that order of importance; what lies behind it, as far as there is room. */
  #error(error: Error): Record<string, unknown> {
    const stack = this.#bounds.stacks ? stackLines(error) : [];
    const { code, cause, errors } = error as Error & { code?: unknown; errors?: unknown };
    return Object.fromEntries(
      Object.entries({
        type: this.text(typeOf(error), LONGEST_NAME),
        message: this.text(String(error.message)),
        // Named by programmers, so no purchase code, and the first thing one looks for.
        code: code === undefined ? undefined : this.#value(code, null),
        stack: stack.length === 0 ? undefined : this.#list(stack, null),
        cause: cause === undefined ? undefined : this.#value(cause, null),
        errors: errors === undefined ? undefined : this.#value(errors, null),
      }).filter(([, value]) => value !== undefined),
    );
  }

  #entries(entries: readonly (readonly [string, () => unknown])[]): Record<string, unknown> {
    const out = new Map<string, unknown>();
    for (const [name, read] of entries) {
      if (this.#left <= 0 || out.size >= MOST_ENTRIES) {
        out.set('…', this.text(`${entries.length - out.size} more`));
        break;
      }
      const value = this.#member(read, maskOfField(name));
      // After the value, because a member without one is left out.
      if (value !== undefined) out.set(this.text(name, LONGEST_NAME), value);
    }
    // Not one assignment after the other: a member called __proto__ would set the prototype.
    return Object.fromEntries(out);
  }

  #member(read: () => unknown, mask: ((text: string) => string) | null): unknown {
    let value: unknown;
    try {
      value = read();
    } catch {
      value = '[unreadable]';
    }
    return this.#value(value, mask);
  }

  /** Masked before it is cut: half a secret is one still. */
  #masked(text: string): string {
    const { mask } = this.#bounds;
    if (text.length <= MOST_LOOKED_AT) return mask.text(text);
    const looked = mask.text(text.slice(0, MOST_LOOKED_AT));
    // Its end may be the beginning of a secret.
    return `${looked.slice(0, Math.max(0, looked.length - mask.longest))}…`;
  }
}

function shortened(text: string, longest: number): string {
  const kept = text.length > longest ? `${text.slice(0, Math.max(0, longest - 1))}…` : text;
  return kept.toWellFormed();
}

/** What the text takes in JSON, with quotes and what separates it from the next. */
function bytesOf(text: string): number {
  return Buffer.byteLength(escapeUnseen(JSON.stringify(text))) + 1;
}

function typeOf(error: Error): string {
  return error.name === 'Error' ? error.constructor.name : String(error.name);
}

/** Only the places: the text before them repeats the message. */
function stackLines(error: Error): string[] {
  return String(error.stack ?? '')
    .split('\n')
    .filter((line) => /^ +at /.test(line))
    .map((line) => line.trim());
}
