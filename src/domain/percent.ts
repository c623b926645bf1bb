/** By how much an amount changed. */
export interface PercentChange {
  /** In percent, rounded to two decimals, half of one away from zero: `-20.00`. */
  readonly exact: string;
  /** `+12.5 %`, `-20.0 %`. */
  readonly text: string;
}

/**
 * By how much percent an amount changed, exactly: amounts are decimal text. Null when there was
 * nothing before to compare with, or one of them is no amount.
 */
export function percentChange(old: string, now: string): PercentChange | null {
  const [before, after] = [hundredths(old), hundredths(now)];
  if (before === null || after === null || before === 0n) return null;
  const base = before < 0n ? -before : before;
  const difference = after - before;
  const size = difference < 0n ? -difference : difference;
  /** In so many parts of a percent, rounded. */
  const inParts = (parts: bigint): bigint => (size * 200n * parts + base) / (2n * base);
  const [tenths, cents] = [inParts(10n), inParts(100n)];
  const fraction = String(cents % 100n).padStart(2, '0');
  return {
    exact: `${difference < 0n && cents > 0n ? '-' : ''}${cents / 100n}.${fraction}`,
    text: `${difference < 0n ? '-' : '+'}${tenths / 10n}.${tenths % 10n} %`,
  };
}

/** `12.5` → 1250n; null for what is no amount with at most two decimals. */
function hundredths(text: string): bigint | null {
  const parts = /^(-?)(\d+)(?:\.(\d{1,2})0*)?$/.exec(text);
  if (parts === null) return null;
  const [, sign = '', whole = '', fraction = ''] = parts;
  const size = BigInt(whole + fraction.padEnd(2, '0'));
  return sign === '' ? size : -size;
}
