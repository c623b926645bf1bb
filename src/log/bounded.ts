import { types } from 'node:util';
import { MASK, Secret } from '../domain/secret.js';
import { errorFacts } from './error.js';
import { escapeUnseen } from './escape.js';
import { read, UNREADABLE } from './fields.js';
import { maskOfField, type Mask, type TextMask } from './mask.js';

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
/** Of the names of what is told of an error. */
const ERROR_BYTES = 60;

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

  /** The text, masked, and cut where it is too long or the line full. */
  text(text: string, longest = LONGEST_TEXT): string {
    const clean = shortened(this.#masked(text), longest);
    const fits = bytesOf(clean) <= this.#left;
    const room = Math.max(0, Math.floor(this.#left / CHARACTER_BYTES) - 1);
    const shown = fits ? clean : shortened(clean, room);
    this.#left -= bytesOf(shown);
    return shown;
  }

  /** The members of an object, by name; those without a mask of their own are shown through `mask`. */
  members(source: object, mask: TextMask | null = null): Record<string, unknown> {
    const names = Object.keys(source);
    const out = new Map<string, unknown>();
    for (const [index, name] of names.entries()) {
      if (this.#left <= 0 || out.size >= MOST_ENTRIES) {
        out.set('…', this.text(`${names.length - index} more`));
        break;
      }
      const value = this.#value(read(source, name), maskOfField(name) ?? mask);
      // After the value, because a member without one is left out.
      if (value !== undefined) out.set(this.text(name, LONGEST_NAME), value);
    }
    // Not one assignment after the other: a member called __proto__ would set the prototype.
    return Object.fromEntries(out);
  }

  #value(value: unknown, mask: TextMask | null): unknown {
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

  #number(value: number | bigint, mask: TextMask | null): unknown {
    const text = String(value);
    // Digits can be a secret too.
    const shown = this.text(mask === null ? text : mask(text));
    const exact = Number.isFinite(value) || Number.isSafeInteger(Number(value));
    return shown === text && exact ? Number(value) : shown;
  }

  /** Objects of others may throw when they are looked at. */
  #guarded(value: object, mask: TextMask | null): unknown {
    const depth = this.#path.length;
    try {
      return this.#object(value, mask);
    } catch {
      return this.text(UNREADABLE);
    } finally {
      this.#path.length = depth;
    }
  }

  #object(value: object, mask: TextMask | null): unknown {
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
    if (value instanceof Map)
      return this.members(Object.fromEntries(value as Map<string, unknown>), mask);
    return this.members(value, mask);
  }

  #list(values: readonly unknown[], mask: TextMask | null): unknown[] {
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

  #error(error: Error): Record<string, unknown> {
    this.#left -= ERROR_BYTES;
    const facts = Object.entries(errorFacts(error, this.#bounds.stacks));
    const told = facts.filter(([, value]) => value !== undefined);
    return Object.fromEntries(told.map(([name, value]) => [name, this.#value(value, null)]));
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
