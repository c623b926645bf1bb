import { types } from 'node:util';
import { MASK, Secret } from '../domain/secret.js';
import { escapeUnseen, maskOfField, type Mask, type TextMask } from './mask.js';

/** What a line may hold. */
export interface LineBounds {
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
/** Most bytes that a value takes beside its texts: brackets, or a word such as false, and a comma. */
const VALUE_BYTES = 8;

export const UNREADABLE = '[unreadable]';

/**
 * Turns the values of one log line into ones that JSON can show: masked, no deeper or longer than
 * the bounds allow, and never with an error, whatever they are.
 */
export class LineValues {
  readonly #bounds: LineBounds;
  /** Objects that the value at hand is in. */
  readonly #around: object[] = [];
  #bytesLeft: number;

  constructor(bounds: LineBounds) {
    this.#bounds = bounds;
    this.#bytesLeft = bounds.bytes;
  }

  /** The text, masked, and cut where it is too long or the line full. */
  text(text: string, longest = LONGEST_TEXT): string {
    const clean = cut(this.#masked(text), longest);
    const fitting = Math.max(0, Math.floor(this.#bytesLeft / CHARACTER_BYTES) - 1);
    const shown = bytesOf(clean) <= this.#bytesLeft ? clean : cut(clean, fitting);
    this.#bytesLeft -= bytesOf(shown);
    return shown;
  }

  /** The members of an object. @param maskOf how texts below a name are shown; null: as they are */
  members(source: object, maskOf: (name: string) => TextMask | null = maskOfField): object {
    const names = Object.keys(source);
    const out: [string, unknown][] = [];
    for (const [index, name] of names.entries()) {
      if (this.#isFull(out)) {
        out.push(['…', this.text(`${names.length - index} more`)]);
        break;
      }
      const value = this.#value(() => (source as Record<string, unknown>)[name], maskOf(name));
      // After the value, because a member without one is left out.
      if (value !== undefined) out.push([this.text(name, LONGEST_NAME), value]);
    }
    // Not one assignment after the other: a member called __proto__ would set the prototype.
    return Object.fromEntries(out);
  }

  #isFull(entries: readonly unknown[]): boolean {
    return this.#bytesLeft <= 0 || entries.length >= MOST_ENTRIES;
  }

  /** Objects of others may throw when they are looked at. */
  #value(look: () => unknown, mask: TextMask | null): unknown {
    const depth = this.#around.length;
    this.#bytesLeft -= VALUE_BYTES;
    try {
      return this.#shown(look(), mask);
    } catch {
      return this.text(UNREADABLE);
    } finally {
      this.#around.length = depth;
    }
  }

  #shown(value: unknown, mask: TextMask | null): unknown {
    switch (typeof value) {
      case 'string':
        return this.text(mask === null ? value : mask(value));
      case 'number':
      case 'bigint':
        return this.#number(value, mask);
      case 'object':
        return value === null ? null : this.#object(value, mask);
      case 'function':
        return this.text('[function]');
      case 'symbol':
        return this.text(String(value));
      default:
        return value;
    }
  }

  /** Digits can be a secret too. */
  #number(value: number | bigint, mask: TextMask | null): unknown {
    const text = String(value);
    const shown = this.text(mask === null ? text : mask(text));
    const isExact = Number.isFinite(value) || Number.isSafeInteger(Number(value));
    return shown === text && isExact ? Number(value) : shown;
  }

  #object(value: object, mask: TextMask | null): unknown {
    if (value instanceof Secret) return this.text(MASK);
    if (value instanceof Date) {
      return this.text(Number.isNaN(value.getTime()) ? 'invalid date' : value.toISOString());
    }
    if (value instanceof URL) return this.text(value.href);
    if (ArrayBuffer.isView(value)) return this.text(`[${value.byteLength} bytes]`);
    if (this.#around.includes(value)) return this.text('[circular]');
    if (this.#around.length >= DEEPEST) return this.text('[deeper]');
    this.#around.push(value);
    if (types.isNativeError(value) || value instanceof Error) {
      // Its code was named by a programmer, so it is no purchase code, and the first thing one looks for.
      return this.members(factsOf(value, this.#bounds.stacks), () => null);
    }
    if (Array.isArray(value) || value instanceof Set) return this.#list([...value], mask);
    const source = value instanceof Map ? Object.fromEntries(value as Map<string, unknown>) : value;
    return this.members(source, (name) => maskOfField(name) ?? mask);
  }

  #list(values: readonly unknown[], mask: TextMask | null): unknown[] {
    const out: unknown[] = [];
    for (const value of values) {
      if (this.#isFull(out)) {
        out.push(this.text(`… ${values.length - out.length} more`));
        break;
      }
      out.push(this.#value(() => value, mask) ?? null);
    }
    return out;
  }

  /** Masked before it is cut: half a secret is still one. */
  #masked(text: string): string {
    const { mask } = this.#bounds;
    if (text.length <= MOST_LOOKED_AT) return mask.text(text);
    const looked = mask.text(text.slice(0, MOST_LOOKED_AT));
    // Its end may be the beginning of a secret.
    return `${looked.slice(0, Math.max(0, looked.length - mask.longest))}…`;
  }
}

/** What a line says of an error, the most important first. Its other fields may be whole requests. */
function factsOf(error: Error, withStack: boolean): object {
  // Nothing keeps a library from putting something else than text into them.
  const { name, message, code, stack, cause, errors } = error as unknown as Record<string, unknown>;
  const type = typeof name === 'string' && name !== 'Error' ? name : error.constructor.name;
  const lines = withStack && typeof stack === 'string' ? stack.split('\n') : null;
  // Only where it happened: the lines before repeat the message.
  const places = lines?.filter((line) => /^ +at /.test(line)).map((line) => line.trim());
  return { type, message, code, stack: places, cause, errors };
}

function cut(text: string, longest: number): string {
  const kept = text.length > longest ? `${text.slice(0, Math.max(0, longest - 1))}…` : text;
  return kept.toWellFormed();
}

/** What the text takes in JSON, with quotes and what separates it from the next. */
function bytesOf(text: string): number {
  return Buffer.byteLength(escapeUnseen(JSON.stringify(text))) + 1;
}
