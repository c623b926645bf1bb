import { Literal } from './json.js';
import type { Wire, WireObject } from './json.js';
import { choose } from './profiles.js';
import type { Quirks } from './profiles.js';
import { MONEY_SALT } from './visible.js';

/** An amount; contract: a JSON number with two decimals (spec 2). */
export function money(cents: number | null, id: number, quirks: Quirks): Wire {
  if (cents === null) return null;
  switch (choose(quirks.money, id, MONEY_SALT)) {
    case 'decimal':
      return new Literal(decimal(cents));
    case 'string':
      return decimal(cents);
    case 'noise':
      return new Literal(String(bitBelow(cents / 100)));
    case 'whole':
    case 'short':
      return new Literal(String(cents / 100));
  }
}

function decimal(cents: number): string {
  const digits = String(Math.abs(cents)).padStart(3, '0');
  return `${cents < 0 ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`;
}

const bits = new DataView(new ArrayBuffer(8));

/**
 * The nearest double towards zero, as sums of floats come out: 21.1 → 21.099999999999998. Amounts
 * so large that this would cost a cent stay as they are.
 */
function bitBelow(value: number): number {
  if (value === 0 || Math.abs(value) > 1e12) return value;
  bits.setFloat64(0, value);
  bits.setBigUint64(0, bits.getBigUint64(0) - 1n);
  return bits.getFloat64(0);
}

/** A whole number, or its numeric string. */
export function number(value: number, id: number, quirks: Quirks): Wire {
  return choose(quirks.numbers, id, 16) === 'string' ? String(value) : value;
}

/** A moment with or without microseconds. */
export function timestamp(value: string, quirks: Quirks): string {
  return quirks.timestamps === 'microseconds' ? value.replace(/Z$/, '.000000Z') : value;
}

/** PHP writes an empty map as [] (field notes). */
export function emptied(map: WireObject, quirks: Quirks): Wire {
  const empty = Object.values(map).every((member) => member === undefined);
  return empty && quirks.emptyMaps === 'array' ? [] : map;
}
