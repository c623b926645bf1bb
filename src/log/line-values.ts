import { types } from 'node:util';
import { Redactor } from '../domain/redact.js';
import { MASK, maskCode, maskLikelyCodes, Secret } from '../domain/secret.js';

type TextMask = (text: string) => string;

/** Hides in text what no log may show. */
export interface Mask {
  readonly text: TextMask;
  /** The same for a whole line of JSON, which stays JSON. */
  readonly line: TextMask;
  /** Characters of the longest text that is hidden. */
  readonly longest: number;
}

/** User name and password within an address. */
const LOGIN = /([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/@]{1,1000}@/gi;
/** Characters of the longest text that is masked by its look: a login. */
const LONGEST_BY_LOOK = 1_024;

/** Hides the secrets however they are written, logins in addresses, and whatever looks like a purchase code. */
export function createMask(secrets: readonly Secret[]): Mask {
  const redactor = new Redactor(secrets);
  return {
    text: (text) => maskLikelyCodes(redactor.text(text).replaceAll(LOGIN, '$1…@')),
    // Logins would be looked for beyond the end of a value.
    line: (json) => maskLikelyCodes(redactor.literal(json)),
    longest: Math.max(LONGEST_BY_LOOK, redactor.longest),
  };
}

const CODE_NAMES = /^(?:(?:purchase|licen[cs]e)?codes?)$/;
const SECRET_NAMES = /(?:password|passwd|secret|token|apikey|authorization|cookie)$/;

/** How a text in a field of this name is shown, whatever it looks like; null when as it is. */
function maskOfField(name: string): TextMask | null {
  const plain = name.toLowerCase().replaceAll(/[^a-z]/g, '');
  if (CODE_NAMES.test(plain)) return maskCode;
  return SECRET_NAMES.test(plain) ? () => MASK : null;
}

/** Control characters and marks that are not seen but act: on terminals, on lines, on reading direction. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * The same text with an escape of JSON for every character that is not seen, so that text from
 * outside can neither forge a line nor command a terminal. What was JSON still means the same.
 */
export function escapeUnseen(text: string): string {
  return text.replaceAll(UNSEEN, (character) => {
    if (character === '\n') return String.raw`\n`;
    const units = character.split('').map((unit) => unit.charCodeAt(0));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
  });
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
  /** Objects that the value at hand is in. */
  readonly #around: object[] = [];
  #bytesLeft: number;

  /** @param stacks whether errors come with their stacks @param bytes of JSON that the line may have */
  constructor(
    private readonly mask: Mask,
    private readonly stacks: boolean,
    bytes: number,
  ) {
    this.#bytesLeft = bytes;
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
    const out: [string, unknown][] = [];
    const left = this.#each(Object.keys(source), (name) => {
      const value = this.#value(() => (source as Record<string, unknown>)[name], maskOf(name));
      // The name after the value, because a member without one is left out.
      if (value !== undefined) out.push([this.text(name, LONGEST_NAME), value]);
    });
    if (left > 0) out.push(['…', this.text(`${left} more`)]);
    // Not one assignment after the other: a member called __proto__ would set the prototype.
    return Object.fromEntries(out);
  }

  /** Goes through the entries that the line has room for; returns the number of the others. */
  #each<T>(entries: readonly T[], show: (entry: T) => void): number {
    for (const [index, entry] of entries.entries()) {
      if (this.#bytesLeft <= 0 || index >= MOST_ENTRIES) return entries.length - index;
      show(entry);
    }
    return 0;
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
      return this.members(factsOf(value, this.stacks), () => null);
    }
    if (Array.isArray(value) || value instanceof Set) {
      const out: unknown[] = [];
      const show = (one: unknown) => out.push(this.#value(() => one, mask) ?? null);
      const left = this.#each<unknown>([...value], show);
      return left > 0 ? [...out, this.text(`… ${left} more`)] : out;
    }
    const source = value instanceof Map ? Object.fromEntries(value as Map<string, unknown>) : value;
    return this.members(source, (name) => maskOfField(name) ?? mask);
  }

  /** Masked before it is cut: half a secret is still one. */
  #masked(text: string): string {
    if (text.length <= MOST_LOOKED_AT) return this.mask.text(text);
    const looked = this.mask.text(text.slice(0, MOST_LOOKED_AT));
    // Its end may be the beginning of a secret.
    return `${looked.slice(0, Math.max(0, looked.length - this.mask.longest))}…`;
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
