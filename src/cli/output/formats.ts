import { jsonText, withColumnNames as columnNames } from '../../domain/json-dialect.js';
import { withRunnableCommands } from '../own-command.js';

/** Control characters that JSON does not escape. */
const UNSAFE = /[\u007F-\u009F\u202A-\u202E\u2066-\u2069\u2028\u2029]/g;

/** The value with the names of columns, and with commands in remedies that work when pasted. */
export function withColumnNames(value: unknown): unknown {
  return columnNames(value, withRunnableCommands);
}

/** JSON of several lines. Control characters are escaped, for terminals. */
export function json(value: unknown): string {
  return `${safeJson(jsonText(value, 2))}\n`;
}

/** One line of JSON. Control characters are escaped, for terminals. */
export function ndjsonLine(value: unknown): string {
  return `${safeJson(jsonText(value))}\n`;
}

/** Escapes control characters in JSON, which keeps its meaning. */
export function safeJson(text: string): string {
  return text.replaceAll(
    UNSAFE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
