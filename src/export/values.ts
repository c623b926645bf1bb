import type { ExportColumn } from '../store/exports.js';
import { textsOf, type QueryColumn } from '../store/read-only.js';

export type ValueKind =
  | { readonly kind: 'text' | 'boolean' | 'json' | 'texts' | 'date' | 'moment' | 'float' }
  | { readonly kind: 'integer'; readonly bits: 32 | 64 }
  | { readonly kind: 'decimal'; readonly precision: number; readonly scale: number }
  /** Digits without a limit: no format has an exact type for them. */
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

/** The kind of a column's values. Types that no view has are text. */
export function kindOf({ type }: ExportColumn): ValueKind {
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

/** PostgreSQL's text of a moment in UTC as ISO 8601; other text, such as infinity, stays as it is. */
export function isoMoment(text: string): string {
  return text.replace(UTC, '$1T$2Z');
}

/** Microseconds since 1970; null for infinity and years of more than four digits. */
export function microseconds(text: string): bigint | null {
  const [, day, time = ''] = UTC.exec(text) ?? [];
  if (day === undefined || day.length > 10) return null;
  const seconds = Date.parse(`${day}T${time.slice(0, 8)}Z`) / 1000;
  const fraction = time.slice(9).padEnd(6, '0');
  return BigInt(seconds) * 1_000_000n + BigInt(fraction);
}

/** The beginning of a day; null for infinity and years of more than four digits. */
export function day(text: string): Date | null {
  return /^\d{4}-\d\d-\d\d$/.test(text) ? new Date(`${text}T00:00:00Z`) : null;
}

/** True when a double, which JavaScript and others read numbers as, keeps every digit. */
export function isExact(text: string): boolean {
  const number = Number(text);
  return Number.isFinite(number) && digits(text) === digits(String(number));
}

/** Sign, digits without zeros around them, and the power of ten of the first: `-12.50` → `-125e1`. */
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
 * Writes PostgreSQL's text of a value as JSON. Decimals, such as money, are text with all their digits;
 * so is another number that a double can't hold exactly.
 */
export function jsonOf(text: string, type: QueryColumn['type']): string {
  switch (type) {
    case 'boolean':
      return text === 't' ? 'true' : 'false';
    case 'number':
      return isExact(text) ? text : JSON.stringify(text);
    case 'json':
      // As it is, since reading it would round its numbers. Within its texts line ends are escaped.
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
