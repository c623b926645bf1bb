import { withRunnableCommands } from '../own-command.js';

/** Control characters that JSON does not escape. */
const UNSAFE = /[\u007F-\u009F\u202A-\u202E\u2066-\u2069\u2028\u2029]/g;

/** Members whose content keeps its own names. */
const AS_RECEIVED = new Set(['extra', 'layout', 'raw', 'tolerated']);

/**
 * Renames members to snake case like columns, at every depth: `runId` becomes `run_id`. Commands in remedies
 * become runnable (see `withRunnableCommands`).
 */
export function withColumnNames(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withColumnNames);
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Date || value instanceof Uint8Array) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      convertMember(name, member),
    ]),
  );
}

function convertMember(name: string, member: unknown): unknown {
  if (AS_RECEIVED.has(name)) return member;
  if (name === 'remedy' && typeof member === 'string') return withRunnableCommands(member);
  return withColumnNames(member);
}

export function json(value: unknown): string {
  return `${encode(value, 2)}\n`;
}

/**
 * Returns one line of JSON. Integers beyond 2^53 are text, dates are ISO 8601, bytes are hexadecimal as in
 * PostgreSQL. Control characters are escaped, for terminals.
 */
export function ndjsonLine(value: unknown): string {
  return `${encode(value, 0)}\n`;
}

function encode(value: unknown, indent: number): string {
  return safeJson(JSON.stringify(value, replace, indent) ?? 'null');
}

/** Escapes control characters in JSON, which keeps its meaning. */
export function safeJson(text: string): string {
  return text.replaceAll(
    UNSAFE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function replace(this: unknown, key: string, value: unknown): unknown {
  // `value` is what a Buffer's toJSON() returned. The original still has the bytes.
  const original = (this as Record<string, unknown>)[key];
  if (original instanceof Uint8Array) return `\\x${Buffer.from(original).toString('hex')}`;
  if (typeof value === 'bigint') {
    return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  }
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  return value;
}
