import { types } from 'node:util';
import { Redactor } from '../domain/redact.js';
import { MASK, maskCode, maskLikelyCodes, Secret } from '../domain/secret.js';

type TextMask = (text: string) => string;

/** Masks secrets and purchase codes. */
export interface Mask {
  readonly text: TextMask;
  /** Masks a whole line of JSON, which stays valid JSON. */
  readonly line: TextMask;
  /** Length of the longest text that is masked, in characters. */
  readonly longest: number;
}

/** User name and password in a URL. */
const LOGIN = /([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/@]{1,1000}@/gi;
/** Upper bound for the length of a match of LOGIN, in characters. */
const LONGEST_LOGIN = 1_024;

/** Masks the given secrets in any spelling, logins in URLs, and anything that looks like a purchase code. */
export function createMask(secrets: readonly Secret[]): Mask {
  const redactor = new Redactor(secrets);
  return {
    text: (text) => maskLikelyCodes(redactor.text(text).replaceAll(LOGIN, '$1…@')),
    // Without LOGIN, which could match across the end of a value.
    line: (json) => maskLikelyCodes(redactor.literal(json)),
    longest: Math.max(LONGEST_LOGIN, redactor.longest),
  };
}

const CODE_NAMES = /^(?:(?:purchase|licen[cs]e)?codes?)$/;
const SECRET_NAMES = /(?:password|passwd|secret|token|apikey|authorization|cookie)$/;

/** Returns the mask for every text in a field of this name, or null if the name needs none. */
function maskOfField(name: string): TextMask | null {
  const plain = name.toLowerCase().replaceAll(/[^a-z]/g, '');
  if (CODE_NAMES.test(plain)) return maskCode;
  return SECRET_NAMES.test(plain) ? () => MASK : null;
}

/** Control, format and separator characters. They can end a line, drive a terminal or reverse text. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Replaces invisible characters by JSON escapes, so that text from outside can't forge a log line or
 * control a terminal. JSON keeps its meaning.
 */
export function escapeInvisible(text: string): string {
  return text.replaceAll(INVISIBLE, (character) => {
    if (character === '\n') return String.raw`\n`;
    const units = character.split('').map((unit) => unit.charCodeAt(0));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
  });
}

/** Maximum nesting of objects and lists. */
const MAX_DEPTH = 6;
/** Maximum members of an object, or elements of a list. */
const MAX_ENTRIES = 64;
/** Maximum characters of a name. */
const MAX_NAME = 100;
/** Maximum characters of a text. */
const MAX_TEXT = 4_096;
/** Characters of a text that are searched for secrets. The rest is dropped unread. */
const MAX_SEARCHED = 65_536;
/** Maximum bytes of one character in JSON, such as \u001b. */
const CHARACTER_BYTES = 6;
/** Maximum bytes of a value without its texts: brackets or a word such as false, and a comma. */
const VALUE_BYTES = 8;

export const UNREADABLE = '[unreadable]';

/** Converts the values of one log line to JSON values: masked and within the limits above. Never throws. */
export class LineValues {
  /** Objects that contain the current value, the outermost first. */
  readonly #parents: object[] = [];
  #bytesLeft: number;

  /** @param withStacks include stacks of errors @param maxBytes of JSON in the line */
  constructor(
    private readonly mask: Mask,
    private readonly withStacks: boolean,
    maxBytes: number,
  ) {
    this.#bytesLeft = maxBytes;
  }

  /** Masks the text and cuts it to `maxLength` characters and to the bytes left in the line. */
  text(text: string, maxLength = MAX_TEXT): string {
    const clean = cut(this.#masked(text), maxLength);
    const fitting = Math.max(0, Math.floor(this.#bytesLeft / CHARACTER_BYTES) - 1);
    const shown = bytesOf(clean) <= this.#bytesLeft ? clean : cut(clean, fitting);
    this.#bytesLeft -= bytesOf(shown);
    return shown;
  }

  /** Converts the members of an object. @param maskOf returns the mask for the texts under a name */
  members(source: object, maskOf: (name: string) => TextMask | null = maskOfField): object {
    const out: [string, unknown][] = [];
    const left = this.#each(Object.keys(source), (name) => {
      const value = this.#value(() => (source as Record<string, unknown>)[name], maskOf(name));
      if (value !== undefined) out.push([this.text(name, MAX_NAME), value]);
    });
    if (left > 0) out.push(['…', this.text(`${left} more`)]);
    // Assigning members one by one would let a member named __proto__ set the prototype.
    return Object.fromEntries(out);
  }

  /** Calls `show` with each entry until the line is full. @returns the number of entries left out */
  #each<T>(entries: readonly T[], show: (entry: T) => void): number {
    for (const [index, entry] of entries.entries()) {
      if (this.#bytesLeft <= 0 || index >= MAX_ENTRIES) return entries.length - index;
      show(entry);
    }
    return 0;
  }

  /** Converts the value that `read` returns. Getters and proxies may throw. */
  #value(read: () => unknown, mask: TextMask | null): unknown {
    const depth = this.#parents.length;
    this.#bytesLeft -= VALUE_BYTES;
    try {
      return this.#shown(read(), mask);
    } catch {
      return this.text(UNREADABLE);
    } finally {
      this.#parents.length = depth;
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

  /** Masks numbers too: a secret may consist of digits. */
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
    if (this.#parents.includes(value)) return this.text('[circular]');
    if (this.#parents.length >= MAX_DEPTH) return this.text('[deeper]');
    this.#parents.push(value);
    if (types.isNativeError(value) || value instanceof Error) {
      // The `code` of an error is a name such as ECONNREFUSED, not a purchase code.
      return this.members(errorMembers(value, this.withStacks), () => null);
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

  /** Masks a text before it is cut: half a secret must not show. */
  #masked(text: string): string {
    if (text.length <= MAX_SEARCHED) return this.mask.text(text);
    const masked = this.mask.text(text.slice(0, MAX_SEARCHED));
    // The end is dropped, because it may be the first half of a secret.
    return `${masked.slice(0, Math.max(0, masked.length - this.mask.longest))}…`;
  }
}

/** The members of an error to log, the most important first. Others may hold whole requests. */
function errorMembers(error: Error, withStack: boolean): object {
  // Typed as unknown, because libraries may assign anything to them.
  const { name, message, code, stack, cause, errors } = error as unknown as Record<string, unknown>;
  const type = typeof name === 'string' && name !== 'Error' ? name : error.constructor.name;
  const lines = withStack && typeof stack === 'string' ? stack.split('\n') : null;
  // The first lines of a stack repeat the message.
  const frames = lines?.filter((line) => /^ +at /.test(line)).map((line) => line.trim());
  return { type, message, code, stack: frames, cause, errors };
}

function cut(text: string, maxLength: number): string {
  const kept = text.length > maxLength ? `${text.slice(0, Math.max(0, maxLength - 1))}…` : text;
  return kept.toWellFormed();
}

/** Bytes that the text takes in JSON, with its quotes and a separator. */
function bytesOf(text: string): number {
  return Buffer.byteLength(escapeInvisible(JSON.stringify(text))) + 1;
}
