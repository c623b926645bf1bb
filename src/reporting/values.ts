import { uniqueNames } from '../domain/csv.js';
import type { ViewColumn } from './views.js';
import { textsOf, type QueryColumn } from '../db/read-only.js';
import type { TextRow } from '../db/text-cursor.js';

export type ValueKind =
  | { readonly kind: 'text' | 'boolean' | 'json' | 'texts' | 'date' | 'moment' | 'float' }
  | { readonly kind: 'integer'; readonly bits: 32 | 64 }
  | { readonly kind: 'decimal'; readonly precision: number; readonly scale: number }
  /** A number with unlimited digits. No format has an exact type for it. */
  | { readonly kind: 'number' };

const KINDS: Readonly<Record<string, ValueKind>> = {
  smallint: { kind: 'integer', bits: 32 },
  integer: { kind: 'integer', bits: 32 },
  bigint: { kind: 'integer', bits: 64 },
  numeric: { kind: 'number' },
  real: { kind: 'float' },
  'double precision': { kind: 'float' },
  boolean: { kind: 'boolean' },
  json: { kind: 'json' },
  jsonb: { kind: 'json' },
  'text[]': { kind: 'texts' },
  date: { kind: 'date' },
  'timestamp with time zone': { kind: 'moment' },
};

/** The kind of a column's values. Unknown types are text. */
export function kindOf({ type }: ViewColumn): ValueKind {
  const [, precision, scale] = /^numeric\((\d+),(\d+)\)$/.exec(type) ?? [];
  if (precision !== undefined) {
    return { kind: 'decimal', precision: Number(precision), scale: Number(scale) };
  }
  return KINDS[type.replace(/^timestamp\(\d\)/, 'timestamp')] ?? { kind: 'text' };
}

export function isNumeric({ kind }: ValueKind): boolean {
  return kind === 'integer' || kind === 'decimal' || kind === 'number' || kind === 'float';
}

const UTC = /^(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)\+00$/;

/** Converts PostgreSQL's text of a time in UTC to ISO 8601. Other text, such as infinity, stays unchanged. */
export function isoMoment(text: string): string {
  return text.replace(UTC, '$1T$2Z');
}

/** Microseconds since 1970. Null for infinity and for years of more than four digits. */
export function microseconds(text: string): bigint | null {
  if (text[4] !== '-' || !UTC.test(text)) return null;
  // Digit by digit, since substrings of millions of times would be garbage.
  const two = (at: number): number => digit(text, at) * 10 + digit(text, at + 1);
  const year = two(0) * 100 + two(2);
  // Date.UTC reads the years 0 to 99 as 1900 to 1999. Add 400 years (146,097 days) and subtract them again.
  const ms =
    Date.UTC(year + 400, two(5) - 1, two(8), two(11), two(14), two(17)) - 146_097 * 86_400_000;
  let micros = 0;
  for (let at = 20, unit = 100_000; at < text.length - 3; at++, unit /= 10) {
    micros += digit(text, at) * unit;
  }
  const all = ms * 1000 + micros;
  return Number.isSafeInteger(all) ? BigInt(all) : BigInt(ms) * 1000n + BigInt(micros);
}

function digit(text: string, at: number): number {
  return text.charCodeAt(at) - 48;
}

/** The start of a day in UTC. Null for infinity and for years of more than four digits. */
export function day(text: string): Date | null {
  return /^\d{4}-\d\d-\d\d$/.test(text) ? new Date(`${text}T00:00:00Z`) : null;
}

/** True if a double has every digit of the number. JavaScript and others read numbers as doubles. */
function isExact(text: string): boolean {
  const number = Number(text);
  return Number.isFinite(number) && digits(text) === digits(String(number));
}

/** Normal form: sign, digits without outer zeros, and the first digit's power of ten. `-12.50` → `-125e1`. */
function digits(text: string): string {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.replace(/^[-+]/, '').split('.');
  const all = whole + fraction;
  const first = all.search(/[1-9]/);
  if (first === -1) return '0';
  const power = Number(exponent) + whole.length - first - 1;
  const sign = mantissa.startsWith('-') ? '-' : '';
  return `${sign}${all.slice(first).replace(/0+$/, '')}e${power}`;
}

/**
 * Converts PostgreSQL's text of a value to JSON. Decimals, such as money, become strings with all digits, and so do
 * other numbers that a double can't hold exactly.
 */
function jsonOf(text: string, type: QueryColumn['type']): string {
  switch (type) {
    case 'boolean':
      return text === 't' ? 'true' : 'false';
    case 'number':
      return isExact(text) ? text : JSON.stringify(text);
    case 'json':
      // Don't parse it, which would round numbers. Line ends within strings are escaped already.
      return text.replaceAll(/[\t\r\n]/g, ' ');
    case 'texts':
      return JSON.stringify(textsOf(text));
    case 'moment':
      return JSON.stringify(isoMoment(text));
    case 'decimal':
    case 'text':
      return JSON.stringify(text);
  }
}

/** Encodes rows as JSON objects. Columns with the same name get `_2`, `_3` and so on. */
export function rowEncoder(columns: readonly QueryColumn[]): (row: TextRow) => string {
  const names = uniqueNames(columns.map(({ name }) => name)).map((name) => JSON.stringify(name));
  return (row) => {
    const members = columns.map(({ type }, n) => {
      const text = row[n] ?? null;
      return `${names[n]}:${text === null ? 'null' : jsonOf(text, type)}`;
    });
    return `{${members.join(',')}}`;
  };
}
